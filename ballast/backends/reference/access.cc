#include "ballast/backends/reference/access.h"

#include <fmt/format.h>

#include <algorithm>

#include "ballast/device/host_access.h"
#include "ballast/tensor/blocks.h"
#include "ballast/tensor/element.h"

namespace ballast::reference {

namespace {

uint64_t bytes_of_blocks(DType dtype, uint64_t count) {
  return count / dtype_info(dtype).block_elements * dtype_info(dtype).block_bytes;
}

template <typename T>
void widen_blocks(DType dtype, ByteSpan bytes, T* out, uint64_t count) {
  constexpr uint64_t kAtOnce = 256;  // whole blocks of every type
  float values[kAtOnce];
  for (uint64_t i = 0; i < count; i += kAtOnce) {
    const uint64_t some = std::min(kAtOnce, count - i);
    dequantize_blocks(dtype, bytes.subspan(bytes_of_blocks(dtype, i), bytes_of_blocks(dtype, some)), {values, some});
    std::copy(values, values + some, out + i);
  }
}

}  // namespace

template <typename T>
void widen(DType dtype, ByteSpan bytes, T* out, uint64_t count) {
  if (is_block(dtype)) return widen_blocks(dtype, bytes, out, count);
  visit_element(dtype, [&]<typename E>() {
    for (uint64_t i = 0; i < count; ++i) out[i] = static_cast<T>(E::decode(load_bits<E>(bytes.data(), i)));
  });
}

Result<bool> rounds_operands(const Context& context) {
  if (context.product_dtype == DType::kF32) return false;
  if (context.product_dtype == DType::kBF16) return true;
  return make_error(ErrorCode::kUnsupported, fmt::format("products cannot round their operands to {}, only to bf16",
                                                         dtype_name(context.product_dtype)));
}

template <typename T>
void round_values(Context& context, T* values, uint64_t count) {
  each_element(context, count, [&](size_t i) { values[i] = static_cast<T>(BF16::decode(BF16::encode(values[i]))); });
}

Result<Tensor> operand(Context& context, const Tensor& x) {
  BALLAST_TRY(const bool rounds, rounds_operands(context));
  if (!rounds) return x;
  BALLAST_TRY(Tensor y, context.workspace().copy(x));
  with_type(y.dtype(), [&]<typename T>() { round_values(context, host_data<T>(y), y.count()); });
  return y;
}

#define INSTANTIATE(T)                                \
  template void widen(DType, ByteSpan, T*, uint64_t); \
  template void round_values(Context&, T*, uint64_t);
INSTANTIATE(float)
INSTANTIATE(double)
#undef INSTANTIATE

}  // namespace ballast::reference
