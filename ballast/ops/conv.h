// Arguments of conv2d, for those who add implementations.
#pragma once

#include <string>
#include <string_view>

#include "ballast/ops/ops.h"
#include "ballast/ops/param_gradients.h"

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
};

// Whether ops::conv2d takes itself apart while there is a tape: see linalg.h.
bool is_recorded_in_steps(const Conv2dParams& params);

// The shapes of a convolution. Pointers, weight and epilogue are for the caller.
template <typename T>
Conv2dProblem<T> conv2d_problem(const Dims& x, const Shape& weight, const Conv2dParams& params, const Dims& y) {
  Conv2dProblem<T> problem{};
  problem.n = x[0], problem.h = x[1], problem.width = x[2], problem.c_in = x[3];
  problem.out_h = y[1], problem.out_w = y[2], problem.c_out = y[3];
  problem.kernel_h = weight[2], problem.kernel_w = weight[3];
  problem.groups = params.groups;
  problem.stride_h = params.stride_h, problem.stride_w = params.stride_w;
  problem.pad_top = params.pad_top, problem.pad_left = params.pad_left;
  problem.dilation_h = params.dilation_h, problem.dilation_w = params.dilation_w;
  problem.o_count = problem.c_out;
  return problem;
}

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

// Gradients of a convolution: what is null is not wanted.
struct Conv2dGradientWanted {
  const Tensor* x = nullptr;      // where dw is wanted
  const Param* weight = nullptr;  // where dx is wanted
  Tensor* dx = nullptr;           // written
  const GradientPlace* dw = nullptr;
};
Status conv2d_gradients(Context& context, const Conv2dParams& params, const Shape& weight, const Dims& x,
                        const Tensor& dy, const Conv2dGradientWanted& wanted);

}  // namespace ballast::ops
