// How exactly products with quantised and bf16 weights are computed: the program chooses.
#pragma once

#include <cstdint>

namespace ballast {

// How products with weights in blocks (q4_0 and its kin) or in bf16 are computed; all other arithmetic is the same for
// both.
enum class Numerics : uint8_t {
  kExact,  // the weights' values times f32 activations, added up in f32
  // A backend may round activations: to whole numbers of 15 bits, 32 of them at a time, to multiply integers; or, for
  // bf16 weights, to the sum of two bf16 numbers, which tiles multiply.
  kFast,
};

}  // namespace ballast
