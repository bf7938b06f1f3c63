// Arguments of the sums, for those who add implementations.
#pragma once

#include <string>
#include <string_view>

#include "ballast/ops/activation.h"

namespace ballast::ops {

struct SumAllArgs : ActivationArgs {
  static constexpr std::string_view kFunctional = "sum_all";
  void record(Tape& tape, const Tensor& y) const;
};
struct MeanAllArgs : ActivationArgs {
  static constexpr std::string_view kFunctional = "mean_all";
  Status check() const;
  void record(Tape& tape, const Tensor& y) const;
};

struct SumLastDimArgs {
  static constexpr std::string_view kFunctional = "sum_last_dim";
  const Tensor& x;

  Status check() const;
  std::string text() const;
  void record(Tape& tape, const Tensor& y) const;
};

struct ScaleRowsArgs {
  static constexpr std::string_view kFunctional = "scale_rows";
  const Tensor& x;
  const Tensor& factors;

  Status check() const;
  std::string text() const;
  void record(Tape& tape, const Tensor& y) const;
};

// What sum_last_dim gives for x.
Dims row_dims(const Dims& x);

}  // namespace ballast::ops
