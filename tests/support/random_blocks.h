// Weights in blocks, of every type that can be computed with.
#pragma once

#include <cstdint>
#include <vector>

#include "ballast/base/bytes.h"
#include "ballast/base/dtype.h"

namespace ballast::testing {

std::vector<DType> dequantizable_types();

// Whole blocks in which every bit of the numbers is random, of values between about -1 and 1.
ByteVector random_blocks(DType dtype, size_t elements, uint64_t seed);
// What they stand for.
std::vector<float> block_values(DType dtype, ByteSpan blocks);

}  // namespace ballast::testing
