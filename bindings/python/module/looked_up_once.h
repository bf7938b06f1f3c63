// An object of another Python module, looked up by whoever needs it first.
#pragma once

#include <nanobind/nanobind.h>

#include <atomic>

namespace ballast::python {

// Kept for ever: the interpreter may be gone when static objects are destroyed. It is not the initialiser of a static
// variable, because a thread that waits for one keeps the GIL, and the thread inside, which imports, needs the GIL.
class LookedUpOnce {
 public:
  template <typename Find>
  nanobind::handle get(Find find) {
    PyObject* known = object_.load(std::memory_order_acquire);
    if (known != nullptr) return known;
    nanobind::object found = find();
    // Whoever else was looking meanwhile has found the same; the first one's is kept.
    if (object_.compare_exchange_strong(known, found.ptr(), std::memory_order_acq_rel)) known = found.release().ptr();
    return known;
  }

 private:
  std::atomic<PyObject*> object_{nullptr};
};

}  // namespace ballast::python
