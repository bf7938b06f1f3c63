#include "apps/ballast/commands/train_prepare.h"

#include <fmt/format.h>

#include "apps/ballast/models/image_file.h"
#include "apps/ballast/output/text.h"
#include "apps/ballast/output/train_report.h"
#include "apps/ballast/terminal/progress_bar.h"
#include "ballast/backends/backends.h"
#include "ballast/io/output_path.h"
#include "ballast/training/config/config_changes.h"
#include "ballast/training/make_trainable.h"
#include "ballast/training/run.h"
#include "ballast/training/tokenizer_files.h"

namespace ballast::cli {

namespace {

// Flags are shorter names of keys, and win over them.
Result<TrainConfig> read_train_config(const TrainFlags& flags) {
  std::vector<std::string> set = flags.set;
  const auto also = [&set](std::string_view key, const std::string& value) {
    if (!value.empty()) set.push_back(fmt::format("{}={}", key, value));
  };
  also("log.file", flags.log);
  also("log.report", flags.report);
  also("train.output", flags.output);
  also("checkpoint.folder", flags.checkpoints);
  also("checkpoint.resume", flags.resume);
  if (flags.steps != 0) also("train.steps", std::to_string(flags.steps));
  if (flags.threads != 0) also("train.threads", std::to_string(flags.threads));
  return load_train_config(flags.config, set);
}

// What is written at the end must not fail only then. A model that is there is looked at later where a run may turn out
// to be finished already.
Status check_destinations(const TrainFlags& flags, const TrainConfig& config) {
  const bool decide_later = !config.checkpoint.folder.empty();
  if (!config.train.output.empty())
    BALLAST_CHECK(check_output_path(config.train.output, flags.overwrite || decide_later));
  if (!config.log.file.empty()) BALLAST_CHECK(check_output_path(config.log.file, /*overwrite=*/true));
  if (config.log.report.empty()) return {};
  BALLAST_CHECK(check_report_path(config.log.report));
  return check_output_path(config.log.report, /*overwrite=*/true);
}

uint64_t count_parameters(Trainable& model) {
  uint64_t count = 0;
  for (const Param& param : model.trained()) count += param.shape().element_count().value_or(0);
  return count;
}

Status make_trainer(const TrainFlags& flags, const TrainConfig& config, Console& console, PreparedRun& run) {
  ProgressBar bar(console.errors());
  OpenDataSettings settings;
  BALLAST_TRY(settings.context, context_of(config.model));
  settings.seed = config.train.seed;
  settings.threads = static_cast<unsigned>(config.train.threads);
  settings.read_picture = read_picture;
  settings.progress = bar.callback();
  BALLAST_TRY(TrainingData data, open_training_data(config.data, config.eval, settings));
  BALLAST_TRY(auto model, make_trainable(config, data));
  run.data_name = data.training->name();
  run.examples = data.training->size();
  run.held_out = data.evaluation != nullptr ? data.evaluation->size() : 0;
  run.class_names.assign(data.training->class_names().begin(), data.training->class_names().end());
  run.parameters = count_parameters(*model);
  if (!config.train.output.empty())
    BALLAST_CHECK(check_tokenizer_place(config.train.output, data.companions, flags.overwrite));
  BALLAST_TRY(const Backend* backend, choose_backend(flags.backend));
  return assign(run.trainer,
                Trainer::make(config, std::move(model), std::move(data),
                              {.backend = backend, .threads = static_cast<unsigned>(config.train.threads)}));
}

void tell_changes(const PreparedRun& run, const std::string& saved, Console& console) {
  const auto before = parse_train_config(saved, "the checkpoint's configuration");
  if (!before) return;
  for (const std::string& change : describe_changes(*before, run.config()))
    console.remark(fmt::format("changed since the checkpoint: {}\n", printable(change)));
}

// Starting over would put new checkpoints in the place of what may still be saved.
Error all_damaged(const std::string& folder, const std::vector<std::string>& rejected) {
  return make_error(ErrorCode::kCorrupt,
                    fmt::format("{}: none of its checkpoints can be read, so the run can neither be resumed nor safely "
                                "started again: {}. Move them away to start from step 0, or choose another folder",
                                folder, rejected.front()));
}

Status resume_run(PreparedRun& run, Console& console) {
  const CheckpointSpec& spec = run.config().checkpoint;
  BALLAST_TRY(ResumeReport found, run.checkpoints->resume());
  for (const std::string& why : found.rejected) console.complain(fmt::format("skipped: {}", printable(why)));
  if (found.checkpoint && spec.resume == "never") {
    return make_error(ErrorCode::kExists, fmt::format("{}: there are already checkpoints up to step {}: choose another "
                                                      "folder, remove them, or set resume = \"auto\"",
                                                      spec.folder, found.checkpoint->step()));
  }
  if (!found.checkpoint) {
    if (!found.rejected.empty()) return all_damaged(spec.folder, found.rejected);
    if (spec.resume != "must") return {};
    return make_error(ErrorCode::kNotFound, fmt::format("{}: there is no checkpoint to resume from", spec.folder));
  }
  if (Status restored = run.trainer->restore(*found.checkpoint); !restored)
    return std::move(restored).error().with_context(spec.folder);
  run.resumed = found.checkpoint->step();
  run.so_far = found.checkpoint->metrics();
  const uint64_t total = run.trainer->total_steps();
  if (*run.resumed > total) {
    return make_error(ErrorCode::kInvalidArgument,
                      fmt::format("{}: the run is already at step {}, beyond the {} requested; request at least as "
                                  "many, or choose another folder",
                                  spec.folder, *run.resumed, total));
  }
  tell_changes(run, found.checkpoint->config_json(), console);
  return {};
}

// Checkpoints outlive the files they were made with: what is exported from them is prompted with this.
Status keep_tokenizer(const PreparedRun& run) {
  if (run.trainer->companions().empty()) return {};
  AtomicFiles set({.overwrite = true});
  BALLAST_CHECK(add_companions(set, run.config().checkpoint.folder + "/weights", run.trainer->companions()));
  return set.commit();
}

}  // namespace

Result<PreparedRun> prepare_run(const TrainFlags& flags, Console& console) {
  BALLAST_TRY(const TrainConfig config, read_train_config(flags));
  BALLAST_CHECK(check_destinations(flags, config));
  PreparedRun run;
  BALLAST_CHECK(make_trainer(flags, config, console, run));
  if (flags.check || config.checkpoint.folder.empty()) return run;
  CheckpointOptions options = checkpoint_options(config.checkpoint);
  options.threads = static_cast<unsigned>(config.train.threads);
  BALLAST_TRY(run.checkpoints, CheckpointManager::open(config.checkpoint.folder, options));
  BALLAST_CHECK(resume_run(run, console));
  BALLAST_CHECK(keep_tokenizer(run));
  if (!config.train.output.empty() && !run.was_finished())
    BALLAST_CHECK(check_output_path(config.train.output, flags.overwrite));
  return run;
}

}  // namespace ballast::cli
