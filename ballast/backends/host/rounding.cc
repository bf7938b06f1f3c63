#include "ballast/backends/host/rounding.h"

#include <fmt/format.h>

#include <bit>

#include "ballast/backends/host/kernel_access.h"
#include "ballast/device/host_access.h"
#include "ballast/tensor/small_float.h"

namespace ballast::host {

namespace {

constexpr size_t kGrain = 1 << 14;

// To nearest, ties to even; NaN stays NaN. What BF16::encode does, in a form that compilers turn into vectors.
uint32_t rounded_bits(float value) {
  const auto bits = std::bit_cast<uint32_t>(value);
  const uint32_t rounded = bits + 0x7FFF + (bits >> 16 & 1);
  return ((bits & 0x7FFFFFFF) > 0x7F800000 ? bits | 0x400000 : rounded) & 0xFFFF0000;
}
float rounded(float value) { return std::bit_cast<float>(rounded_bits(value)); }
double rounded(double value) { return BF16::decode(BF16::encode(value)); }

}  // namespace

Result<bool> rounds_products(const Context& context) {
  if (context.product_dtype == DType::kF32) return false;
  if (context.product_dtype == DType::kBF16) return true;
  return make_error(ErrorCode::kUnsupported, fmt::format("products cannot round their operands to {}, only to bf16",
                                                         dtype_name(context.product_dtype)));
}

template <typename T>
Result<const T*> product_values(Context& context, const T* values, uint64_t count, Tensor& memory) {
  BALLAST_TRY(const bool rounds, rounds_products(context));
  if (!rounds || values == nullptr) return values;
  BALLAST_TRY(memory, context.workspace().make({count}, kDTypeOf<T>));
  T* const to = host_data<T>(memory);
  context.threads().for_ranges(count, kGrain, [=](size_t begin, size_t end) {
    for (size_t i = begin; i < end; ++i) to[i] = rounded(values[i]);
  });
  return to;
}
template Result<const float*> product_values(Context&, const float*, uint64_t, Tensor&);
template Result<const double*> product_values(Context&, const double*, uint64_t, Tensor&);

Result<Tensor> product_operand(Context& context, const Tensor& x) {
  BALLAST_TRY(const bool rounds, rounds_products(context));
  if (!rounds) return x;
  Tensor memory;
  BALLAST_CHECK(with_type(x.dtype(), [&]<typename T>() -> Status {
    BALLAST_TRY(const T* values, product_values(context, host_data<const T>(x), x.count(), memory));
    (void)values;
    return {};
  }));
  return memory.reshaped(x.dims());
}

Result<WeightView> product_weight(Context& context, const WeightView& weight, uint64_t count, Tensor& memory) {
  BALLAST_TRY(const bool rounds, rounds_products(context));
  if (!rounds || weight.dtype == DType::kBF16) return weight;
  BALLAST_TRY(memory, context.workspace().make({count}, DType::kBF16));
  auto* const to = host_data<uint16_t>(memory);
  const DTypeInfo& info = dtype_info(weight.dtype);
  const auto offset = [&](size_t i) {
    return is_block(weight.dtype) ? i / info.block_elements * info.block_bytes : i * (info.bits / 8);
  };
  const auto widen = kernels<float>(context).widen;
  context.threads().for_ranges(count, kGrain, [&](size_t begin, size_t end) {
    constexpr size_t kAtOnce = 256;  // whole blocks, where there are any
    float values[kAtOnce];
    for (size_t i = begin; i < end; i += kAtOnce) {
      const size_t some = std::min(kAtOnce, end - i);
      widen(WeightView{weight.data + offset(i), weight.dtype}, values, some);
      for (size_t j = 0; j < some; ++j) to[i + j] = static_cast<uint16_t>(rounded_bits(values[j]) >> 16);
    }
  });
  return WeightView{host_bytes(memory).data(), DType::kBF16};
}

}  // namespace ballast::host
