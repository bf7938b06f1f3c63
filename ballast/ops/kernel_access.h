// How functionals reach the kernels of their backend and the bytes of their parameters.
#pragma once

#include <cstdint>
#include <type_traits>
#include <utility>

#include "ballast/ops/ops.h"

namespace ballast::ops {

template <typename T>
inline constexpr DType kDTypeOf = std::is_same_v<T, double> ? DType::kF64 : DType::kF32;

template <typename T>
const KernelTable<T>& kernels(const Context& context) {
  if constexpr (std::is_same_v<T, double>) return context.backend().f64;
  else return context.backend().f32;
}

// Calls body.operator()<T>() with the type of activations, which checks have found to be f32 or f64.
template <typename Body>
auto with_type(DType dtype, Body&& body) {
  return dtype == DType::kF64 ? body.template operator()<double>() : body.template operator()<float>();
}

// Whether the backend has what `pick` takes from its table. Without a way to read parameters a table has nothing.
template <typename Pick>
bool has_kernel(const Context& context, DType dtype, const Pick& pick) {
  return with_type(dtype, [&]<typename T>() {
    const KernelTable<T>& table = kernels<T>(context);
    return table.widen != nullptr && pick(table) != nullptr;
  });
}

// Calls body(lease, rows) for tiles that follow each other and whose first `rows` rows together are rows
// [first, first + count) of the parameter.
template <typename Body>
Status for_each_tile(const Param& param, uint64_t first, uint64_t count, const Body& body) {
  for (uint64_t row = first, end = first + count; row < end;) {
    BALLAST_TRY(const Lease lease, param.store().rows(param, row));
    const uint64_t rows = lease.row_count() < end - row ? lease.row_count() : end - row;
    BALLAST_CHECK(body(lease, rows));
    row += rows;
  }
  return {};
}
// The same for the whole parameter: body(lease).
template <typename Body>
Status for_each_tile(const Param& param, const Body& body) {
  return for_each_tile(param, 0, param.rows(), [&](const Lease& lease, uint64_t) { return body(lease); });
}

// A parameter whole, as values of type T: where it lies, if it can be used there, else widened.
template <typename T>
class ParamValues {
 public:
  // For small ones: fails where it does not fit the store's budget.
  static Result<ParamValues> take(Context& context, const Param& param) {
    ParamValues values;
    BALLAST_TRY(values.lease_, param.store().whole(param));
    const std::byte* bytes = values.lease_.bytes().data();
    if (values.is_usable(param)) {
      values.data_ = reinterpret_cast<const T*>(bytes);
      return values;
    }
    const uint64_t count = param.shape().element_count().value_or(0);
    BALLAST_TRY(values.widened_, context.workspace().make({count}, kDTypeOf<T>));
    kernels<T>(context).widen(WeightView{bytes, param.dtype()}, values.widened_.template writable<T>(), count);
    values.data_ = values.widened_.template data<T>();
    values.lease_ = Lease();
    return values;
  }
  // For any: put together from tiles in the workspace where the store does not have it in one piece.
  static Result<ParamValues> gather(Context& context, const Param& param) {
    ParamValues values;
    BALLAST_TRY(values.lease_, param.store().rows(param));
    if (values.lease_.row_count() == param.rows() && values.is_usable(param)) {
      values.data_ = reinterpret_cast<const T*>(values.lease_.bytes().data());
      return values;
    }
    values.lease_ = Lease();
    const uint64_t count = param.shape().element_count().value_or(0);
    BALLAST_TRY(values.widened_, context.workspace().make({count}, kDTypeOf<T>));
    T* to = values.widened_.template writable<T>();
    values.data_ = to;
    BALLAST_CHECK(for_each_tile(param, [&](const Lease& lease) -> Status {
      const uint64_t elements = lease.row_count() * (count / param.rows());
      kernels<T>(context).widen(WeightView{lease.bytes().data(), param.dtype()}, to, elements);
      to += elements;
      return {};
    }));
    return values;
  }
  // Nothing for a parameter that is not there.
  static Result<ParamValues> take(Context& context, const Param* param) {
    return param != nullptr ? take(context, *param) : ParamValues();
  }

  const T* data() const { return data_; }

 private:
  bool is_usable(const Param& param) const {
    return param.dtype() == kDTypeOf<T> && reinterpret_cast<uintptr_t>(lease_.bytes().data()) % alignof(T) == 0;
  }

  Lease lease_;
  Tensor widened_;
  const T* data_ = nullptr;
};

}  // namespace ballast::ops
