#include "ballast/ops/tensor_ops.h"

#include "ballast/backends/reference/access.h"
#include "ballast/base/counter_random.h"
#include "ballast/device/host_access.h"
#include "ballast/ops/gradient_routines.h"
#include "ballast/ops/stochastic.h"

namespace ballast::reference {

namespace {

// The larger and the smaller of two are NaN where one of them is.
template <typename T>
T binary_of(BinaryOp op, T a, T b) {
  switch (op) {
    case BinaryOp::kAdd: return a + b;
    case BinaryOp::kSub: return a - b;
    case BinaryOp::kMul: return a * b;
    case BinaryOp::kDiv: return a / b;
    case BinaryOp::kMax: return a != a || a > b ? a : b;
    case BinaryOp::kMin: return a != a || a < b ? a : b;
  }
  return a;
}

Result<Tensor> run_binary(Context& context, const BinaryArgs& args) {
  BALLAST_TRY(Tensor y, make_like(context, args.a));
  with_type(y.dtype(), [&]<typename T>() {
    const T* a = host_data<const T>(args.a);
    const T* b = host_data<const T>(args.b);
    T* out = host_data<T>(y);
    each_element(context, y.count(), [&](size_t i) { out[i] = binary_of(args.op, a[i], b[i]); });
  });
  return y;
}

// Of two that are equal, b was taken.
Status run_choice_gradient(Context& context, const ChoiceGradientArgs& args) {
  with_type(args.dy.dtype(), [&]<typename T>() {
    const T* a = host_data<const T>(args.a);
    const T* b = host_data<const T>(args.b);
    const T* dy = host_data<const T>(args.dy);
    T* dx = host_data<T>(args.dx);
    each_element(context, args.dy.count(), [&](size_t i) {
      const bool took_a = args.op == BinaryOp::kMax ? a[i] > b[i] : b[i] > a[i];
      dx[i] = took_a == args.to_a ? dy[i] : T{0};
    });
  });
  return {};
}

Result<Tensor> run_add_bias(Context& context, const AddBiasArgs& args) {
  BALLAST_TRY(Tensor y, make_like(context, args.x));
  BALLAST_CHECK(with_type(y.dtype(), [&]<typename T>() -> Status {
    BALLAST_TRY(const auto values, Values<T>::of(context, args.bias.param()));
    const T* tensor = args.bias.tensor() != nullptr ? host_data<const T>(*args.bias.tensor()) : nullptr;
    const uint64_t features = y.dims().back();
    const T* x = host_data<const T>(args.x);
    T* out = host_data<T>(y);
    each_element(context, y.count(),
                 [&](size_t i) { out[i] = x[i] + (tensor != nullptr ? tensor[i % features] : values[i % features]); });
    return {};
  }));
  return y;
}

// NaN stays NaN.
Result<Tensor> run_clamp(Context& context, const ClampArgs& args) {
  BALLAST_TRY(Tensor y, make_like(context, args.x));
  with_type(y.dtype(), [&]<typename T>() {
    const T low = args.low, high = args.high;
    const T* x = host_data<const T>(args.x);
    T* out = host_data<T>(y);
    each_element(context, y.count(), [&](size_t i) { out[i] = x[i] < low ? low : (x[i] > high ? high : x[i]); });
  });
  return y;
}

Status run_clamp_gradient(Context& context, const ClampGradientArgs& args) {
  with_type(args.dy.dtype(), [&]<typename T>() {
    const T low = args.low, high = args.high;
    const T* x = host_data<const T>(args.x);
    const T* dy = host_data<const T>(args.dy);
    T* dx = host_data<T>(args.dx);
    each_element(context, args.dy.count(), [&](size_t i) { dx[i] = x[i] < low || x[i] > high ? T{0} : dy[i]; });
  });
  return {};
}

// y = x * keep / (1 - p), keep where the i-th number of the key is above p.
Result<Tensor> run_dropout(Context& context, const DropoutArgs& args) {
  if (!args.drops()) return args.x;
  BALLAST_TRY(Tensor y, make_like(context, args.x));
  with_type(y.dtype(), [&]<typename T>() {
    const double p = args.p;
    const auto factor = static_cast<T>(1 / (1 - p));
    const T* x = host_data<const T>(args.x);
    T* out = host_data<T>(y);
    each_element(context, y.count(),
                 [&](size_t i) { out[i] = counter_uniform(*args.key, i) > p ? x[i] * factor : T{0}; });
  });
  return y;
}

Status run_column_sums(Context& context, const ColumnSumsArgs& args) {
  const uint64_t features = args.sums.count();
  const uint64_t rows = args.x.count() / features;
  with_type(args.x.dtype(), [&]<typename T>() {
    const T* x = host_data<const T>(args.x);
    T* sums = host_data<T>(args.sums);
    each(context, features, [&](size_t j) {
      T sum = 0;
      for (uint64_t i = 0; i < rows; ++i) sum += x[i * features + j];
      sums[j] = args.add ? sums[j] + sum : sum;
    });
  });
  return {};
}

}  // namespace

void add_tensor_ops(Registry& registry) {
  registry.add_builtin<BinaryArgs>(nullptr, run_binary);
  registry.add_builtin<AddBiasArgs>(nullptr, run_add_bias);
  registry.add_builtin<ClampArgs>(nullptr, run_clamp);
  registry.add_builtin<DropoutArgs>(nullptr, run_dropout);
  registry.add_routine(run_choice_gradient);
  registry.add_routine(run_clamp_gradient);
  registry.add_routine(run_column_sums);
}

}  // namespace ballast::reference
