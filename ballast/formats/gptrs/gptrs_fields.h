// The fields of a GPTRSCHK or GPTRSTEN header, one after the other.
#pragma once

#include <optional>
#include <string_view>

#include "ballast/base/byte_source.h"
#include "ballast/base/shape.h"

namespace ballast {

// Takes fields from [begin, end) of a source, without ever holding more than a window of it or one field.
class GptrsFields {
 public:
  // `window`: how much to read ahead where the source cannot be viewed.
  GptrsFields(const ByteSource& source, uint64_t begin, uint64_t end, uint64_t window);

  uint64_t position() const { return position_; }
  uint64_t remaining() const { return end_ - position_; }
  // The caller has checked that so many bytes remain.
  void skip(uint64_t length) { position_ += length; }

  // Valid until the next call. `what` names the field in the error when it reaches past the end.
  Result<ByteSpan> take(uint64_t length, std::string_view what);

  template <std::unsigned_integral T>
  Result<T> take_le(std::string_view what) {
    BALLAST_TRY(const ByteSpan bytes, take(sizeof(T), what));
    return load_le<T>(bytes.data());
  }

  Error ends_inside(std::string_view what) const;

 private:
  Status load(uint64_t length);

  const ByteSource& source_;
  uint64_t position_;
  uint64_t end_;
  uint64_t window_size_;
  std::optional<ByteSpan> whole_;  // where the source can be viewed
  ByteVector window_;
  uint64_t window_begin_;
};

// 64-bit dimensions, one after the other.
Shape load_gptrs_shape(ByteSpan bytes);

}  // namespace ballast
