// Quantising on the way from one sink to another, so that no payload is held twice.
#pragma once

#include "ballast/base/byte_source.h"
#include "ballast/edit/quantize.h"
#include "ballast/tensor/whole_units.h"

namespace ballast {

// Takes an f32 payload in pieces of any length and hands it on as blocks of `to`. `name` is for errors; it and `out`
// outlive the sink. finish() after the last piece.
class QuantizeSink final : public ByteSink {
 public:
  QuantizeSink(DType to, const std::string& name, unsigned threads, ByteSink& out);

  Status write(ByteSpan bytes) override;
  Status patch(uint64_t, ByteSpan) override;
  uint64_t position() const override { return taken_; }
  // Fails where the bytes taken are no whole number of blocks.
  Status finish();

  // Of everything handed on so far.
  const QuantizationError& error() const { return error_; }

 private:
  Status convert(ByteSpan bytes);
  Status convert_part(std::span<const float> values, uint64_t first, MutableByteSpan blocks, QuantizationError& error);

  DType to_;
  const std::string& name_;
  unsigned threads_;
  ByteSink& out_;
  WholeUnits units_;
  std::vector<float> values_;
  ByteVector blocks_;
  QuantizationError error_;
  uint64_t taken_ = 0;
  uint64_t elements_ = 0;
};

}  // namespace ballast
