#include "bindings/python/module/progress.h"

namespace ballast::python {

Watch::Watch(nb::object callback) : callback_(std::move(callback)) {}

Progress Watch::progress() {
  return [this](const ProgressUpdate& update) { return call(update); };
}

bool Watch::call(const ProgressUpdate& update) {
  if (NativeCall::ending()) return false;
  nb::gil_scoped_acquire held;
  if (has_kept()) return false;
  try {
    if (PyErr_CheckSignals() != 0) throw nb::python_error();
    if (callback_.is_none() || !callback_.is_valid()) return true;
    const nb::str activity(update.activity.data(), update.activity.size());
    return !callback_(activity, update.done, update.total).is(nb::handle(Py_False));
  } catch (nb::python_error& error) {
    keep(std::move(error));
    return false;
  }
}

}  // namespace ballast::python
