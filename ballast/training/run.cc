#include "ballast/training/run.h"

#include <fmt/format.h>

#include <algorithm>

#include "ballast/io/guard.h"

namespace ballast {

namespace {

class Run {
 public:
  Run(Trainer& trainer, CheckpointManager* checkpoints, RunObserver& observer, const Metrics& so_far)
      : trainer_(trainer), checkpoints_(checkpoints), observer_(observer) {
    for (const auto& [name, value] : so_far) recall(name, value);
  }

  Result<RunEnd> until_the_end() {
    bool stopped = false;
    while (trainer_.step() < trainer_.total_steps() && !stopped) {
      BALLAST_TRY(const StepRecord record, trainer_.advance());
      end_.last_loss = record.loss;
      ++end_.steps;
      BALLAST_CHECK(observer_.on_event(record));
      BALLAST_CHECK(warn_of_idle_params(record));
      stopped = observer_.wants_stop();
      if (is_evaluation_due() && !stopped) BALLAST_CHECK(evaluate());
      if (is_checkpoint_due() || stopped) BALLAST_CHECK(save());
    }
    end_.finished = !stopped || trainer_.step() == trainer_.total_steps();
    if (checkpoints_ != nullptr) BALLAST_CHECK(checkpoints_->finish());
    return end_;
  }

 private:
  void recall(const std::string& name, double value) {
    if (name == "loss") end_.last_loss = value;
    if (!name.starts_with("eval_")) return;
    if (!end_.last_evaluation) end_.last_evaluation = EvalRecord{.step = trainer_.step()};
    if (name == "eval_loss") end_.last_evaluation->loss = value;
    if (name == "eval_accuracy") end_.last_evaluation->accuracy = value;
  }

  // A run that learns nothing looks like one that does. Looked at after the first step, and when everything is zero.
  Status warn_of_idle_params(const StepRecord& record) {
    const bool look = end_.steps == 1 || record.grad_norm == 0.0;
    if (warned_ || !look || record.skipped) return {};
    BALLAST_TRY(const std::vector<std::string> idle, trainer_.params_without_gradient());
    const std::string text = describe_idle_params(idle);
    if (text.empty()) return {};
    warned_ = true;
    return observer_.on_event(WarningRecord{record.step, text});
  }

  bool is_last() const { return trainer_.step() == trainer_.total_steps(); }

  bool is_evaluation_due() const {
    if (!trainer_.evaluates()) return false;
    const uint64_t every = trainer_.config().eval.every;
    return is_last() || (every == 0 ? trainer_.at_epoch_end() : trainer_.step() % every == 0);
  }
  bool is_checkpoint_due() const {
    const uint64_t every = trainer_.config().checkpoint.every;
    return is_last() || (every != 0 && trainer_.step() % every == 0);
  }

  Status evaluate() {
    BALLAST_TRY(const EvalRecord result, trainer_.evaluate());
    end_.last_evaluation = result;
    return observer_.on_event(result);
  }

  Status save() {
    if (checkpoints_ == nullptr) return {};
    Metrics metrics{{"loss", end_.last_loss}};
    if (end_.last_evaluation) {
      metrics.emplace_back("eval_loss", end_.last_evaluation->loss);
      if (end_.last_evaluation->accuracy) metrics.emplace_back("eval_accuracy", *end_.last_evaluation->accuracy);
    }
    BALLAST_TRY(const TrainingSnapshot snapshot, trainer_.snapshot(std::move(metrics)));
    BALLAST_TRY(const SaveReport report, checkpoints_->save(snapshot));
    if (!trainer_.config().checkpoint.asynchronous) BALLAST_CHECK(checkpoints_->finish());
    return observer_.on_event(CheckpointRecord{.step = trainer_.step(),
                                               .path = checkpoint_manifest_name(trainer_.step()),
                                               .bytes = report.bytes,
                                               .paused_seconds = report.pause_seconds});
  }

  Trainer& trainer_;
  CheckpointManager* checkpoints_;
  RunObserver& observer_;
  RunEnd end_;
  bool warned_ = false;
};

}  // namespace

Result<RunEnd> run_training(Trainer& trainer, CheckpointManager* checkpoints, RunObserver& observer,
                            const Metrics& so_far) {
  return guarded([&]() -> Result<RunEnd> { return Run(trainer, checkpoints, observer, so_far).until_the_end(); });
}

std::string describe_idle_params(const std::vector<std::string>& names) {
  constexpr size_t kShown = 4;
  if (names.empty()) return "";
  std::string list;
  for (size_t i = 0; i < std::min(names.size(), kShown); ++i)
    list += fmt::format("{}\"{}\"", i == 0 ? "" : ", ", names[i]);
  if (names.size() > kShown) list += fmt::format(" and {} more", names.size() - kShown);
  return fmt::format("the gradient of {} is all zeros: {} not being trained", list,
                     names.size() == 1 ? "it is" : "they are");
}

CheckpointOptions checkpoint_options(const CheckpointSpec& spec) {
  CheckpointOptions options;
  options.policy.keep_last = spec.keep_last;
  options.policy.keep_every = spec.keep_every;
  options.policy.keep_best = spec.keep_best.empty() ? 0 : 1;
  options.policy.metric = spec.keep_best;
  options.policy.larger_is_better = spec.keep_best == "eval_accuracy";
  options.weights_format = spec.format == "gptrs" ? "gptrs-checkpoint" : spec.format;
  return options;
}

}  // namespace ballast
