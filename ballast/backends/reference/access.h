// How the reference reaches memory: parameters whole and as plain values, and loops whose pieces threads may take in
// any order. Nothing here or beside it is shared with other backends but the way to tensors and tiles.
#pragma once

#include <cstdint>

#include "ballast/backends/typed_access.h"
#include "ballast/device/host_access.h"

namespace ballast::reference {

using namespace ops;  // NOLINT: implementations speak of functionals and little else

// body(i) for each of `count` pieces of work.
template <typename Body>
void each(Context& context, uint64_t count, const Body& body) {
  context.threads().for_ranges(count, 1, [&](size_t begin, size_t end) {
    for (size_t i = begin; i < end; ++i) body(i);
  });
}
// The same for single elements.
template <typename Body>
void each_element(Context& context, uint64_t count, const Body& body) {
  context.threads().for_ranges(count, 1 << 12, [&](size_t begin, size_t end) {
    for (size_t i = begin; i < end; ++i) body(i);
  });
}

// A tensor of the same shape and type.
inline Result<Tensor> make_like(Context& context, const Tensor& x) {
  return context.workspace().make(x.dims(), x.dtype());
}

template <typename T>
T* data_or_null(Tensor* tensor) {
  return tensor != nullptr ? host_data<T>(*tensor) : nullptr;
}

// Elements of a parameter, of any type that can be computed with.
template <typename T>
void widen(DType dtype, ByteSpan bytes, T* out, uint64_t count);

// Whether products round their operands to bf16; kUnsupported for a type that they cannot round to.
Result<bool> rounds_operands(const Context& context);
// What products compute with: x, or a rounded copy.
Result<Tensor> operand(Context& context, const Tensor& x);
template <typename T>
void round_values(Context& context, T* values, uint64_t count);

// The values of a parameter.
template <typename T>
class Values {
 public:
  Values() = default;
  static Result<Values> of(Context& context, const Param& param) { return rows_of(context, param, 0, param.rows()); }
  // Nothing for a parameter that is not there.
  static Result<Values> of(Context& context, const Param* param) {
    return param != nullptr ? of(context, *param) : Values();
  }
  static Result<Values> rows_of(Context& context, const Param& param, uint64_t first, uint64_t count) {
    const uint64_t elements = param.shape().element_count().value_or(0);
    const uint64_t width = param.rows() == 0 ? 0 : elements / param.rows();
    Values values;
    BALLAST_TRY(values.memory_, context.workspace().make({count * width}, kDTypeOf<T>));
    T* to = host_data<T>(values.memory_);
    values.data_ = to;
    if (count * width == 0) return values;
    BALLAST_CHECK(for_each_tile(param, first, count, [&](const Lease& lease, uint64_t rows) -> Status {
      widen(param.dtype(), lease.bytes(), to, rows * width);
      to += rows * width;
      return {};
    }));
    return values;
  }
  // As products compute with them.
  static Result<Values> operand_of(Context& context, const Param& param, uint64_t first, uint64_t count) {
    BALLAST_TRY(const bool rounds, rounds_operands(context));
    BALLAST_TRY(Values values, rows_of(context, param, first, count));
    if (rounds) round_values(context, host_data<T>(values.memory_), values.memory_.count());
    return values;
  }

  bool is_there() const { return data_ != nullptr; }
  T operator[](uint64_t i) const { return data_[i]; }

 private:
  Tensor memory_;
  const T* data_ = nullptr;
};

// activation.cc
template <typename T>
T activated(Activation activation, T x);

// linalg.cc: what linear does.
Result<Tensor> weighted_product(Context& context, const Tensor& x, const Param& weight, const LinearOptions& options);

// One function per family, with its functionals and their routines.
void add_activation(Registry& registry);
void add_attention(Registry& registry);
void add_conv(Registry& registry);
void add_embedding(Registry& registry);
void add_experts(Registry& registry);
void add_linalg(Registry& registry);
void add_losses(Registry& registry);
void add_metrics(Registry& registry);
void add_normalization(Registry& registry);
void add_pooling(Registry& registry);
void add_reduction(Registry& registry);
void add_rotary(Registry& registry);
void add_shape(Registry& registry);
void add_tensor_ops(Registry& registry);
void add_updates(Registry& registry);

}  // namespace ballast::reference
