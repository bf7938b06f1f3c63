#include "ballast/nn/initialize.h"

#include <algorithm>
#include <cmath>
#include <numbers>

#include "ballast/base/counter_random.h"
#include "ballast/tensor/cast.h"

namespace ballast::nn {

namespace {

double draw(const Initial& initial, uint64_t key, uint64_t index) {
  switch (initial.kind) {
    case Initial::Kind::kConstant: return initial.scale;
    case Initial::Kind::kUniform: return (2 * counter_uniform(key, index) - 1) * initial.scale;
    case Initial::Kind::kNormal: {
      // Box and Muller; 1 - u is never 0.
      const double radius = std::sqrt(-2 * std::log(1 - counter_uniform(key, 2 * index)));
      return initial.scale * radius * std::cos(2 * std::numbers::pi * counter_uniform(key, 2 * index + 1));
    }
  }
  return 0;
}

uint64_t key_of(const std::string& name, uint64_t seed) {
  uint64_t key = seed;
  for (const char c : name) key = counter_random(key, static_cast<unsigned char>(c));
  return key;
}

}  // namespace

Status initialize(MutableByteSpan bytes, const TensorInfo& info, const Initial& initial, uint64_t seed) {
  constexpr uint64_t kPiece = 4096;
  const uint64_t count = info.shape.element_count().value_or(0), width = dtype_info(info.dtype).bits / 8;
  const uint64_t key = key_of(info.name, seed);
  std::vector<double> piece(static_cast<size_t>(std::min(count, kPiece)));
  for (uint64_t first = 0; first < count; first += kPiece) {
    const uint64_t here = std::min(kPiece, count - first);
    for (uint64_t i = 0; i < here; ++i) piece[i] = draw(initial, key, first + i);
    const ByteSpan from(reinterpret_cast<const std::byte*>(piece.data()), static_cast<size_t>(here) * sizeof(double));
    BALLAST_TRY([[maybe_unused]] const CastReport done,
                cast_elements(DType::kF64, from, info.dtype, bytes.subspan(first * width, here * width)));
  }
  return {};
}

}  // namespace ballast::nn
