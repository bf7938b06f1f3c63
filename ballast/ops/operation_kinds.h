// The small choices that arguments of functionals and routines name.
#pragma once

#include <cstdint>

namespace ballast {

enum class Activation : uint8_t { kNone, kRelu, kRelu6, kGeluErf, kGeluTanh, kSilu };

// How products with weights in blocks (q4_0 and its kin) are computed; all other arithmetic is the same for both.
enum class Numerics : uint8_t {
  kExact,  // the weights' values times f32 activations, added up in f32
  kFast,   // a backend may round activations to whole numbers of 15 bits, 32 of them at a time, and multiply integers
};

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
