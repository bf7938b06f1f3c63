#include "tests/support/random_blocks.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <random>
#include <span>

#include "ballast/tensor/blocks.h"
#include "ballast/tensor/small_float.h"

namespace ballast::testing {

namespace {

// Where a block has scales in f16; types without any have powers of two.
std::vector<size_t> half_fields(DType dtype) {
  switch (dtype) {
    case DType::kQ4_1:
    case DType::kQ5_1:
    case DType::kQ4K:
    case DType::kQ5K: return {0, 2};
    case DType::kQ2K: return {80, 82};
    case DType::kQ3K: return {108};
    case DType::kQ6K: return {208};
    case DType::kTQ1_0: return {52};
    case DType::kTQ2_0: return {64};
    case DType::kMXFP4:
    case DType::kNVFP4:
    case DType::kQ8K: return {};
    default: return {0};
  }
}

void put_half(std::byte* at, float value) {
  const auto bits = F16::encode(value);
  std::memcpy(at, &bits, sizeof(bits));
}

// Scales of `largest` in size, of both signs.
void put_scales(DType dtype, std::byte* block, float largest, std::mt19937& random) {
  std::uniform_real_distribution<float> share(0.3F, 1);
  for (const size_t at : half_fields(dtype)) put_half(block + at, (random() & 1 ? -largest : largest) * share(random));
  if (dtype == DType::kMXFP4) block[0] = static_cast<std::byte>(122 + random() % 3);
  if (dtype == DType::kNVFP4) {
    for (size_t i = 0; i < 4; ++i) block[i] = static_cast<std::byte>(0x08 + random() % 0x18);
  }
  if (dtype == DType::kQ8K) std::memcpy(block, &largest, sizeof(largest));
}

}  // namespace

std::vector<DType> dequantizable_types() {
  std::vector<DType> types;
  for (const DTypeInfo& row : all_dtypes()) {
    if (can_dequantize(row.dtype)) types.push_back(row.dtype);
  }
  return types;
}

std::vector<float> block_values(DType dtype, ByteSpan blocks) {
  std::vector<float> values(blocks.size() / dtype_info(dtype).block_bytes * dtype_info(dtype).block_elements);
  dequantize_blocks(dtype, blocks, values);
  return values;
}

ByteVector random_blocks(DType dtype, size_t elements, uint64_t seed) {
  const DTypeInfo& type = dtype_info(dtype);
  std::mt19937 random(static_cast<uint32_t>(seed * 31 + elements));
  ByteVector blocks(elements / type.block_elements * type.block_bytes);
  for (std::byte& byte : blocks) byte = static_cast<std::byte>(random());
  const auto put_all = [&](float largest) {
    for (size_t at = 0; at < blocks.size(); at += type.block_bytes) put_scales(dtype, &blocks[at], largest, random);
  };
  put_all(1);
  float most = 0;
  for (const float value : block_values(dtype, blocks)) most = std::max(most, std::abs(value));
  if (!half_fields(dtype).empty() || dtype == DType::kQ8K) put_all(most > 0 ? 1 / most : 1);
  return blocks;
}

}  // namespace ballast::testing
