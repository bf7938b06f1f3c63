#include "ballast/tensor/cast_sink.h"

#include <algorithm>

namespace ballast {

namespace {

// Elements that fill whole bytes in every type: four of 6 bits are three bytes.
constexpr size_t kUnitElements = 4;
constexpr size_t kChunkUnits = size_t{16} << 10;

}  // namespace

CastSink::CastSink(DType from, DType to, ByteSink& out)
    : from_(from), to_(to), out_(out), unit_(kUnitElements * dtype_info(from).bits / 8) {}

Status CastSink::write(ByteSpan bytes) {
  taken_ += bytes.size();
  if (!carry_.empty()) {
    const size_t missing = std::min(unit_ - carry_.size(), bytes.size());
    carry_.insert(carry_.end(), bytes.begin(), bytes.begin() + static_cast<ptrdiff_t>(missing));
    bytes = bytes.subspan(missing);
    if (carry_.size() < unit_) return {};
    const ByteVector unit = std::move(carry_);
    carry_.clear();
    BALLAST_CHECK(convert(unit));
  }
  const size_t chunk = unit_ * kChunkUnits;
  while (bytes.size() >= unit_) {
    const size_t now = std::min(bytes.size() / unit_ * unit_, chunk);
    BALLAST_CHECK(convert(bytes.first(now)));
    bytes = bytes.subspan(now);
  }
  carry_.assign(bytes.begin(), bytes.end());
  return {};
}

Status CastSink::patch(uint64_t, ByteSpan) {
  return make_error(ErrorCode::kInvalidArgument, "what is being cast cannot be patched");
}

Status CastSink::finish() {
  if (carry_.empty()) return {};
  const ByteVector rest = std::move(carry_);
  carry_.clear();
  return convert(rest);
}

Status CastSink::convert(ByteSpan bytes) {
  const uint64_t count = bytes.size() * 8 / dtype_info(from_).bits;
  buffer_.resize(static_cast<size_t>(count * dtype_info(to_).bits / 8));
  BALLAST_TRY(const CastReport report, cast_elements(from_, bytes, to_, buffer_, elements_));
  report_.merge(report);
  elements_ += count;
  return out_.write(buffer_);
}

}  // namespace ballast
