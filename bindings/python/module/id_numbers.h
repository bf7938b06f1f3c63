// Python's numbers for the ids of tokens.
#pragma once

#include <nanobind/nanobind.h>

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace ballast::python {

namespace nb = nanobind;

// Lists of ids that share their numbers: ids repeat, and to make a number takes several times as long as to share one.
// Everything with the GIL. An interpreter without one makes new numbers each time: its threads would all count the
// references of the same few.
class IdNumbers {
 public:
  // Numbers below `size` are kept, each from the first time it is asked for.
  explicit IdNumbers(size_t size) : size_(size) {}
  ~IdNumbers();
  IdNumbers(const IdNumbers&) = delete;
  IdNumbers& operator=(const IdNumbers&) = delete;

  nb::list list_of(std::span<const uint32_t> ids);

 private:
  PyObject* number(uint32_t id);  // a new reference; null: Python has an error

  size_t size_;
  std::vector<PyObject*> known_;  // by id; empty until it is needed
};

}  // namespace ballast::python
