#include "ballast/io/file_sink.h"

#include <fmt/format.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "ballast/base/checked.h"

namespace ballast {

Status FileSink::write(ByteSpan bytes) {
  if (failure_) return *failure_;
  if (bytes.size() > kBufferSize - buffered_) BALLAST_CHECK(flush());
  if (bytes.size() >= kBufferSize) return append(bytes);
  if (bytes.empty()) return {};
  if (!buffer_) buffer_ = std::make_unique_for_overwrite<std::byte[]>(kBufferSize);
  std::memcpy(buffer_.get() + buffered_, bytes.data(), bytes.size());
  buffered_ += bytes.size();
  return {};
}

Status FileSink::patch(uint64_t offset, ByteSpan bytes) {
  if (failure_) return *failure_;
  if (!range_fits(offset, bytes.size(), position())) {
    return make_error(ErrorCode::kInvalidArgument,
                      fmt::format("{}: bytes {} to {}+{} cannot be replaced, only {} are written", name_, offset,
                                  offset, bytes.size(), position()));
  }
  if (bytes.empty()) return {};
  if (offset >= written_) {
    std::memcpy(buffer_.get() + (offset - written_), bytes.data(), bytes.size());
    return {};
  }
  // A patch may reach into the buffer, whose bytes would otherwise go out later and undo it.
  if (bytes.size() > written_ - offset) BALLAST_CHECK(flush());
  return write_out(offset, bytes);
}

Status FileSink::flush() {
  if (failure_) return *failure_;
  if (buffered_ == 0) return {};
  const ByteSpan waiting(buffer_.get(), buffered_);
  buffered_ = 0;
  return append(waiting);
}

Status FileSink::append(ByteSpan bytes) {
  while (!bytes.empty()) {
    const ByteSpan now = bytes.first(std::min(bytes.size(), kWriteBackStep));
    BALLAST_CHECK(write_out(written_, now));
    written_ += now.size();
    bytes = bytes.subspan(now.size());
    const uint64_t waiting = written_ - write_back_started_;
    if (write_back_early_ && waiting >= kWriteBackStep) {
      files_.start_write_back(fd_, static_cast<off_t>(write_back_started_), static_cast<off_t>(waiting));
      write_back_started_ = written_;
    }
  }
  return {};
}

Status FileSink::write_out(uint64_t offset, ByteSpan bytes) {
  while (!bytes.empty()) {
    const ssize_t done = files_.write_at(fd_, bytes.data(), bytes.size(), static_cast<off_t>(offset));
    if (done < 0 && errno == EINTR) continue;
    // Nothing written and no reason given: asking for ever would hang.
    if (done <= 0) return fail(offset, bytes.size(), done < 0 ? errno : EIO);
    bytes = bytes.subspan(static_cast<size_t>(done));
    offset += static_cast<uint64_t>(done);
  }
  return {};
}

Error FileSink::fail(uint64_t offset, size_t length, int error_number) {
  failure_ =
      write_error(files_, fd_, name_, fmt::format("write {} bytes at offset {}", length, offset), length, error_number);
  return *failure_;
}

Error write_error(const FileSystem& files, int fd, const std::string& path, std::string_view action, uint64_t needed,
                  int error_number) {
  uint64_t available = 0;
  if (error_number == ENOSPC && files.free_space(fd, &available) == 0) {
    return make_error(ErrorCode::kIo, fmt::format("{}: no space left: needs {} more bytes, {} are free on that disk",
                                                  path, needed, available));
  }
  return io_error(path, action, error_number);
}

}  // namespace ballast
