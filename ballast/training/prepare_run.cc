#include "ballast/training/prepare_run.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>

#include "ballast/backends/backends.h"
#include "ballast/base/json.h"
#include "ballast/io/guard.h"
#include "ballast/io/output_path.h"
#include "ballast/nn/sequential_file.h"
#include "ballast/training/config/config_changes.h"
#include "ballast/training/make_trainable.h"
#include "ballast/training/run.h"
#include "ballast/training/tokenizer_files.h"
#include "ballast/training/train_log.h"
#include "ballast/training/trainable.h"
#include "ballast/training/trainer.h"

namespace ballast {

namespace {

void tell(const std::function<void(std::string_view)>& listener, const std::string& text) {
  if (listener) listener(text);
}

// A path of the run, and what it is: "the data".
struct UsedPath {
  std::string what;
  std::string path;
};

void add_used_data(const DataSpec& data, std::vector<UsedPath>& used) {
  for (const std::string& path : data.paths) used.push_back({"the data", path});
  used.push_back({"the labels", data.labels});
  used.push_back({"the tokenizer", data.tokenizer});
}

// Everything that the run reads or works in. A model to start from may become the result.
std::vector<UsedPath> used_paths(const TrainConfig& config, const PrepareOptions& options) {
  std::vector<UsedPath> used;
  for (const auto& [path, what] : options.files_in_use) used.push_back({what, path});
  add_used_data(config.data, used);
  if (config.eval.data) add_used_data(*config.eval.data, used);
  used.push_back({"the checkpoint folder", config.checkpoint.folder});
  std::erase_if(used, [](const UsedPath& one) { return one.path.empty(); });
  return used;
}

// What is written must be nothing that the run needs otherwise, and no two results may be one file.
Status check_distinct(const TrainConfig& config, const PrepareOptions& options) {
  std::vector<UsedPath> used = used_paths(config, options);
  const auto claim = [&used](const std::string& what, const std::string& path) -> Status {
    if (path.empty()) return {};
    const auto other = std::ranges::find_if(used, [&](const UsedPath& one) { return is_same_place(one.path, path); });
    if (other != used.end()) {
      return make_error(ErrorCode::kInvalidArgument,
                        fmt::format("{}: is {} of this run and cannot be its {} too", path, other->what, what));
    }
    used.push_back({"the " + what, path});
    return {};
  };
  BALLAST_CHECK(claim("trained model", config.train.output));
  if (!config.model.init.empty()) used.push_back({"the model to start from", config.model.init});
  BALLAST_CHECK(claim("log", config.log.file));
  return claim("report", config.log.report);
}

// What is written at the end must not fail only then. A model that is there is looked at later where a run may turn out
// to be finished already.
Status check_destinations(const TrainConfig& config, const PrepareOptions& options) {
  const bool decide_later = !config.checkpoint.folder.empty();
  BALLAST_CHECK(check_distinct(config, options));
  if (!config.train.output.empty())
    BALLAST_CHECK(check_output_path(config.train.output, options.overwrite || decide_later));
  if (!config.log.file.empty()) {
    BALLAST_CHECK(check_output_path(config.log.file, /*overwrite=*/true));
    BALLAST_CHECK(check_log_place(config.log.file));
  }
  if (config.log.report.empty()) return {};
  return check_output_path(config.log.report, /*overwrite=*/true);
}

uint64_t count_parameters(Trainable& model) {
  uint64_t count = 0;
  for (const Param& param : model.trained()) count += param.shape().element_count().value_or(0);
  return count;
}

Status make_trainer(const TrainConfig& config, const PrepareOptions& options, PreparedRun& run) {
  OpenDataSettings settings;
  BALLAST_TRY(settings.context, context_of(config.model));
  settings.seed = config.train.seed;
  settings.threads = static_cast<unsigned>(config.train.threads);
  settings.read_picture = options.read_picture;
  settings.progress = options.progress;
  BALLAST_TRY(TrainingData data, open_training_data(config.data, config.eval, settings));
  BALLAST_TRY(auto model, make_trainable(config, data));
  run.data_name = data.training->name();
  run.examples = data.training->size();
  run.held_out = data.evaluation != nullptr ? data.evaluation->size() : 0;
  run.class_names.assign(data.training->class_names().begin(), data.training->class_names().end());
  run.parameters = count_parameters(*model);
  if (!config.train.output.empty())
    BALLAST_CHECK(check_tokenizer_place(config.train.output, data.companions, options.overwrite));
  BALLAST_TRY(const Backend* backend, choose_training_backend(options.backend));
  return assign(run.trainer,
                Trainer::make(config, std::move(model), std::move(data),
                              {.backend = backend, .threads = static_cast<unsigned>(config.train.threads)}));
}

void tell_changes(const PreparedRun& run, const std::string& saved, const PrepareOptions& options) {
  const auto before = parse_train_config(saved, "the checkpoint's configuration");
  if (!before) return;
  for (const std::string& change : describe_changes(*before, run.config()))
    tell(options.on_note, fmt::format("changed since the checkpoint: {}", change));
}

// Starting over would put new checkpoints in the place of what may still be saved.
Error all_damaged(const std::string& folder, const std::vector<std::string>& rejected) {
  return make_error(ErrorCode::kCorrupt,
                    fmt::format("{}: none of its checkpoints can be read, so the run can neither be resumed nor safely "
                                "started again: {}. Move them away to start from step 0, or choose another folder",
                                folder, rejected.front()));
}

Status resume_run(PreparedRun& run, const PrepareOptions& options) {
  const CheckpointSpec& spec = run.config().checkpoint;
  BALLAST_TRY(ResumeReport found, run.checkpoints->resume());
  for (const std::string& why : found.rejected) tell(options.on_complaint, fmt::format("skipped: {}", why));
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
  tell_changes(run, found.checkpoint->config_json(), options);
  return {};
}

// Checkpoints outlive the files they were made with: what is exported from them is prompted with this.
Status keep_tokenizer(const PreparedRun& run) {
  if (run.trainer->companions().empty()) return {};
  AtomicFiles set({.overwrite = true});
  BALLAST_CHECK(add_companions(set, run.config().checkpoint.folder + "/weights", run.trainer->companions()));
  return set.commit();
}

// Somebody else's file stands where the model was to go, and what was trained must not be lost: "model-1.gptrs".
Status save_beside(PreparedRun& run, const std::string& output) {
  constexpr int kMostNames = 100;
  const std::filesystem::path wanted(output);
  for (int number = 1; number <= kMostNames; ++number) {
    const std::string name = fmt::format("{}-{}{}", wanted.stem().string(), number, wanted.extension().string());
    const std::string path = (wanted.parent_path() / name).string();
    const Status saved = run.trainer->save_model(path, /*overwrite=*/false);
    if (!saved && saved.error().code == ErrorCode::kExists) continue;
    BALLAST_CHECK(saved);
    return make_error(ErrorCode::kExists,
                      fmt::format("{}: appeared during training, and overwriting was not asked for; the trained model "
                                  "is in {}",
                                  output, path));
  }
  return make_error(ErrorCode::kExists,
                    fmt::format("{}: appeared during training, and so did {} names beside it", output, kMostNames));
}

Status write_model(PreparedRun& run, bool overwrite, RunOutcome& outcome) {
  const std::string& output = run.config().train.output;
  const bool wanted = outcome.end.finished || run.checkpoints == nullptr;
  if (output.empty() || !wanted) return {};
  std::error_code none;
  outcome.kept_output = outcome.end.steps == 0 && !overwrite && std::filesystem::exists(output, none);
  if (outcome.kept_output) return {};
  const Status saved = run.trainer->save_model(output, overwrite);
  if (!saved && saved.error().code == ErrorCode::kExists && !overwrite) return save_beside(run, output);
  BALLAST_CHECK(saved);
  outcome.wrote_output = true;
  return {};
}

// Writes the log that the configuration asks for, beside what the observer does.
class LoggedRun final : public RunObserver {
 public:
  explicit LoggedRun(RunObserver& observer) : observer_(observer) {}

  Status open(const PreparedRun& run) {
    const LogSpec& spec = run.config().log;
    every_ = spec.every;
    if (spec.file.empty()) return {};
    BALLAST_CHECK(nn::create_parents(spec.file));
    BALLAST_TRY(TrainLog log, run.resumed ? TrainLog::resume(spec.file, *run.resumed) : TrainLog::create(spec.file));
    log_.emplace(std::move(log));
    return {};
  }

  Status on_event(const TrainEvent& event) override {
    BALLAST_CHECK(observer_.on_event(event));
    if (!log_) return {};
    const auto* step = std::get_if<StepRecord>(&event);
    if (step != nullptr && step->step % every_ != 0) return {};
    return log_->write(event);
  }
  bool wants_stop() override { return observer_.wants_stop(); }

 private:
  RunObserver& observer_;
  std::optional<TrainLog> log_;
  uint64_t every_ = 1;
};

}  // namespace

PreparedRun::PreparedRun() = default;
PreparedRun::~PreparedRun() = default;
PreparedRun::PreparedRun(PreparedRun&&) noexcept = default;
PreparedRun& PreparedRun::operator=(PreparedRun&&) noexcept = default;

const TrainConfig& PreparedRun::config() const { return trainer->config(); }
uint64_t PreparedRun::step() const { return trainer->step(); }
uint64_t PreparedRun::total_steps() const { return trainer->total_steps(); }
bool PreparedRun::was_finished() const { return resumed && step() == total_steps(); }

Result<PreparedRun> prepare_run(const TrainConfig& config, const PrepareOptions& options) {
  return guarded([&]() -> Result<PreparedRun> {
    if (!config.log.report.empty() && !options.writes_report) {
      return make_error(ErrorCode::kInvalidArgument, "log.report: no report is written here; leave it out");
    }
    BALLAST_CHECK(check_destinations(config, options));
    PreparedRun run;
    BALLAST_CHECK(make_trainer(config, options, run));
    if (!options.checkpoints || config.checkpoint.folder.empty()) return run;
    CheckpointOptions policy = checkpoint_options(config.checkpoint);
    policy.threads = static_cast<unsigned>(config.train.threads);
    BALLAST_TRY(run.checkpoints, CheckpointManager::open(config.checkpoint.folder, policy));
    BALLAST_CHECK(resume_run(run, options));
    BALLAST_CHECK(keep_tokenizer(run));
    if (!config.train.output.empty() && !run.was_finished())
      BALLAST_CHECK(check_output_path(config.train.output, options.overwrite));
    return run;
  });
}

Result<RunOutcome> complete_run(PreparedRun& run, RunObserver& observer, bool overwrite) {
  return guarded([&]() -> Result<RunOutcome> {
    LoggedRun logged(observer);
    BALLAST_CHECK(logged.open(run));
    if (run.resumed) BALLAST_CHECK(logged.on_event(ResumeRecord{*run.resumed, checkpoint_manifest_name(*run.resumed)}));
    RunOutcome outcome;
    BALLAST_CHECK(assign(outcome.end, run_training(*run.trainer, run.checkpoints.get(), logged, run.so_far)));
    BALLAST_CHECK(write_model(run, overwrite, outcome));
    return outcome;
  });
}

std::string to_json(const PreparedRun& run, const RunOutcome& outcome) {
  const RunEnd& end = outcome.end;
  JsonWriter json;
  const auto add_real = [&json](std::string_view key, std::optional<double> value) {
    json.key(key);
    if (value) json.real(*value);
    else json.null();
  };
  json.begin_object().key("step").number(run.trainer->step()).key("total_steps").number(run.trainer->total_steps());
  json.key("steps_made").number(end.steps).key("parameters").number(run.parameters).key("resumed_from");
  if (run.resumed) json.number(*run.resumed);
  else json.null();
  add_real("loss", end.last_loss);
  add_real("eval_loss", end.last_evaluation ? std::optional(end.last_evaluation->loss) : std::nullopt);
  add_real("eval_accuracy", end.last_evaluation ? end.last_evaluation->accuracy : std::nullopt);
  json.key("finished").boolean(end.finished).key("output");
  if (outcome.wrote_output || outcome.kept_output) json.string(run.config().train.output);
  else json.null();
  json.key("config").raw(run.config().to_json()).end_object();
  return json.take();
}

}  // namespace ballast
