#include <fmt/format.h>

#include <filesystem>
#include <memory>
#include <optional>

#include "apps/ballast/commands/commands.h"
#include "apps/ballast/commands/train_prepare.h"
#include "apps/ballast/flags/flags.h"
#include "apps/ballast/output/json_output.h"
#include "apps/ballast/output/text.h"
#include "apps/ballast/output/train_report.h"
#include "apps/ballast/terminal/interrupt.h"
#include "apps/ballast/terminal/train_display.h"
#include "ballast/nn/sequential_file.h"
#include "ballast/training/run.h"
#include "ballast/training/train_log.h"
#include "ballast/training/trainable.h"
#include "ballast/training/trainer.h"

namespace ballast::cli {

namespace {

// Shows what happens, keeps it for a report, and stops at Ctrl-C.
class Watcher final : public RunObserver {
 public:
  Watcher(const TrainFlags& flags, PreparedRun& run, Console& console)
      : run_(run),
        console_(console),
        display_({.title = flags.config,
                  .total_steps = run.trainer->total_steps(),
                  .steps_per_epoch = run.trainer->steps_per_epoch(),
                  .item = std::string(run.trainer->model().item_name())},
                 flags.quiet || flags.json) {}

  // A report is of the whole run, also of what was done before: checkpoints have all steps beside them. Training goes
  // on without what cannot be read or written there.
  void open_history() {
    if (run_.checkpoints == nullptr) return;
    const std::string path = history_path(run_.config().checkpoint.folder);
    auto kept = run_.resumed ? TrainLog::resume(path, *run_.resumed) : TrainLog::create(path);
    if (!kept) {
      console_.remark(fmt::format("a report will start at this step: {}\n", printable(kept.error().message)));
      kept = TrainLog::create(path);
    }
    if (kept) kept_.emplace(std::move(*kept));
    if (run_.resumed) recall(path);
    if (run_.resumed && history_.last().step == 0) recall(run_.config().log.file);
  }

  Status on_event(const TrainEvent& event) override {
    if (const auto* warning = std::get_if<WarningRecord>(&event)) {
      display_.clear();
      console_.complain(fmt::format("warning: step {}: {}", grouped(warning->step), printable(warning->text)));
    }
    display_.show(event);
    history_.add(event);
    if (kept_ && !kept_->write(event)) kept_.reset();
    return {};
  }

  bool wants_stop() override { return interrupted(); }
  TrainDisplay& display() { return display_; }
  const TrainHistory& history() const { return history_; }

 private:
  void recall(const std::string& path) {
    const auto events = read_train_log(path);
    if (!events) return;
    for (const TrainEvent& event : *events) {
      if (step_of(event) <= *run_.resumed) history_.add(event);  // what comes later is going to be done again
    }
  }

  PreparedRun& run_;
  Console& console_;
  TrainDisplay display_;
  TrainHistory history_;
  std::optional<TrainLog> kept_;  // beside the checkpoints
  CancelScope cancel_;
};

Status write_report(const TrainFlags& flags, PreparedRun& run, const TrainHistory& history) {
  const std::string& path = run.config().log.report;
  if (path.empty()) return {};
  BALLAST_CHECK(nn::create_parents(path));
  TrainReport report{.title = flags.config,
                     .item = std::string(run.trainer->model().item_name()),
                     .config = run.config().to_json(true)};
  report.facts = {{"data", run.data_name}, {"parameters", grouped(run.parameters)}};
  return write_train_report(path, report, history);
}

std::string train_json(const PreparedRun& run, const RunOutcome& outcome) {
  const RunEnd& end = outcome.end;
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
  if (outcome.wrote_output || outcome.kept_output) add_text(json, "output", run.config().train.output);
  json.end_object();
  return json.take() + '\n';
}

// What an interrupted run left, so that nobody has to guess.
std::string interrupted_text(const PreparedRun& run, const RunOutcome& outcome) {
  const std::string when =
      fmt::format("interrupted after step {} of {}", grouped(run.trainer->step()), grouped(run.trainer->total_steps()));
  if (run.checkpoints != nullptr) {
    return fmt::format("{}: saved in {}; the same command resumes the run\n", when,
                       printable(run.config().checkpoint.folder));
  }
  if (outcome.wrote_output) {
    return fmt::format(
        "{}: {} holds the model trained so far; the run cannot be resumed, because it has no checkpoints "
        "(--checkpoints FOLDER)\n",
        when, printable(run.config().train.output));
  }
  return fmt::format("{}: nothing was saved, because neither --checkpoints nor --out was given\n", when);
}

void print_train_end(const PreparedRun& run, const RunOutcome& outcome, Console& console) {
  const RunEnd& end = outcome.end;
  std::string text = fmt::format("step {} of {}, loss {}", grouped(run.trainer->step()),
                                 grouped(run.trainer->total_steps()), shown_loss(end.last_loss));
  if (end.last_evaluation) {
    text += fmt::format(", held out {}", shown_loss(end.last_evaluation->loss));
    if (end.last_evaluation->accuracy) text += fmt::format(" ({:.2f} % right)", 100 * *end.last_evaluation->accuracy);
  }
  console.out() += text + '\n';
  if (outcome.wrote_output) console.out() += fmt::format("wrote {}\n", printable(run.config().train.output));
  if (outcome.kept_output)
    console.out() += fmt::format("{} already exists and was kept\n", printable(run.config().train.output));
}

// ---------------------------------------------------------------- --check

std::string check_json(const PreparedRun& run, const StepRecord& tried, const std::string& warning) {
  JsonWriter json(/*pretty=*/true);
  json.begin_object();
  add_number(json, "parameters", run.parameters);
  add_number(json, "total_steps", run.trainer->total_steps());
  add_number(json, "steps_per_epoch", run.trainer->steps_per_epoch());
  add_number(json, "examples", run.examples);
  add_number(json, "held_out", run.held_out);
  json.key("loss").real(tried.loss);
  if (tried.grad_norm) json.key("grad_norm").real(*tried.grad_norm);
  if (!warning.empty()) add_text(json, "warning", warning);
  json.key("config").raw(run.config().to_json(true));
  json.end_object();
  return json.take() + '\n';
}

std::string class_list(const std::vector<std::string>& names) {
  constexpr size_t kShown = 8;
  std::string text;
  for (size_t i = 0; i < std::min(names.size(), kShown); ++i) text += (i == 0 ? "" : ", ") + printable(names[i]);
  return names.size() > kShown ? fmt::format("{} and {} more", text, names.size() - kShown) : text;
}

void print_train_check(const PreparedRun& run, const StepRecord& tried, Console& console) {
  std::string& out = console.out();
  out += fmt::format("{} parameters, {} steps ({} an epoch), data {}\n", grouped(run.parameters),
                     grouped(run.trainer->total_steps()), grouped(run.trainer->steps_per_epoch()),
                     printable(run.data_name));
  out += fmt::format("{}, {} held out\n", counted(run.examples, "example"), grouped(run.held_out));
  if (!run.class_names.empty())
    out += fmt::format("{} classes: {}\n", run.class_names.size(), class_list(run.class_names));
  out += fmt::format("one batch, forward and backward: loss {}, gradient {}, {:.1f} ms\n", shown_loss(tried.loss),
                     tried.grad_norm ? shown_loss(*tried.grad_norm) : "not finite in bf16", tried.seconds * 1e3);
  out += run.config().to_json(true) + '\n';
}

int check_only(const PreparedRun& run, const TrainFlags& flags, Console& console) {
  const auto tried = run.trainer->try_step();
  if (!tried) return console.fail(tried.error(), flags.json);
  const auto idle = run.trainer->params_without_gradient();
  if (!idle) return console.fail(idle.error(), flags.json);
  const std::string warning = tried->skipped ? "" : describe_idle_params(*idle);
  if (!warning.empty()) console.complain(fmt::format("warning: {}", printable(warning)));
  std::error_code none;
  const std::string& output = run.config().train.output;
  if (!output.empty() && !flags.overwrite && std::filesystem::exists(output, none))
    console.complain(fmt::format("warning: {} exists; --overwrite replaces it", printable(output)));
  if (flags.json) console.out() += check_json(run, *tried, warning);
  else print_train_check(run, *tried, console);
  return kExitYes;
}

int train(const TrainFlags& flags, Console& console) {
  auto run = prepare_run(flags, console);
  if (!run) return console.fail(run.error(), flags.json);
  if (flags.check) return check_only(*run, flags, console);
  if (run->was_finished()) {
    console.remark(
        fmt::format("this run is already finished: all {} steps are done; to continue it, raise steps or epochs\n",
                    grouped(run->trainer->total_steps())));
  }
  Watcher watcher(flags, *run, console);
  watcher.open_history();
  const auto outcome = complete_run(*run, watcher, flags.overwrite);
  watcher.display().finish();
  if (!outcome) return console.fail(outcome.error(), flags.json);
  if (const Status written = write_report(flags, *run, watcher.history()); !written)
    return console.fail(written.error(), flags.json);
  if (flags.json) console.out() += train_json(*run, *outcome);
  else print_train_end(*run, *outcome, console);
  if (outcome->end.finished) return kExitYes;
  console.remark(interrupted_text(*run, *outcome));
  return kExitInterrupted;
}

constexpr const char* kTrainFooter =
    "CONFIG describes the model, the data, the optimizer and when to save; docs/training.md lists all settings. With\n"
    "--checkpoints, a run stopped by Ctrl-C or a crash resumes from its newest intact checkpoint when you repeat the\n"
    "command. The result is bit for bit that of an uninterrupted run, with any number of threads.\n"
    "\n"
    "Examples:\n"
    "  ballast train digits.toml\n"
    "  ballast train digits.toml --steps 60 --overwrite --set optimizer.lr=0.01 --log steps.jsonl --report run.html\n"
    "  ballast train digits.toml --check\n";

}  // namespace

RunCommand add_train(CLI::App& program, Console& console) {
  Command command(program, "train", "Train a model and save checkpoints that a run can resume from");
  auto flags = std::make_shared<TrainFlags>();
  command.path("CONFIG", flags->config, "File that describes model, data and optimizer: .toml or .json");
  command.texts("--set", "SECTION.KEY=VALUE", flags->set, "Override a setting in CONFIG; may be repeated");
  command.count("--steps", "N", flags->steps, "Train for N steps in total, whatever CONFIG says", 1);
  command.written_folder("--checkpoints", "FOLDER", flags->checkpoints, "Save checkpoints in this folder");
  command.text("--resume", "auto|must|never", flags->resume,
               "Resume from existing checkpoints: if there are any (default), always, or never");
  command.written_file("--out", flags->output, "Save the trained model: .netcl, .gptrs or .safetensors");
  command.flag("--overwrite", flags->overwrite, "Replace an existing file at --out");
  command.written_file("--log", flags->log, "Log each step as a line of JSON");
  command.written_file("--report", flags->report, "Write loss curves and figures at the end: .html or .svg");
  command.text("--backend", "NAME", flags->backend, "Compute with this backend; `ballast backends` lists them");
  command.threads(flags->threads);
  command.flag("--check", flags->check, "Check config, data and output path, run one batch, and stop");
  command.flag("-q,--quiet", flags->quiet, "Show nothing while training");
  command.json(flags->json);
  command.footer(kTrainFooter);
  return [flags, &console] { return train(*flags, console); };
}

}  // namespace ballast::cli
