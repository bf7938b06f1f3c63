#include "ballast/tensor/cast_sink.h"

#include "ballast/tensor/elements.h"

namespace ballast {

namespace {

constexpr size_t kChunkElements = size_t{64} << 10;

size_t unit_bytes(DType dtype) { return static_cast<size_t>(element_unit(dtype).bytes); }

}  // namespace

CastSink::CastSink(DType from, DType to, ByteSink& out)
    : from_(from),
      to_(to),
      out_(out),
      units_(unit_bytes(from), static_cast<size_t>(byte_of_element(from, kChunkElements))) {}

Status CastSink::write(ByteSpan bytes) {
  taken_ += bytes.size();
  return units_.add(bytes, [this](ByteSpan whole) { return convert(whole); });
}

Status CastSink::patch(uint64_t, ByteSpan) {
  return make_error(ErrorCode::kInvalidArgument, "what is being cast cannot be patched");
}

Status CastSink::finish() {
  return units_.finish([this](ByteSpan rest) { return convert(rest); });
}

Status CastSink::convert(ByteSpan bytes) {
  const uint64_t count = elements_in(from_, bytes.size());
  buffer_.resize(static_cast<size_t>(count * dtype_info(to_).bits / 8));
  BALLAST_TRY(const CastReport report, cast_elements(from_, bytes, to_, buffer_, elements_));
  report_.merge(report);
  elements_ += count;
  return out_.write(buffer_);
}

}  // namespace ballast
