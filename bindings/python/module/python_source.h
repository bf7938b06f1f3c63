// A file object of Python's (open(..., "rb"), fsspec, BytesIO) as a source of bytes.
#pragma once

#include <nanobind/nanobind.h>

#include <memory>
#include <mutex>
#include <string>

#include "ballast/base/byte_source.h"

namespace ballast::python {

namespace nb = nanobind;

// Reads through seek() and readinto() or read(), one caller at a time: never call it with the GIL held, or two threads
// wait for each other. The file object stays the caller's and must stay open.
class PythonSource final : public ByteSource {
 public:
  // With the GIL held. Finds the size by seeking.
  PythonSource(nb::object file, std::string name);
  ~PythonSource() override;

  uint64_t size() const override { return size_; }
  Status read_at(uint64_t offset, MutableByteSpan out) const override;
  std::optional<ByteSpan> view(uint64_t, uint64_t) const override { return std::nullopt; }
  const std::string& name() const override { return name_; }

 private:
  Status read_held(uint64_t offset, MutableByteSpan out) const;

  nb::object file_;
  std::string name_;
  uint64_t size_ = 0;
  mutable std::mutex mutex_;
};

// Anything with the buffer protocol (bytes, memoryview, mmap), which is kept alive and not copied.
class BufferSource final : public ByteSource {
 public:
  // With the GIL held; raises where there is no contiguous buffer.
  BufferSource(nb::handle object, std::string name);
  ~BufferSource() override;
  BufferSource(const BufferSource&) = delete;
  BufferSource& operator=(const BufferSource&) = delete;

  uint64_t size() const override { return static_cast<uint64_t>(buffer_.len); }
  Status read_at(uint64_t offset, MutableByteSpan out) const override;
  std::optional<ByteSpan> view(uint64_t offset, uint64_t length) const override;
  const std::string& name() const override { return name_; }

 private:
  Py_buffer buffer_{};
  std::string name_;
};

}  // namespace ballast::python
