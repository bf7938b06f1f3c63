// Long work: without the GIL, interruptible by Ctrl-C, and with a callback of Python's that hears how far it is.
#pragma once

#include <nanobind/nanobind.h>

#include <memory>
#include <utility>

#include "ballast/base/progress.h"
#include "bindings/python/module/errors.h"
#include "bindings/python/module/native_call.h"

namespace ballast::python {

// Calls `callback(activity, done, total)`, where it is not None, and looks for signals. What either raises ends the
// work; run_long() raises it again when the work has come back. A callback that returns False ends the work too.
class Watch {
 public:
  explicit Watch(nb::object callback);

  // For the library. Called without the GIL, from the thread that runs the work.
  Progress progress();
  // For loops that report in their own way: false when the work is to end. Takes the GIL.
  bool keep_going();
  // With the GIL: raises what was kept, if anything was.
  void raise_pending();

 private:
  bool call(const ProgressUpdate& update);

  nb::object callback_;
  std::unique_ptr<nb::python_error> raised_;
};

// `work(Progress)` gives a Result; its value comes back, its error is raised.
template <typename Work>
auto run_long(nb::object callback, Work&& work, Missing missing = Missing::kFile) {
  Watch watch(std::move(callback));
  const NativeCall call;
  auto result = [&] {
    const GilReleased released;
    return work(watch.progress());
  }();
  NativeCall::stay_away_at_the_end();  // what ended early for that reason has nothing to say
  watch.raise_pending();
  return unwrap(std::move(result), missing);
}

}  // namespace ballast::python
