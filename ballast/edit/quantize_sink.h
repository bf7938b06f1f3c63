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

  // Errors count by these weights, [matrices, inputs], which outlive the sink; `shape` is the tensor's.
  void weigh(std::span<const float> weights, const Shape& shape);

  Status write(ByteSpan bytes) override;
  Status patch(uint64_t, ByteSpan) override;
  uint64_t position() const override { return taken_; }
  // Fails where the bytes taken are no whole number of blocks.
  Status finish();

  // Of everything handed on so far.
  const QuantizationError& error() const { return error_; }

 private:
  Status convert(ByteSpan bytes);
  std::vector<float> weights_of(uint64_t first, size_t count) const;
  Status convert_part(std::span<const float> values, uint64_t first, MutableByteSpan blocks, QuantizationError& error);

  DType to_;
  const std::string& name_;
  unsigned threads_;
  ByteSink& out_;
  WholeUnits units_;
  std::span<const float> weights_;
  uint64_t inputs_ = 0;           // of a row
  uint64_t matrix_elements_ = 0;  // of each matrix that has weights of its own
  std::vector<float> values_;
  ByteVector blocks_;
  QuantizationError error_;
  uint64_t taken_ = 0;
  uint64_t elements_ = 0;
};

}  // namespace ballast
