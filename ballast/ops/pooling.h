// Arguments of the poolings, for those who add implementations.
#pragma once

#include <array>
#include <string>
#include <string_view>

#include "ballast/ops/ops.h"

namespace ballast::ops {

struct MaxPool2dNhwcArgs {
  static constexpr std::string_view kFunctional = "max_pool2d_nhwc";
  const Tensor& x;
  const PoolParams& params;

  Status check() const;
  std::string text() const;
  void record(Tape& tape, const Tensor& y) const;
};

struct MaxPool2dArgs {
  static constexpr std::string_view kFunctional = "max_pool2d";
  const Tensor& x;  // NCHW
  const PoolParams& params;

  Status check() const;
  std::string text() const;
  void record(Tape& tape, const Tensor& y) const;
};

struct AvgPool2dNhwcArgs {
  static constexpr std::string_view kFunctional = "avg_pool2d_nhwc";
  const Tensor& x;
  const PoolParams& params;

  Status check() const;
  std::string text() const;
  void record(Tape& tape, const Tensor& y) const;
};

struct GlobalMeanPoolNhwcArgs {
  static constexpr std::string_view kFunctional = "global_mean_pool_nhwc";
  const Tensor& x;

  Status check() const;
  std::string text() const;
  void record(Tape& tape, const Tensor& y) const;
};

// What a pooling that fits gives for NHWC.
Dims pooled_dims(const Dims& x, const PoolParams& params);

// Where max_pool2d finds its channels, and back.
inline constexpr std::array<size_t, 4> kNchwToNhwc = {0, 2, 3, 1};
inline constexpr std::array<size_t, 4> kNhwcToNchw = {0, 3, 1, 2};

}  // namespace ballast::ops
