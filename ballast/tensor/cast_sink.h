// Casting on the way from one sink to another, so that no payload is held twice.
#pragma once

#include "ballast/base/byte_source.h"
#include "ballast/tensor/cast.h"
#include "ballast/tensor/whole_units.h"

namespace ballast {

// Takes a payload of `from` in pieces of any length and hands it on as `to`, for which can_cast holds. `out` must
// outlive it. finish() after the last piece.
class CastSink final : public ByteSink {
 public:
  CastSink(DType from, DType to, ByteSink& out);

  Status write(ByteSpan bytes) override;
  Status patch(uint64_t, ByteSpan) override;
  uint64_t position() const override { return taken_; }
  // Hands on what is left, or fails where the bytes taken are no whole number of elements.
  Status finish();

  // Of everything handed on so far.
  const CastReport& report() const { return report_; }

 private:
  Status convert(ByteSpan bytes);

  DType from_;
  DType to_;
  ByteSink& out_;
  WholeUnits units_;
  ByteVector buffer_;  // converted
  CastReport report_;
  uint64_t taken_ = 0;
  uint64_t elements_ = 0;
};

}  // namespace ballast
