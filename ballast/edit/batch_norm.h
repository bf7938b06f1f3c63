// Batch norms folded into the convolution before them, and batch norms that change nothing.
#pragma once

#include "ballast/archive/write.h"

namespace ballast {

// A tensor of a plan: what it is and how to draw it.
struct PlannedTensor {
  TensorInfo info;
  TensorProvider provider;
};

struct BatchNorm {
  PlannedTensor scale, shift, mean, variance;
};

// gpt.rs's exporter, rounding as it does (f32 throughout): s = scale * rsqrt(variance + 1e-5), weight * s for every
// output channel, (bias - mean) * s + shift. A channel whose s is 1 and whose mean and bias are 0 is copied bit by bit.
// All tensors must be f32, and the norm's as long as the weight's first dimension.
struct FoldedConvolution {
  PlannedTensor weight, bias;
};
Result<FoldedConvolution> fold_batch_norm(const PlannedTensor& weight, const std::optional<PlannedTensor>& bias,
                                          const BatchNorm& norm);

// The batch norm that adds `bias` and changes nothing else: scale 1, mean 0, variance 1 - 1e-5 in f32, so that
// rsqrt(variance + 1e-5) is exactly 1. `names` is the norm's own, without ".weight".
std::vector<PlannedTensor> make_identity_norm(const std::string& name, const PlannedTensor& bias);

}  // namespace ballast
