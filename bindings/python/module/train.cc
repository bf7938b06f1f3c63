// ballast.train(): a run from its configuration to its model, with callbacks of Python's.
#include "bindings/python/module/train.h"

#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include "ballast/training/prepare_run.h"
#include "bindings/python/module/native_call.h"
#include "bindings/python/module/progress.h"

namespace ballast::python {

namespace {

// What every event has.
nb::dict event_dict(const char* event, uint64_t step) {
  nb::dict told;
  told["event"] = event;
  told["step"] = step;
  return told;
}

nb::dict to_dict(const StepRecord& step) {
  nb::dict told = event_dict("step", step.step);
  told["loss"] = step.loss;
  told["lr"] = step.lr;
  told["grad_norm"] = step.grad_norm;
  told["items"] = step.items;
  told["seconds"] = step.seconds;
  told["skipped"] = step.skipped;
  return told;
}

nb::dict to_dict(const EvalRecord& eval) {
  nb::dict told = event_dict("eval", eval.step);
  told["loss"] = eval.loss;
  told["accuracy"] = eval.accuracy;
  told["items"] = eval.items;
  told["seconds"] = eval.seconds;
  return told;
}

nb::dict to_dict(const CheckpointRecord& checkpoint) {
  nb::dict told = event_dict("checkpoint", checkpoint.step);
  told["path"] = checkpoint.path;
  told["bytes"] = checkpoint.bytes;
  told["paused_seconds"] = checkpoint.paused_seconds;
  return told;
}

nb::dict to_dict(const ResumeRecord& resume) {
  nb::dict told = event_dict("resume", resume.step);
  told["path"] = resume.path;
  return told;
}

nb::dict to_dict(const WarningRecord& warning) {
  nb::dict told = event_dict("warning", warning.step);
  told["text"] = warning.text;
  return told;
}

struct Callbacks {
  nb::object on_event, on_note, read_picture;
};

// Calls Python from the thread that trains, which has no GIL. What a callback raises ends the run as its error, and is
// kept by `watch`.
class Listener final : public RunObserver {
 public:
  Listener(const Callbacks& callbacks, Watch& watch) : callbacks_(callbacks), watch_(watch) {}

  Status on_event(const TrainEvent& event) override {
    const nb::gil_scoped_acquire held;
    return guarded([&] {
      if (PyErr_CheckSignals() != 0) throw nb::python_error();
      const nb::dict told = std::visit([](const auto& record) { return to_dict(record); }, event);
      if (callbacks_.on_event(told).is(nb::handle(Py_False))) stop_ = true;
    });
  }
  bool wants_stop() override { return stop_ || NativeCall::ending(); }

  void note(std::string_view text) {
    const nb::gil_scoped_acquire held;
    (void)guarded([&] { callbacks_.on_note(nb::str(text.data(), text.size())); });
  }

  // Threads of the library may call this at the same time.
  Result<Picture> read_picture(const std::string& path) {
    const nb::gil_scoped_acquire held;
    Picture picture;
    const Status read = guarded([&] {
      const nb::tuple made = nb::cast<nb::tuple>(callbacks_.read_picture(path));
      picture.width = nb::cast<uint64_t>(made[0]);
      picture.height = nb::cast<uint64_t>(made[1]);
      const nb::bytes pixels = nb::cast<nb::bytes>(made[2]);
      const auto* data = reinterpret_cast<const uint8_t*>(pixels.c_str());
      picture.pixels.assign(data, data + pixels.size());
    });
    if (!read) return read.error();
    if (picture.pixels.size() != picture.width * picture.height * 3)
      return make_error(ErrorCode::kInvalidArgument, path + ": the picture has another size than it says");
    return picture;
  }

 private:
  template <typename Body>
  Status guarded(const Body& body) {
    if (watch_.has_kept()) return make_error(ErrorCode::kCancelled, "a callback raised");
    try {
      body();
      return {};
    } catch (nb::python_error& error) {
      watch_.keep(std::move(error));
    } catch (const nb::cast_error&) {
      return make_error(ErrorCode::kInvalidArgument, "a callback returned something else than it should");
    }
    return make_error(ErrorCode::kCancelled, "a callback raised");
  }

  const Callbacks& callbacks_;
  Watch& watch_;
  bool stop_ = false;
};

struct Trained {
  RunOutcome outcome;
  uint64_t step = 0, total_steps = 0, parameters = 0;
  std::optional<uint64_t> resumed;
  std::string output, config_json;
};

Result<TrainConfig> read_config(const std::string& config, bool is_path, const std::vector<std::string>& overrides) {
  if (is_path) return load_train_config(config, overrides);
  return parse_train_config(config, "the configuration");
}

Result<Trained> train(const std::string& config, bool is_path, const std::vector<std::string>& overrides,
                      const std::string& device, bool overwrite, const Callbacks& callbacks, Watch& watch) {
  Listener listener(callbacks, watch);
  BALLAST_TRY(const TrainConfig settings, read_config(config, is_path, overrides));
  PrepareOptions options;
  options.backend = device;
  options.overwrite = overwrite;
  options.read_picture = [&](const std::string& path) { return listener.read_picture(path); };
  options.progress = watch.progress();
  options.on_note = options.on_complaint = [&](std::string_view text) { listener.note(text); };
  BALLAST_TRY(PreparedRun run, prepare_run(settings, options));
  Trained trained;
  BALLAST_TRY(trained.outcome, complete_run(run, listener, overwrite));
  trained.step = run.step();
  trained.total_steps = run.total_steps();
  trained.parameters = run.parameters;
  trained.resumed = run.resumed;
  trained.config_json = run.config().to_json();
  if (trained.outcome.wrote_output || trained.outcome.kept_output) trained.output = run.config().train.output;
  return trained;
}

nb::dict to_dict(const Trained& trained) {
  const RunEnd& end = trained.outcome.end;
  nb::dict told;
  told["step"] = trained.step;
  told["total_steps"] = trained.total_steps;
  told["steps_made"] = end.steps;
  told["parameters"] = trained.parameters;
  told["resumed_from"] = trained.resumed;
  told["loss"] = end.last_loss;
  told["eval_loss"] = end.last_evaluation ? nb::cast(end.last_evaluation->loss) : nb::none();
  told["eval_accuracy"] = end.last_evaluation ? nb::cast(end.last_evaluation->accuracy) : nb::none();
  told["finished"] = end.finished;
  told["output"] = trained.output.empty() ? nb::none() : nb::cast(trained.output);
  told["config"] = trained.config_json;
  return told;
}

}  // namespace

void bind_train(nb::module_& module) {
  module.def(
      "train",
      [](const std::string& config, bool is_path, const std::vector<std::string>& overrides, const std::string& device,
         bool overwrite, nb::object on_event, nb::object on_note, nb::object read_picture) {
        const Callbacks callbacks{std::move(on_event), std::move(on_note), std::move(read_picture)};
        return to_dict(run_long(nb::none(), [&](Watch& watch) {
          return train(config, is_path, overrides, device, overwrite, callbacks, watch);
        }));
      },
      nb::arg("config"), nb::arg("is_path"), nb::arg("overrides"), nb::arg("device"), nb::arg("overwrite"),
      nb::arg("on_event"), nb::arg("on_note"), nb::arg("read_picture"));
}

}  // namespace ballast::python
