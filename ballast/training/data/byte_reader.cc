#include "ballast/training/data/byte_reader.h"

#include <algorithm>

#include "ballast/io/file.h"

namespace ballast {

namespace {
constexpr uint64_t kBufferBytes = uint64_t{1} << 18;
}

Result<ByteReader> ByteReader::open(const std::string& path) {
  BALLAST_TRY(auto source, open_file(path, FileAccess::kPositional));
  return ByteReader(path, std::move(source));
}

Result<std::optional<char>> ByteReader::peek() {
  if (at_ == buffer_.size()) {
    const uint64_t left = source_->size() - read_;
    if (left == 0) return std::optional<char>();
    BALLAST_TRY(buffer_, read_bytes(*source_, read_, std::min(left, kBufferBytes)));
    read_ += buffer_.size();
    at_ = 0;
  }
  return std::optional(static_cast<char>(buffer_[at_]));
}

}  // namespace ballast
