// An exception of Python's on its way through the library, which knows only its own errors.
#pragma once

#include <nanobind/nanobind.h>

#include <atomic>
#include <memory>
#include <utility>

namespace ballast::python {

// Of several that threads raise at the same time the first is kept; all have the same end. With the GIL, or what stands
// for it in an interpreter without one.
class KeptException {
 public:
  KeptException() = default;
  ~KeptException() { delete first_.load(); }
  KeptException(const KeptException&) = delete;
  KeptException& operator=(const KeptException&) = delete;

  void keep(nanobind::python_error&& error) {
    auto made = std::make_unique<nanobind::python_error>(std::move(error));
    nanobind::python_error* none = nullptr;
    if (first_.compare_exchange_strong(none, made.get())) (void)made.release();
  }

  bool is_there() const { return first_.load() != nullptr; }

  // Raises it, if one was kept.
  void raise() {
    const std::unique_ptr<nanobind::python_error> first(first_.exchange(nullptr));
    if (first == nullptr) return;
    first->restore();
    throw nanobind::python_error();
  }

 private:
  std::atomic<nanobind::python_error*> first_{nullptr};
};

}  // namespace ballast::python
