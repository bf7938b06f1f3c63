// What tapes, optimizers and models ask of a backend beside functionals: values changed in place.
#pragma once

#include <span>
#include <string_view>

#include "ballast/ops/ops.h"

namespace ballast::ops {

// Every element of y = value; f32 or f64.
struct FillArgs {
  static constexpr std::string_view kRoutine = "fill";
  Tensor& y;
  double value;
};

// sum += x.
struct AccumulateArgs {
  static constexpr std::string_view kRoutine = "accumulate";
  const Tensor& x;
  Tensor& sum;
};

// x *= factor.
struct ScaleArgs {
  static constexpr std::string_view kRoutine = "scale";
  double factor;
  Tensor& x;
};

// The sum of the squares of x, in double, in pieces whose size depends on the count alone.
struct SquareSumArgs {
  static constexpr std::string_view kRoutine = "square_sum";
  const Tensor& x;
  double& sum;
};

// Cosines and sines of the positions of all stretches: rope_frequency and rope_magnitude (rotary.h) say by how much
// each turns.
struct RopeTablesArgs {
  static constexpr std::string_view kRoutine = "rope_tables";
  const RopeConfig& config;
  std::span<const RopeStretch> stretches;
  RopeTables& tables;
};

// ---------------------------------------------------------------- optimizers
// p and its state are where TrainedParams keeps them, in the host's memory, and are changed there. The gradient is f32
// and has as many elements. Scalars in double, rounded once where they are used.
struct SgdArgs {
  static constexpr std::string_view kRoutine = "sgd";
  std::span<float> p;
  const Tensor& gradient;
  std::span<float> velocity;  // empty: no momentum
  double lr, momentum, weight_decay;
  bool nesterov;
};
struct AdamArgs {
  static constexpr std::string_view kRoutine = "adam";
  std::span<float> p;
  const Tensor& gradient;
  std::span<float> m, v;
  double lr, beta1, beta2, eps, weight_decay;
  double correction1, correction2;  // 1 - beta^t
  bool decoupled;                   // AdamW: p -= lr * weight_decay * p first, instead of g += weight_decay * p
};
struct RmsPropArgs {
  static constexpr std::string_view kRoutine = "rmsprop";
  std::span<float> p;
  const Tensor& gradient;
  std::span<float> square_mean;
  std::span<float> buffer;  // empty: no momentum
  double lr, alpha, eps, weight_decay, momentum;
};

}  // namespace ballast::ops
