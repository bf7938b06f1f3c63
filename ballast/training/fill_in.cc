#include "ballast/training/fill_in.h"

#include <fmt/format.h>

namespace ballast {

namespace {

bool takes_classes(std::string_view loss) { return loss == "cross_entropy" || loss == "hinge"; }

Error unsuited(const LossSpec& loss, std::string_view why) {
  return make_error(ErrorCode::kInvalidArgument, fmt::format("[loss] type \"{}\" {}", loss.type, why));
}

void set_if_zero(uint64_t& number, uint64_t found) {
  if (number == 0) number = found;
}

void fill_classes(DataSpec& data, const ExampleLayout& layout) {
  if (layout.targets == TargetKind::kClasses && data.kind != "images" && !data.is_text())
    set_if_zero(data.classes, layout.classes);
}

}  // namespace

Result<LossSpec> choose_loss(const LossSpec& asked, const ExampleLayout& layout) {
  LossSpec loss = asked;
  const bool values = layout.targets == TargetKind::kValues;
  if (loss.type == "auto") {
    loss.type = values && !layout.shares ? "mse" : "cross_entropy";
    loss.reduction = "mean";
    return loss;
  }
  if (layout.targets == TargetKind::kTokens && loss.type != "cross_entropy")
    return unsuited(loss, "is not for text: a text model trains with \"cross_entropy\"");
  if (layout.targets == TargetKind::kClasses && !takes_classes(loss.type)) {
    return unsuited(loss,
                    "compares numbers, but the targets are classes: take \"cross_entropy\" or \"hinge\", or have the "
                    "targets read as numbers with [data] target = \"values\"");
  }
  if (values && loss.type == "hinge") return unsuited(loss, "needs classes, but the targets are numbers: take \"mse\"");
  // The share of one class alone is always 1: the loss would be 0 whatever the model says.
  if (values && loss.type == "cross_entropy" && layout.target_count() < 2) {
    return unsuited(loss,
                    "needs classes, but the targets are one number for each example: take \"mse\", or have them read "
                    "as classes with [data] target = \"classes\"");
  }
  return loss;
}

void fill_in_config(TrainConfig& config, const ExampleLayout& layout, uint64_t batch_size, uint64_t calls) {
  const bool classes = layout.targets == TargetKind::kClasses;
  if (config.model.kind == "mlp") {
    set_if_zero(config.model.mlp.in, layout.feature_count());
    set_if_zero(config.model.mlp.out, classes ? layout.classes : layout.target_count());
  }
  if (config.model.kind == "gpt") set_if_zero(config.model.gpt.vocab_size, layout.classes);
  fill_classes(config.data, layout);
  if (config.eval.data) fill_classes(*config.eval.data, layout);
  set_if_zero(config.train.batch_size, batch_size);
  ScheduleSpec& schedule = config.schedule;
  if (schedule.type == "warmup_cosine") set_if_zero(schedule.total, calls);
  if ((schedule.type == "warmup_cosine" || schedule.type == "cosine_annealing") && schedule.max_lr == 0)
    schedule.max_lr = config.optimizer.lr;
}

}  // namespace ballast
