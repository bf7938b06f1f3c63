// A file's bytes one after the other, through a buffer.
#pragma once

#include <memory>
#include <optional>
#include <string>

#include "ballast/base/byte_source.h"

namespace ballast {

class ByteReader {
 public:
  static Result<ByteReader> open(const std::string& path);

  // The next byte without taking it; nullopt at the end.
  Result<std::optional<char>> peek();
  void skip() { ++at_; }
  const std::string& path() const { return path_; }

 private:
  ByteReader(std::string path, std::shared_ptr<const ByteSource> source)
      : path_(std::move(path)), source_(std::move(source)) {}

  std::string path_;
  std::shared_ptr<const ByteSource> source_;
  ByteVector buffer_;
  size_t at_ = 0;      // in the buffer
  uint64_t read_ = 0;  // bytes of the file that are in the buffer or behind it
};

}  // namespace ballast
