#include <fmt/format.h>

#include <algorithm>
#include <memory>
#include <optional>

#include "apps/ballast/commands.h"
#include "apps/ballast/console.h"
#include "apps/ballast/flags.h"
#include "apps/ballast/image_file.h"
#include "apps/ballast/interrupt.h"
#include "apps/ballast/json_output.h"
#include "apps/ballast/progress_bar.h"
#include "apps/ballast/text.h"
#include "apps/ballast/train_display.h"
#include "apps/ballast/train_report.h"
#include "ballast/backends/backends.h"
#include "ballast/training/make_trainable.h"
#include "ballast/training/run.h"

namespace ballast::cli {

namespace {

struct TrainFlags {
  std::string config;
  std::vector<std::string> set;
  std::string log;
  std::string report;
  std::string output;
  std::string checkpoints;
  std::string resume;
  std::string backend;
  uint64_t steps = 0;
  unsigned threads = 0;
  bool check = false;
  bool quiet = false;
  bool json = false;
};

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
  BALLAST_TRY(TrainConfig config, load_train_config(flags.config, set));
  if (!config.log.report.empty()) BALLAST_CHECK(check_report_path(config.log.report));
  return config;
}

// A run that is ready to go on from where its checkpoints end.
struct PreparedRun {
  TrainConfig config;
  std::unique_ptr<Trainer> trainer;
  std::unique_ptr<CheckpointManager> checkpoints;
  std::optional<uint64_t> resumed;  // from this step
  std::string data_name;
  uint64_t parameters = 0;
};

uint64_t count_parameters(Trainable& model) {
  uint64_t count = 0;
  for (const Param& param : model.trained()) count += param.shape().element_count().value_or(0);
  return count;
}

Result<std::unique_ptr<Trainer>> make_trainer(const TrainFlags& flags, const TrainConfig& config, Console& console,
                                              PreparedRun& run) {
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
  run.parameters = count_parameters(*model);
  BALLAST_TRY(const Backend* backend, choose_backend(flags.backend));
  return Trainer::make(config, std::move(model), std::move(data),
                       {.backend = backend, .threads = static_cast<unsigned>(config.train.threads)});
}

// Lines of the configuration that are not as the checkpoint has them.
std::vector<std::string> changed_lines(const TrainConfig& config, const std::string& saved) {
  const auto before = parse_train_config(saved, "the checkpoint's configuration");
  if (!before) return {};
  std::vector<std::string> changed;
  const std::string now = config.to_json(true), then = before->to_json(true);
  for (size_t begin = 0, end = 0; begin < now.size(); begin = end + 1) {
    end = std::min(now.find('\n', begin), now.size());
    const std::string_view line = std::string_view(now).substr(begin, end - begin);
    if (then.find(line) == std::string::npos) changed.emplace_back(line.substr(line.find_first_not_of(' ')));
  }
  return changed;
}

Status resume_run(PreparedRun& run, Console& console) {
  const std::string& mode = run.config.checkpoint.resume;
  BALLAST_TRY(ResumeReport found, run.checkpoints->resume());
  for (const std::string& why : found.rejected) console.complain(fmt::format("passed over: {}", printable(why)));
  if (found.checkpoint && mode == "never") {
    return make_error(
        ErrorCode::kExists,
        fmt::format("{}: there are checkpoints up to step {} already: name another folder, remove them, or "
                    "resume = \"auto\"",
                    run.config.checkpoint.folder, found.checkpoint->step()));
  }
  if (!found.checkpoint) {
    if (mode != "must") return {};
    return make_error(ErrorCode::kNotFound,
                      fmt::format("{}: there is no sound checkpoint to go on from", run.config.checkpoint.folder));
  }
  if (Status restored = run.trainer->restore(*found.checkpoint); !restored) {
    return std::move(restored).error().with_context(run.config.checkpoint.folder);
  }
  for (const std::string& line : changed_lines(run.config, found.checkpoint->config_json())) {
    console.remark(fmt::format("differs from the checkpoint's configuration: {}\n", printable(line)));
  }
  run.resumed = found.checkpoint->step();
  return {};
}

Result<PreparedRun> prepare(const TrainFlags& flags, Console& console) {
  PreparedRun run;
  BALLAST_TRY(run.config, read_train_config(flags));
  BALLAST_TRY(run.trainer, make_trainer(flags, run.config, console, run));
  if (flags.check || run.config.checkpoint.folder.empty()) return run;
  CheckpointOptions options = checkpoint_options(run.config.checkpoint);
  options.threads = static_cast<unsigned>(run.config.train.threads);
  BALLAST_TRY(run.checkpoints, CheckpointManager::open(run.config.checkpoint.folder, options));
  BALLAST_CHECK(resume_run(run, console));
  return run;
}

constexpr std::string_view kHistoryName = "history.jsonl";

// Shows and writes down what happens, and stops at Ctrl-C.
class Watcher final : public RunObserver {
 public:
  Watcher(const TrainFlags& flags, PreparedRun& run)
      : run_(run),
        display_({.title = flags.config,
                  .total_steps = run.trainer->total_steps(),
                  .steps_per_epoch = run.trainer->steps_per_epoch(),
                  .item = std::string(run.trainer->model().item_name())},
                 flags.quiet || flags.json) {}

  Status open_log() {
    const std::string& path = run_.config.log.file;
    if (path.empty()) return {};
    auto log = run_.resumed ? TrainLog::resume(path, *run_.resumed) : TrainLog::create(path);
    if (!log) return std::move(log).error();
    log_.emplace(std::move(*log));
    return {};
  }

  // A report is of the whole run, also of what was done before: checkpoints have all steps beside them. Training goes
  // on without what cannot be read or written there.
  void open_history(Console& console) {
    if (run_.checkpoints == nullptr) return;
    const std::string path = fmt::format("{}/{}", run_.config.checkpoint.folder, kHistoryName);
    auto kept = run_.resumed ? TrainLog::resume(path, *run_.resumed) : TrainLog::create(path);
    if (!kept) {
      console.remark(fmt::format("a report will begin here: {}\n", printable(kept.error().message)));
      kept = TrainLog::create(path);
    }
    if (kept) kept_.emplace(std::move(*kept));
    if (run_.resumed) recall(path);
    if (run_.resumed && history_.last().step == 0) recall(run_.config.log.file);
  }

  Status on_event(const TrainEvent& event) override {
    display_.show(event);
    history_.add(event);
    if (kept_ && !kept_->write(event)) kept_.reset();
    if (!log_) return {};
    const auto* step = std::get_if<StepRecord>(&event);
    if (step != nullptr && step->step % run_.config.log.every != 0) return {};
    return log_->write(event);
  }

  bool wants_stop() override { return interrupted(); }
  TrainDisplay& display() { return display_; }
  const TrainHistory& history() const { return history_; }

 private:
  void recall(const std::string& path) {
    const auto events = read_train_log(path);
    if (!events) return;
    for (const TrainEvent& event : *events) history_.add(event);
  }

  PreparedRun& run_;
  TrainDisplay display_;
  TrainHistory history_;
  std::optional<TrainLog> log_;
  std::optional<TrainLog> kept_;  // beside the checkpoints
  CancelScope cancel_;
};

Status write_outputs(const TrainFlags& flags, PreparedRun& run, const TrainHistory& history, bool finished) {
  if (finished && !run.config.train.output.empty()) BALLAST_CHECK(run.trainer->save_model(run.config.train.output));
  if (run.config.log.report.empty()) return {};
  TrainReport report{
      .title = flags.config, .item = std::string(run.trainer->model().item_name()), .config = run.config.to_json(true)};
  report.facts = {{"data", run.data_name}, {"parameters", grouped(run.parameters)}};
  return write_train_report(run.config.log.report, report, history);
}

std::string train_json(const PreparedRun& run, const RunEnd& end) {
  JsonWriter json;
  json.begin_object();
  add_number(json, "step", run.trainer->step());
  add_number(json, "total_steps", run.trainer->total_steps());
  add_number(json, "steps_made", end.steps);
  add_number(json, "parameters", run.parameters);
  if (run.resumed) add_number(json, "resumed_from", *run.resumed);
  else add_null(json, "resumed_from");
  json.key("loss").real(end.last_loss);
  if (end.last_evaluation) {
    json.key("eval_loss").real(end.last_evaluation->loss);
    if (end.last_evaluation->accuracy) json.key("eval_accuracy").real(*end.last_evaluation->accuracy);
  }
  add_boolean(json, "finished", end.finished);
  if (end.finished && !run.config.train.output.empty()) add_text(json, "output", run.config.train.output);
  json.end_object();
  return json.take() + '\n';
}

void print_train_end(const PreparedRun& run, const RunEnd& end, Console& console) {
  std::string text = fmt::format("step {} of {}, loss {:.6g}", grouped(run.trainer->step()),
                                 grouped(run.trainer->total_steps()), end.last_loss);
  if (end.last_evaluation) {
    text += fmt::format(", evaluation {:.6g}", end.last_evaluation->loss);
    if (end.last_evaluation->accuracy) text += fmt::format(" ({:.2f}% right)", 100 * *end.last_evaluation->accuracy);
  }
  console.out() += text + '\n';
  if (end.finished && !run.config.train.output.empty()) {
    console.out() += fmt::format("wrote {}\n", printable(run.config.train.output));
  }
  if (!end.finished && run.checkpoints != nullptr) {
    console.remark("stopped; the same command goes on from here\n");
  }
}

int check_only(const PreparedRun& run, const TrainFlags& flags, Console& console) {
  if (flags.json) {
    console.out() += run.config.to_json(true) + '\n';
    return kExitYes;
  }
  console.out() += fmt::format("{} parameters, {} steps ({} an epoch), data {}\n", grouped(run.parameters),
                               grouped(run.trainer->total_steps()), grouped(run.trainer->steps_per_epoch()),
                               printable(run.data_name));
  console.out() += run.config.to_json(true) + '\n';
  return kExitYes;
}

int train(const TrainFlags& flags, Console& console) {
  auto run = prepare(flags, console);
  if (!run) return console.fail(run.error(), flags.json);
  if (flags.check) return check_only(*run, flags, console);
  if (run->trainer->step() >= run->trainer->total_steps()) {
    console.remark(fmt::format("the checkpoint is of step {} of {}: there is nothing left to do\n",
                               run->trainer->step(), run->trainer->total_steps()));
  }
  Watcher watcher(flags, *run);
  if (const Status opened = watcher.open_log(); !opened) return console.fail(opened.error(), flags.json);
  watcher.open_history(console);
  if (run->resumed) {
    const ResumeRecord resumed{*run->resumed, checkpoint_manifest_name(*run->resumed)};
    if (const Status told = watcher.on_event(resumed); !told) return console.fail(told.error(), flags.json);
  }
  const auto end = run_training(*run->trainer, run->checkpoints.get(), watcher);
  watcher.display().finish();
  if (!end) return console.fail(end.error(), flags.json);
  const Status written = write_outputs(flags, *run, watcher.history(), end->finished);
  if (!written) return console.fail(written.error(), flags.json);
  if (flags.json) console.out() += train_json(*run, *end);
  else print_train_end(*run, *end, console);
  return end->finished ? kExitYes : kExitInterrupted;
}

constexpr const char* kTrainFooter =
    "CONFIG names the model, the data, the optimizer and when to save; docs/training.md has all of its keys. A run "
    "that\n"
    "was stopped, by Ctrl-C or by a crash at any moment, goes on from its newest sound checkpoint when it is started\n"
    "again, to the same bits as if it had never stopped, with any number of threads.\n"
    "\n"
    "Examples:\n"
    "  ballast train digits.toml\n"
    "  ballast train digits.toml --steps 20 --set optimizer.lr=0.01 --log steps.jsonl --report run.html\n"
    "  ballast train digits.toml --check\n";

}  // namespace

RunCommand add_train(CLI::App& program, Console& console) {
  Command command(program, "train", "Train a model, with checkpoints to go on from");
  auto flags = std::make_shared<TrainFlags>();
  command.path("CONFIG", flags->config, "What to train on what: .toml or .json");
  command.texts("--set", "SECTION.KEY=VALUE", flags->set, "Another value for a key; may be repeated");
  command.count("--steps", "N", flags->steps, "How many steps in all", 1);
  command.text("--checkpoints", "FOLDER", flags->checkpoints, "Where checkpoints go");
  command.text("--resume", "auto|must|never", flags->resume, "Whether to go on from the checkpoints that are there");
  command.text("--out", "FILE", flags->output, "Where the trained model goes: .netcl, .gptrs or .safetensors");
  command.text("--log", "FILE", flags->log, "Each step as a line of JSON");
  command.text("--report", "FILE", flags->report, "Curves and figures at the end: .html or .svg");
  command.text("--backend", "NAME", flags->backend, "Which backend computes; `ballast backends` lists them");
  command.threads(flags->threads);
  command.flag("--check", flags->check, "Only check the configuration and the data, and show what would be done");
  command.flag("--quiet", flags->quiet, "Show nothing while training");
  command.json(flags->json);
  command.footer(kTrainFooter);
  return [flags, &console] { return train(*flags, console); };
}

}  // namespace ballast::cli
