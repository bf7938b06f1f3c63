// Long work: without the GIL, interruptible by Ctrl-C, and with a callback of Python's that hears how far it is.
#pragma once

#include <nanobind/nanobind.h>

#include <utility>

#include "ballast/base/progress.h"
#include "bindings/python/module/errors.h"
#include "bindings/python/module/kept_exception.h"
#include "bindings/python/module/native_call.h"

namespace ballast::python {

// Calls `callback(activity, done, total)`, where it is not None, and looks for signals. What either raises ends the
// work, and so does what the work's own calls of Python raise; run_long() raises it again when the work has come back.
// A callback that returns False ends the work too.
class Watch {
 public:
  explicit Watch(nb::object callback);

  // For the library. Called without the GIL, from the thread that runs the work.
  Progress progress();
  // For work that calls Python itself, with the GIL, from any of its threads: what that raised. The work is to end
  // then, with any error.
  void keep(nb::python_error&& error) { raised_.keep(std::move(error)); }
  bool has_kept() const { return raised_.is_there(); }
  // With the GIL: raises what was kept, if anything was.
  void raise_pending() { raised_.raise(); }

 private:
  bool call(const ProgressUpdate& update);

  nb::object callback_;
  KeptException raised_;
};

// `work(Watch&)` gives a Result; its value comes back, its error is raised.
template <typename Work>
auto run_long(nb::object callback, Work&& work, Missing missing = Missing::kFile) {
  Watch watch(std::move(callback));
  const NativeCall call;
  auto result = [&] {
    const GilReleased released;
    return work(watch);
  }();
  NativeCall::stay_away_at_the_end();  // what ended early for that reason has nothing to say
  watch.raise_pending();
  return unwrap(std::move(result), missing);
}

}  // namespace ballast::python
