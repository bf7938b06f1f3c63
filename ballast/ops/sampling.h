// Arguments of upsample2d, for those who add implementations.
#pragma once

#include <string>
#include <string_view>

#include "ballast/ops/ops.h"

namespace ballast::ops {

struct Upsample2dArgs {
  static constexpr std::string_view kFunctional = "upsample2d";
  const Tensor& x;
  uint64_t factor;
  Upsampling method;

  Status check() const;
  std::string text() const;
  void record(Tape& tape, const Tensor& y) const;
};

}  // namespace ballast::ops
