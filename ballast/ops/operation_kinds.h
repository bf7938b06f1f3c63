// The small choices that arguments of functionals and routines name.
#pragma once

#include <cstdint>

#include "ballast/tensor/numerics.h"

namespace ballast {

enum class Activation : uint8_t { kNone, kRelu, kRelu6, kGeluErf, kGeluTanh, kSilu };

// Of a weight: [inputs, outputs] or [outputs, inputs]. Weights in blocks are best kOutIn: the blocks of a row follow
// each other.
enum class WeightLayout : uint8_t { kInOut, kOutIn };

// NaN stays NaN in all of these, also in kMax and kMin, and in activations: a broken weight must show.
enum class BinaryOp : uint8_t { kAdd, kSub, kMul, kDiv, kMax, kMin };
enum class UnaryOp : uint8_t {
  kNeg,
  kAbs,
  kRelu,
  kRelu6,
  kGeluErf,
  kGeluTanh,
  kSilu,
  kSigmoid,
  kTanh,
  kLeakyRelu,    // parameter: the slope at and below 0
  kElu,          // parameter: alpha
  kSoftplus,     // log(1 + exp(x)), without overflow
  kHardSigmoid,  // clip(0.2 x + 0.5, 0, 1)
  kHardSwish,    // x * hard sigmoid
  kExp,
  kLog,
  kSqrt,
  kSquare,
  kScale,  // parameter * x
  kShift,  // x + parameter
};

}  // namespace ballast
