#include "bindings/python/module/python_source.h"

#include <nanobind/stl/string.h>

#include <algorithm>
#include <cstring>

#include "ballast/base/bytes.h"

namespace ballast::python {

namespace {

// What a Python exception says, for an Error's text. Ctrl-C is not lost: it is raised where Python goes on.
Error io_error_from(const std::string& name, nb::python_error& error) {
  if (error.matches(PyExc_KeyboardInterrupt)) {
    PyErr_SetInterrupt();
    return make_error(ErrorCode::kCancelled, name + ": interrupted");
  }
  return make_error(ErrorCode::kIo, name + ": " + error.what());
}

}  // namespace

PythonSource::PythonSource(nb::object file, std::string name) : file_(std::move(file)), name_(std::move(name)) {
  const nb::object position = file_.attr("tell")();
  file_.attr("seek")(0, 2);
  size_ = nb::cast<uint64_t>(file_.attr("tell")());
  file_.attr("seek")(position);
}

PythonSource::~PythonSource() {
  if (!nb::is_alive()) {  // the interpreter is gone, and the object with it
    file_.release();
    return;
  }
  nb::gil_scoped_acquire held;
  file_.reset();
}

Status PythonSource::read_at(uint64_t offset, MutableByteSpan out) const {
  if (offset > size_ || out.size() > size_ - offset) return past_the_end(*this, offset, out.size());
  if (out.empty()) return {};
  const std::lock_guard<std::mutex> one_at_a_time(mutex_);
  nb::gil_scoped_acquire held;
  try {
    return read_held(offset, out);
  } catch (nb::python_error& error) {
    return io_error_from(name_, error);
  } catch (const std::exception& error) {  // a read() that gives something else than bytes
    return make_error(ErrorCode::kIo, name_ + ": " + error.what());
  }
}

BufferSource::BufferSource(nb::handle object, std::string name) : name_(std::move(name)) {
  if (PyObject_GetBuffer(object.ptr(), &buffer_, PyBUF_SIMPLE) != 0) throw nb::python_error();
}

BufferSource::~BufferSource() {
  if (!nb::is_alive()) return;
  nb::gil_scoped_acquire held;
  PyBuffer_Release(&buffer_);
}

Status BufferSource::read_at(uint64_t offset, MutableByteSpan out) const {
  const auto from = view(offset, out.size());
  if (!from) return past_the_end(*this, offset, out.size());
  if (!out.empty()) std::memcpy(out.data(), from->data(), out.size());
  return {};
}

std::optional<ByteSpan> BufferSource::view(uint64_t offset, uint64_t length) const {
  if (offset > size() || length > size() - offset) return std::nullopt;
  return ByteSpan(static_cast<const std::byte*>(buffer_.buf) + offset, static_cast<size_t>(length));
}

Status PythonSource::read_held(uint64_t offset, MutableByteSpan out) const {
  file_.attr("seek")(offset);
  while (!out.empty()) {
    const nb::object read = file_.attr("read")(out.size());
    if (read.is_none() || !nb::isinstance<nb::bytes>(read)) {
      return make_error(ErrorCode::kIo, name_ + ": read() gave no bytes; open the file in binary, blocking mode");
    }
    const auto bytes = nb::cast<nb::bytes>(read);
    const size_t got = std::min(bytes.size(), out.size());
    if (got == 0) return make_error(ErrorCode::kIo, name_ + ": ends earlier than when it was opened");
    std::memcpy(out.data(), bytes.c_str(), got);
    out = out.subspan(got);
  }
  return {};
}

}  // namespace ballast::python
