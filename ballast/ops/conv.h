// Arguments of conv2d, for those who add implementations.
#pragma once

#include <string>
#include <string_view>

#include "ballast/ops/ops.h"

namespace ballast::ops {

struct Conv2dArgs {
  static constexpr std::string_view kFunctional = "conv2d";
  const Tensor& x;
  const Param& weight;
  const Param* bias;  // null: none
  const Conv2dParams& params;

  Status check() const;
  std::string text() const;
  void record(Tape& tape, const Tensor& y) const;
  bool is_taken_apart(const Context& context) const;
  Result<Tensor> run_in_steps(Context& context) const;
};

// Whether ops::conv2d takes itself apart while there is a tape: see linalg.h.
bool is_recorded_in_steps(const Conv2dParams& params);

// [n, h, w, c] of what a conv2d that fits gives.
Dims conv2d_output_dims(const Conv2dArgs& args);

// How many windows fit along one side; nullopt where not even one does.
std::optional<uint64_t> window_count(uint64_t size, uint64_t pad_before, uint64_t pad_after, uint64_t window,
                                     uint64_t dilation, uint64_t stride);

struct ConvTranspose2dArgs {
  static constexpr std::string_view kFunctional = "conv_transpose2d";
  const Tensor& x;
  const Param& weight;
  const Param* bias;  // null: none
  uint64_t stride, pad;

  Status check() const;
  std::string text() const;
  void record(Tape& tape, const Tensor& y) const;
};

// The same for conv_transpose2d.
Dims conv_transpose2d_output_dims(const ConvTranspose2dArgs& args);
// The convolution that a transposed one is the gradient of.
Conv2dParams convolution_of(const ConvTranspose2dArgs& args);

}  // namespace ballast::ops
