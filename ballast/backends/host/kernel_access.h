// How implementations reach the kernels of their backend and the bytes of their parameters.
#pragma once

#include <cstdint>
#include <utility>

#include "ballast/backends/host/host_backend.h"
#include "ballast/backends/typed_access.h"
#include "ballast/device/host_access.h"

namespace ballast::host {

using namespace ops;  // NOLINT: implementations speak of functionals and little else

template <typename T>
const KernelTable<T>& kernels(const Context& context) {
  const auto& backend = static_cast<const HostBackend&>(context.backend());
  if constexpr (std::is_same_v<T, double>) return backend.f64;
  else return backend.f32;
}

Error no_gradient_kernel(const Context& context, std::string_view kernel);

// Whether the backend has what `pick` takes from its table. Without a way to read parameters a table has nothing.
template <typename Pick>
bool has_kernel(const Context& context, DType dtype, const Pick& pick) {
  return with_type(dtype, [&]<typename T>() {
    const KernelTable<T>& table = kernels<T>(context);
    return table.widen != nullptr && pick(table) != nullptr;
  });
}

// The same for the table of gradients, of which a routine needs one slot; kUnsupported names what is missing.
template <typename T, typename Kernel>
Result<const GradientKernels<T>*> gradients_with(const Context& context, Kernel GradientKernels<T>::*slot,
                                                 std::string_view name) {
  const GradientKernels<T>* table = &kernels<T>(context).gradients;
  if (table->*slot == nullptr) return no_gradient_kernel(context, name);
  return table;
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
    kernels<T>(context).widen(WeightView{bytes, param.dtype()}, host_data<T>(values.widened_), count);
    values.data_ = host_data<const T>(values.widened_);
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
    T* to = host_data<T>(values.widened_);
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

template <typename T>
T* data_or_null(Tensor* tensor) {
  return tensor != nullptr ? host_data<T>(*tensor) : nullptr;
}

// Elements of one loop over all of them that one thread takes at once.
inline constexpr size_t kElementGrain = 1 << 14;
// The same for rows of `features` elements.
inline size_t row_grain(uint64_t features) {
  return features >= kElementGrain ? 1 : kElementGrain / (features == 0 ? 1 : features);
}

}  // namespace ballast::host
