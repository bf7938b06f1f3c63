// [optimizer], [schedule] and [loss]
#include <fmt/format.h>

#include "ballast/training/config/train_config_sections.h"

namespace ballast::train_config {

namespace {

Status read_cosine(ConfigSection& section, ScheduleSpec& schedule) {
  const bool annealing = schedule.type == "cosine_annealing";
  BALLAST_TRY(schedule.unit, section.choice("unit", schedule.unit, {"step", "epoch"}));
  BALLAST_TRY(schedule.max_lr, section.real("max_lr", 0, kNotNegative));
  BALLAST_TRY(schedule.min_lr, section.real("min_lr", annealing ? 1e-5 : 0, kNotNegative));
  BALLAST_TRY(schedule.warmup, section.count("warmup", annealing ? 0 : 5));
  if (annealing) {
    BALLAST_TRY(schedule.warmup_start, section.real("warmup_start", 1e-6, kNotNegative));
    BALLAST_TRY(schedule.period, section.count("period", 10, 1));
  } else {
    BALLAST_TRY(schedule.total, section.count("total", 0));
  }
  return {};
}

Status read_plateau(ConfigSection& section, ScheduleSpec& schedule) {
  BALLAST_TRY(schedule.factor, section.real("factor", 0.1, {.most = 1, .above = true, .below = true}));
  BALLAST_TRY(schedule.patience, section.count("patience", 10, 1));
  BALLAST_TRY(schedule.min_lr, section.real("min_lr", 0, kNotNegative));
  BALLAST_TRY(schedule.threshold, section.real("threshold", 1e-4, kNotNegative));
  BALLAST_TRY(schedule.mode, section.choice("mode", "min", {"min", "max"}));
  BALLAST_TRY(schedule.metric, section.choice("metric", "loss", {"loss", "eval_loss", "eval_accuracy"}));
  return {};
}

}  // namespace

Status read_optimizer(const Sections& sections, OptimizerSpec& optimizer) {
  BALLAST_TRY(ConfigSection section, sections.open("optimizer"));
  BALLAST_TRY(optimizer.type, section.choice("type", optimizer.type, {"sgd", "momentum", "adam", "adamw", "rmsprop"}));
  const std::string& type = optimizer.type;
  const std::vector<TypedKey> rows = {{"momentum", {"sgd", "momentum", "rmsprop"}},
                                      {"nesterov", {"momentum"}},
                                      {"betas", {"adam", "adamw"}},
                                      {"eps", {"adam", "adamw", "rmsprop"}},
                                      {"alpha", {"rmsprop"}}};
  declare_foreign(section, "type", type, rows);
  section.also_called("learning_rate", "lr");
  section.also_called("beta1", "betas");
  section.also_called("beta2", "betas");
  section.also_called("epsilon", "eps");
  section.also_called("decay", "weight_decay");
  section.also_called("name", "type");
  BALLAST_TRY(optimizer.lr, section.real("lr", type == "sgd" || type == "momentum" ? 0.01 : 1e-3, kPositive));
  BALLAST_TRY(optimizer.weight_decay, section.real("weight_decay", type == "adamw" ? 0.01 : 0, kNotNegative));
  if (goes_with(rows[0], type)) {
    BALLAST_TRY(optimizer.momentum, section.real("momentum", type == "momentum" ? 0.9 : 0, kPart));
  }
  if (goes_with(rows[1], type)) {
    BALLAST_TRY(optimizer.nesterov, section.truth("nesterov", false));
  }
  if (goes_with(rows[2], type)) {
    BALLAST_TRY(const auto betas, section.two_reals("betas", {0.9, 0.999}, kPart));
    optimizer.beta1 = betas.first;
    optimizer.beta2 = betas.second;
  }
  if (goes_with(rows[3], type)) {
    BALLAST_TRY(optimizer.eps, section.real("eps", optimizer.eps, kPositive));
  }
  if (goes_with(rows[4], type)) {
    BALLAST_TRY(optimizer.alpha, section.real("alpha", optimizer.alpha, kPart));
  }
  return section.finish();
}

Status read_schedule(const Sections& sections, ScheduleSpec& schedule) {
  BALLAST_TRY(ConfigSection section, sections.open("schedule"));
  BALLAST_TRY(schedule.type, section.choice("type", schedule.type,
                                            {"constant", "warmup_cosine", "cosine_annealing", "reduce_on_plateau"}));
  const std::string_view cosine = "warmup_cosine", annealing = "cosine_annealing", plateau = "reduce_on_plateau";
  declare_foreign(section, "type", schedule.type,
                  {{"unit", {cosine, annealing}},
                   {"max_lr", {cosine, annealing}},
                   {"warmup", {cosine, annealing}},
                   {"min_lr", {cosine, annealing, plateau}},
                   {"total", {cosine}},
                   {"period", {annealing}},
                   {"warmup_start", {annealing}},
                   {"factor", {plateau}},
                   {"patience", {plateau}},
                   {"threshold", {plateau}},
                   {"mode", {plateau}},
                   {"metric", {plateau}}});
  section.also_called("T_max", "period");
  section.also_called("warmup_epochs", "warmup");
  section.also_called("warmup_steps", "warmup");
  section.also_called("max_epochs", "total");
  if (schedule.type == cosine || schedule.type == annealing) BALLAST_CHECK(read_cosine(section, schedule));
  if (schedule.type == plateau) BALLAST_CHECK(read_plateau(section, schedule));
  return section.finish();
}

Status read_loss(const Sections& sections, LossSpec& loss) {
  BALLAST_TRY(ConfigSection section, sections.open("loss"));
  BALLAST_TRY(loss.type,
              section.choice("type", loss.type,
                             {"auto", "cross_entropy", "mse", "l1", "smooth_l1", "bce", "bce_logits", "hinge"}));
  declare_foreign(
      section, "type", loss.type,
      {{"beta", {"smooth_l1"}}, {"margin", {"hinge"}}, {"reduction", {"mse", "l1", "smooth_l1", "bce", "bce_logits"}}});
  const bool sums = loss.type == "mse" || loss.type == "l1" || loss.type == "smooth_l1";
  if (sums || loss.type.starts_with("bce")) {
    BALLAST_TRY(loss.reduction, section.choice("reduction", sums ? "sum" : "mean", {"sum", "mean"}));
  }
  if (loss.type == "smooth_l1") {
    BALLAST_TRY(loss.beta, section.real("beta", loss.beta, kPositive));
  }
  if (loss.type == "hinge") {
    BALLAST_TRY(loss.margin, section.real("margin", loss.margin, kPositive));
  }
  return section.finish();
}

}  // namespace ballast::train_config
