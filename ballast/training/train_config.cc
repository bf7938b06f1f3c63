#include "ballast/training/train_config.h"

#include <fmt/format.h>

#include <algorithm>

#include "ballast/io/file_system.h"
#include "ballast/io/guard.h"
#include "ballast/training/config/train_config_sections.h"

namespace ballast::train_config {

namespace {

// ---------------------------------------------------------------- [train], [checkpoint], [eval], [log]

Status read_train(const Sections& sections, RunSpec& train) {
  BALLAST_TRY(ConfigSection section, sections.open("train"));
  BALLAST_TRY(train.steps, section.count("steps", 0));
  BALLAST_TRY(train.epochs, section.count("epochs", 0));
  BALLAST_TRY(train.batch_size, section.count("batch_size", train.batch_size, 0, kMostSide));
  BALLAST_TRY(train.accumulation, section.count("accumulation", train.accumulation, 1, kMostSide));
  BALLAST_TRY(train.clip_grad_norm, section.real("clip_grad_norm", train.clip_grad_norm, kNotNegative));
  BALLAST_TRY(train.ema, section.real("ema", train.ema, kPart));
  BALLAST_TRY(train.precision, section.choice("precision", train.precision, {"f32", "bf16"}));
  BALLAST_TRY(train.seed, section.count("seed", train.seed));
  BALLAST_TRY(train.threads, section.count("threads", train.threads, 0, 4096));
  BALLAST_TRY(train.output, section.path("output"));
  section.also_called("batch", "batch_size");
  section.also_called("max_steps", "steps");
  section.also_called("iterations", "steps");
  section.also_called("grad_clip", "clip_grad_norm");
  section.also_called("clip", "clip_grad_norm");
  section.also_called("mixed_precision", "precision");
  section.also_called("accumulation_steps", "accumulation");
  section.also_called("save", "output");
  BALLAST_CHECK(section.finish());
  if (train.steps == 0 && train.epochs == 0)
    return section.error("steps", "is missing; say how long to train, in steps or in epochs");
  if (train.steps != 0 && train.epochs != 0) return section.error("steps", "and epochs are both given; one decides");
  return {};
}

Status read_checkpoint(const Sections& sections, CheckpointSpec& checkpoint) {
  BALLAST_TRY(ConfigSection section, sections.open("checkpoint"));
  BALLAST_TRY(checkpoint.folder, section.path("folder"));
  BALLAST_TRY(checkpoint.every, section.count("every", checkpoint.every));
  BALLAST_TRY(checkpoint.keep_last, section.count("keep_last", checkpoint.keep_last, 1));
  BALLAST_TRY(checkpoint.keep_best,
              section.choice("keep_best", "none", {"none", "loss", "eval_loss", "eval_accuracy"}));
  if (checkpoint.keep_best == "none") checkpoint.keep_best.clear();
  BALLAST_TRY(checkpoint.keep_every, section.count("keep_every", checkpoint.keep_every));
  BALLAST_TRY(checkpoint.format,
              section.choice("format", checkpoint.format, {"safetensors", "burnpack", "gptrs", "netcl"}));
  BALLAST_TRY(checkpoint.resume, section.choice("resume", checkpoint.resume, {"auto", "must", "never"}));
  BALLAST_TRY(checkpoint.asynchronous, section.truth("asynchronous", checkpoint.asynchronous));
  section.also_called("path", "folder");
  section.also_called("dir", "folder");
  section.also_called("interval", "every");
  BALLAST_CHECK(section.finish());
  if (!checkpoint.folder.empty() || sections.root.find("checkpoint") == nullptr) return {};
  const ConfigValue& table = *sections.root.find("checkpoint");
  if (table.members.empty() || section.has("folder")) return {};
  return section.error("folder", "is missing; it says where checkpoints go: folder = \"run\"");
}

Status read_eval(const Sections& sections, EvalSpec& eval) {
  BALLAST_TRY(ConfigSection section, sections.open("eval"));
  BALLAST_TRY(eval.every, section.count("every", eval.every));
  BALLAST_TRY(eval.batches, section.count("batches", eval.batches));
  if (section.has("data")) {
    BALLAST_TRY(ConfigSection data, sections.open_in(*sections.root.find("eval"), "data", "[eval.data]"));
    BALLAST_CHECK(read_data(data, eval.data.emplace(), /*for_training=*/false));
  }
  return section.finish();
}

Status read_log(const Sections& sections, LogSpec& log) {
  BALLAST_TRY(ConfigSection section, sections.open("log"));
  BALLAST_TRY(log.file, section.path("file"));
  BALLAST_TRY(log.every, section.count("every", log.every, 1));
  BALLAST_TRY(log.report, section.path("report"));
  section.also_called("path", "file");
  return section.finish();
}

// ---------------------------------------------------------------- what holds between sections

Status check_together(const std::string& file, const TrainConfig& config) {
  const auto wrong = [&](const std::string& what) {
    return make_error(ErrorCode::kInvalidArgument, fmt::format("{}: {}", file, what));
  };
  const auto measured = [&](const std::string& metric) { return metric.starts_with("eval_") && !config.evaluates(); };
  if (measured(config.checkpoint.keep_best) || measured(config.schedule.metric))
    return wrong(
        "a metric of the evaluation is asked for, but nothing is evaluated: set [data] held_out or [eval.data]");
  if (config.eval.data && config.data.held_out > 0)
    return wrong("[data] held_out and [eval.data] are both given; one decides what is evaluated");
  if (config.model.kind == "gpt" && !config.data.is_text()) {
    return wrong(
        fmt::format("[model] kind \"gpt\" trains on [data] kind \"text\", or on the column of a table that "
                    "[data] text names, not on \"{}\"",
                    config.data.kind));
  }
  if (config.eval.data && config.eval.data->is_text() != config.data.is_text())
    return wrong(fmt::format("[eval.data] kind \"{}\" cannot evaluate what [data] kind \"{}\" trains",
                             config.eval.data->kind, config.data.kind));
  const ScheduleSpec& schedule = config.schedule;
  const double high = schedule.max_lr > 0 ? schedule.max_lr : config.optimizer.lr;
  if (schedule.min_lr > high)
    return wrong(fmt::format("[schedule] min_lr is {}, above the rate it starts from ({})", schedule.min_lr, high));
  return {};
}

Result<TrainConfig> read_config(const std::string& file, const std::string& folder, const ConfigValue& root) {
  if (root.kind != ConfigValue::Kind::kTable) {
    return make_error(ErrorCode::kInvalidArgument,
                      fmt::format("{}: is {}; a configuration is a table of sections", file, root.describe()));
  }
  ConfigSection top(file, folder, "the file", &root);
  for (const std::string_view name :
       {"model", "data", "optimizer", "schedule", "loss", "train", "checkpoint", "eval", "log"}) {
    top.find(name);
  }
  top.also_called("training", "train");
  top.also_called("scheduler", "schedule");
  top.also_called("optim", "optimizer");
  top.also_called("dataset", "data");
  top.also_called("validation", "eval");
  BALLAST_CHECK(top.finish());
  const Sections sections{file, folder, root};
  TrainConfig config;
  BALLAST_CHECK(read_model(sections, config.model));
  BALLAST_TRY(ConfigSection data, sections.open("data"));
  BALLAST_CHECK(read_data(data, config.data, /*for_training=*/true));
  BALLAST_CHECK(read_optimizer(sections, config.optimizer));
  BALLAST_CHECK(read_schedule(sections, config.schedule));
  BALLAST_CHECK(read_loss(sections, config.loss));
  BALLAST_CHECK(read_train(sections, config.train));
  BALLAST_CHECK(read_checkpoint(sections, config.checkpoint));
  BALLAST_CHECK(read_eval(sections, config.eval));
  BALLAST_CHECK(read_log(sections, config.log));
  BALLAST_CHECK(check_together(file, config));
  return config;
}

// `--steps 20` for a file that counts epochs, and the other way round: what the command line says decides alone.
void settle_length(ConfigValue& root) {
  ConfigValue* train = root.kind == ConfigValue::Kind::kTable ? root.find("train") : nullptr;
  if (train == nullptr || train->kind != ConfigValue::Kind::kTable) return;
  const ConfigValue* steps = train->find("steps");
  const ConfigValue* epochs = train->find("epochs");
  if (steps == nullptr || epochs == nullptr || steps->from_command == epochs->from_command) return;
  const std::string_view loser = steps->from_command ? "epochs" : "steps";
  std::erase_if(train->members, [loser](const ConfigMember& member) { return member.name == loser; });
}

Status apply_overrides(ConfigValue& root, const std::vector<std::string>& overrides) {
  for (const std::string& override_text : overrides) {
    if (root.kind == ConfigValue::Kind::kTable) BALLAST_CHECK(set_config_value(root, override_text));
  }
  settle_length(root);
  return {};
}

}  // namespace

}  // namespace ballast::train_config

namespace ballast {

Result<TrainConfig> load_train_config(const std::string& path, const std::vector<std::string>& overrides) {
  return guarded([&]() -> Result<TrainConfig> {
    BALLAST_TRY(ConfigValue root, read_config_file(path));
    BALLAST_CHECK(train_config::apply_overrides(root, overrides));
    return train_config::read_config(path, split_path(path).folder, root);
  });
}

Result<TrainConfig> parse_train_config(std::string_view json, const std::string& where,
                                       const std::vector<std::string>& overrides) {
  return guarded([&]() -> Result<TrainConfig> {
    BALLAST_TRY(ConfigValue root, parse_config_json(json, where));
    BALLAST_CHECK(train_config::apply_overrides(root, overrides));
    return train_config::read_config(where, "", root);
  });
}

}  // namespace ballast
