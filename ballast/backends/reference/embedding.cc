#include <algorithm>

#include "ballast/backends/reference/kernels.h"
#include "ballast/backends/reference/weight.h"
#include "ballast/tensor/blocks.h"

namespace ballast::reference {

namespace {

template <typename T>
void widen_blocks(const WeightView& weight, T* out, uint64_t count) {
  constexpr uint64_t kAtOnce = 256;  // whole blocks of every type
  float values[kAtOnce];
  for (uint64_t i = 0; i < count; i += kAtOnce) {
    const uint64_t some = std::min(kAtOnce, count - i);
    const ByteSpan blocks(weight.data + bytes_of_blocks(weight.dtype, i), bytes_of_blocks(weight.dtype, some));
    dequantize_blocks(weight.dtype, blocks, {values, some});
    std::copy(values, values + some, out + i);
  }
}

}  // namespace

template <typename T>
void widen(const WeightView& weight, T* out, uint64_t count) {
  if (is_block(weight.dtype)) return widen_blocks(weight, out, count);
  with_elements<T>(weight, [=](const auto& at) {
    for (uint64_t i = 0; i < count; ++i) out[i] = at(i);
  });
}

template void widen(const WeightView&, float*, uint64_t);
template void widen(const WeightView&, double*, uint64_t);

}  // namespace ballast::reference
