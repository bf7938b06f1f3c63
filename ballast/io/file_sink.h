// Sequential writes to one open file, fast enough that the disk is what limits them.
#pragma once

#include <memory>
#include <optional>
#include <string>

#include "ballast/base/byte_source.h"
#include "ballast/io/file_system.h"

namespace ballast {

// The first failure sticks: everything after it fails with the same error, so that nobody mistakes the file for whole.
class FileSink final : public ByteSink {
 public:
  // `name` is what errors call the file. `write_back_early` is for files that are synced in the end: the disk starts
  // while the rest is still being produced, so that the sync is short.
  FileSink(const FileSystem& files, int fd, std::string name, bool write_back_early)
      : files_(files), fd_(fd), name_(std::move(name)), write_back_early_(write_back_early) {}

  Status write(ByteSpan bytes) override;
  Status patch(uint64_t offset, ByteSpan bytes) override;
  uint64_t position() const override { return written_ + buffered_; }

  // Hands everything over to the operating system.
  Status flush();

 private:
  // Small writes are gathered; what is larger than the buffer goes out without a copy.
  static constexpr size_t kBufferSize = size_t{128} << 10;
  // Often enough that the disk is never idle, seldom enough that it gets long runs.
  static constexpr size_t kWriteBackStep = size_t{16} << 20;

  Status append(ByteSpan bytes);
  Status write_out(uint64_t offset, ByteSpan bytes);
  Error fail(uint64_t offset, size_t length, int error_number);

  const FileSystem& files_;
  int fd_;
  std::string name_;
  bool write_back_early_;
  std::unique_ptr<std::byte[]> buffer_;
  size_t buffered_ = 0;
  uint64_t written_ = 0;             // bytes that the operating system has
  uint64_t write_back_started_ = 0;  // of these, how many were sent to the disk
  std::optional<Error> failure_;
};

// "<path>: no space left: needs N bytes, M bytes are free" where that is what happened, io_error otherwise.
Error write_error(const FileSystem& files, int fd, const std::string& path, std::string_view action, uint64_t needed,
                  int error_number);

}  // namespace ballast
