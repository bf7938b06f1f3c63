// What every long call into the library takes care of: the end of the interpreter, and fork().
#pragma once

#include <nanobind/nanobind.h>
#include <sys/types.h>

#include "bindings/python/module/errors.h"

namespace ballast::python {

namespace nb = nanobind;

// A call that may give the GIL away and wants it back. When the interpreter ends, those that are under way are told to
// stop (ending() is true), and the interpreter waits for them: a thread that came back later would find no interpreter,
// and what it would do then is to end the process.
class NativeCall {
 public:
  // As stay_away_at_the_end().
  NativeCall();
  ~NativeCall();
  NativeCall(const NativeCall&) = delete;
  NativeCall& operator=(const NativeCall&) = delete;

  // Whether the work of this thread is to end. Never in the main thread, which is the one that ends the interpreter:
  // what it still does there (handlers of atexit) may take its time.
  static bool ending();
  // Once the interpreter ends, threads that it did not wait for (daemons) stay here, without the GIL and out of the
  // count. With the GIL, inside of a NativeCall.
  static void stay_away_at_the_end();
};

// Gives the GIL away for as long as it lives. Use this, never nanobind's own: a daemon thread that asks for the GIL
// when the interpreter has ended is unwound through C++ frames that cannot be, which ends the process.
class GilReleased {
 public:
  GilReleased() = default;

 private:
  NativeCall call_;  // goes last, with the GIL
  nb::gil_scoped_release released_;
};

// Runs `work`, which gives a Result, without the GIL. Its value comes back, its error is raised.
template <typename Work>
auto without_gil(const Work& work) {
  auto result = [&] {
    const GilReleased released;
    return work();
  }();
  return unwrap(std::move(result));
}

// The process that made something which does not survive fork(): threads and locks stay in the parent.
class Birthplace {
 public:
  Birthplace();
  bool is_here() const;
  pid_t process() const { return process_; }

 private:
  pid_t process_;
};

void bind_native_calls(nb::module_& module);

}  // namespace ballast::python
