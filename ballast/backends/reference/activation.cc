#include "ballast/ops/activation.h"

#include <algorithm>
#include <cmath>
#include <numbers>

#include "ballast/backends/reference/access.h"
#include "ballast/device/host_access.h"
#include "ballast/ops/gradient_routines.h"
#include "ballast/ops/tensor_ops.h"

namespace ballast::reference {

namespace {

template <typename T>
T silu(T x) {
  return x / (T{1} + std::exp(-x));
}

template <typename T>
T gelu_erf(T x) {
  return (T{0.5} * x) * (T{1} + std::erf(x / std::numbers::sqrt2_v<T>));
}

template <typename T>
T gelu_tanh(T x) {
  const T scale = std::sqrt(T{2} / std::numbers::pi_v<T>);
  return (T{0.5} * x) * (T{1} + std::tanh(scale * (x + static_cast<T>(0.044715) * x * x * x)));
}

// NaN stays NaN here and below: a broken weight must show.
template <typename T>
T relu(T x) {
  return x < T{0} ? T{0} : x;
}

template <typename T>
T relu6(T x) {
  return x > T{6} ? T{6} : relu(x);
}

template <typename T>
T hard_sigmoid(T x) {
  const T y = static_cast<T>(0.2) * x + T{0.5};
  return y > T{1} ? T{1} : relu(y);
}

// Without overflow, and exact far to the left, where it is e^x.
template <typename T>
T softplus(T x) {
  return relu(x) + std::log1p(std::exp(-std::abs(x)));
}

template <typename T>
T unary_of(UnaryOp op, T parameter, T x) {
  switch (op) {
    case UnaryOp::kNeg: return -x;
    case UnaryOp::kAbs: return std::abs(x);
    case UnaryOp::kRelu: return relu(x);
    case UnaryOp::kRelu6: return relu6(x);
    case UnaryOp::kGeluErf: return gelu_erf(x);
    case UnaryOp::kGeluTanh: return gelu_tanh(x);
    case UnaryOp::kSilu: return silu(x);
    case UnaryOp::kSigmoid: return T{1} / (T{1} + std::exp(-x));
    case UnaryOp::kTanh: return std::tanh(x);
    case UnaryOp::kLeakyRelu: return x > T{0} ? x : parameter * x;
    case UnaryOp::kElu: return x > T{0} ? x : parameter * std::expm1(x);
    case UnaryOp::kSoftplus: return softplus(x);
    case UnaryOp::kHardSigmoid: return hard_sigmoid(x);
    case UnaryOp::kHardSwish: return x * hard_sigmoid(x);
    case UnaryOp::kExp: return std::exp(x);
    case UnaryOp::kLog: return std::log(x);
    case UnaryOp::kSqrt: return std::sqrt(x);
    case UnaryOp::kSquare: return x * x;
    case UnaryOp::kScale: return parameter * x;
    case UnaryOp::kShift: return x + parameter;
  }
  return x;
}

template <typename T>
T sigmoid(T x) {
  return T{1} / (T{1} + std::exp(-x));
}

template <typename T>
T gelu_erf_slope(T x) {
  const T density = std::exp(T{-0.5} * x * x) * static_cast<T>(std::numbers::inv_sqrtpi / std::numbers::sqrt2);
  return T{0.5} * (T{1} + std::erf(x / std::numbers::sqrt2_v<T>)) + x * density;
}

template <typename T>
T gelu_tanh_slope(T x) {
  const T scale = std::sqrt(T{2} / std::numbers::pi_v<T>);
  const auto cube = static_cast<T>(0.044715);
  const T t = std::tanh(scale * (x + cube * x * x * x));
  return T{0.5} * (T{1} + t) + T{0.5} * x * (T{1} - t * t) * scale * (T{1} + T{3} * cube * x * x);
}

template <typename T>
T silu_slope(T x) {
  const T s = sigmoid(x);
  return s * (T{1} + x * (T{1} - s));
}

// The slope of clip(0.2 x + 0.5, 0, 1), which is flat from its bends on.
template <typename T>
T hard_sigmoid_slope(T x) {
  return x > T{-2.5} && x < T{2.5} ? static_cast<T>(0.2) : T{0};
}

template <typename T>
T hard_swish_slope(T x) {
  if (x <= T{-2.5}) return 0;
  return x >= T{2.5} ? T{1} : static_cast<T>(0.4) * x + T{0.5};
}

// At a bend the slope of the left side.
template <typename T>
T slope_of(UnaryOp op, T parameter, T x) {
  switch (op) {
    case UnaryOp::kNeg: return -1;
    case UnaryOp::kAbs: return x > T{0} ? T{1} : x < T{0} ? T{-1} : T{0};
    case UnaryOp::kRelu: return x > T{0} ? T{1} : T{0};
    case UnaryOp::kRelu6: return x > T{0} && x < T{6} ? T{1} : T{0};
    case UnaryOp::kGeluErf: return gelu_erf_slope(x);
    case UnaryOp::kGeluTanh: return gelu_tanh_slope(x);
    case UnaryOp::kSilu: return silu_slope(x);
    case UnaryOp::kSigmoid: return sigmoid(x) * (T{1} - sigmoid(x));
    case UnaryOp::kTanh: return T{1} - std::tanh(x) * std::tanh(x);
    case UnaryOp::kLeakyRelu: return x > T{0} ? T{1} : parameter;
    case UnaryOp::kElu: return x > T{0} ? T{1} : parameter * std::exp(x);
    case UnaryOp::kSoftplus: return sigmoid(x);
    case UnaryOp::kHardSigmoid: return hard_sigmoid_slope(x);
    case UnaryOp::kHardSwish: return hard_swish_slope(x);
    case UnaryOp::kExp: return std::exp(x);
    case UnaryOp::kLog: return T{1} / x;
    case UnaryOp::kSqrt: return T{0.5} / std::sqrt(x);
    case UnaryOp::kSquare: return T{2} * x;
    case UnaryOp::kScale: return parameter;
    case UnaryOp::kShift: return 1;
  }
  return 1;
}

Result<Tensor> apply_unary(Context& context, UnaryOp op, double parameter, const Tensor& x) {
  BALLAST_TRY(Tensor y, make_like(context, x));
  with_type(x.dtype(), [&]<typename T>() {
    const T* in = host_data<const T>(x);
    T* out = host_data<T>(y);
    each_element(context, x.count(), [&](size_t i) { out[i] = unary_of(op, static_cast<T>(parameter), in[i]); });
  });
  return y;
}

template <typename Args, UnaryOp kOp>
void add_unary(Registry& registry) {
  registry.add_builtin<Args>(nullptr,
                             [](Context& context, const Args& args) { return apply_unary(context, kOp, 0, args.x); });
}

Result<Tensor> run_unary(Context& context, const UnaryArgs& args) {
  return apply_unary(context, args.op, args.parameter, args.x);
}

Result<Tensor> run_gelu(Context& context, const GeluArgs& args) {
  return apply_unary(context, args.variant == Activation::kGeluTanh ? UnaryOp::kGeluTanh : UnaryOp::kGeluErf, 0,
                     args.x);
}

Status run_unary_gradient(Context& context, const UnaryGradientArgs& args) {
  with_type(args.dy.dtype(), [&]<typename T>() {
    const T* x = host_data<const T>(args.x);
    const T* dy = host_data<const T>(args.dy);
    T* dx = host_data<T>(args.dx);
    const auto parameter = static_cast<T>(args.parameter);
    each_element(context, args.dx.count(), [&](size_t i) { dx[i] = dy[i] * slope_of(args.op, parameter, x[i]); });
  });
  return {};
}

Result<Tensor> run_swiglu(Context& context, const SwigluArgs& args) {
  BALLAST_TRY(Tensor y, make_like(context, args.gate));
  with_type(y.dtype(), [&]<typename T>() {
    const T* gate = host_data<const T>(args.gate);
    const T* up = host_data<const T>(args.up);
    T* out = host_data<T>(y);
    each_element(context, y.count(), [&](size_t i) { out[i] = silu(gate[i]) * up[i]; });
  });
  return y;
}

uint64_t features_of(const Dims& dims) { return dims.rank() == 0 ? 1 : dims.back(); }

template <typename T>
void softmax_row(const T* in, T* out, uint64_t features) {
  const T largest = *std::max_element(in, in + features);
  T sum = 0;
  for (uint64_t i = 0; i < features; ++i) sum += out[i] = std::exp(in[i] - largest);
  for (uint64_t i = 0; i < features; ++i) out[i] = out[i] / sum;
}

Result<Tensor> run_softmax(Context& context, const SoftmaxLastDimArgs& args) {
  BALLAST_TRY(Tensor y, make_like(context, args.x));
  if (y.count() == 0) return y;
  const uint64_t features = features_of(y.dims());
  with_type(y.dtype(), [&]<typename T>() {
    const T* in = host_data<const T>(args.x);
    T* out = host_data<T>(y);
    each(context, y.dims().leading(),
         [&](size_t row) { softmax_row(in + row * features, out + row * features, features); });
  });
  return y;
}

Status run_softmax_gradient(Context& context, const SoftmaxGradientArgs& args) {
  if (args.dx.count() == 0) return {};
  const uint64_t features = features_of(args.dy.dims());
  with_type(args.dy.dtype(), [&]<typename T>() {
    each(context, args.dy.dims().leading(), [&](size_t row) {
      const T* y = host_data<const T>(args.y) + row * features;
      const T* dy = host_data<const T>(args.dy) + row * features;
      T* dx = host_data<T>(args.dx) + row * features;
      T sum = 0;
      for (uint64_t i = 0; i < features; ++i) sum += y[i] * dy[i];
      for (uint64_t i = 0; i < features; ++i) dx[i] = y[i] * (dy[i] - sum);
    });
  });
  return {};
}

Result<Tensor> run_prelu(Context& context, const PreluArgs& args) {
  BALLAST_TRY(Tensor y, make_like(context, args.x));
  BALLAST_CHECK(with_type(y.dtype(), [&]<typename T>() -> Status {
    BALLAST_TRY(const auto slopes, Values<T>::of(context, args.slopes));
    const uint64_t channels = y.dims().back();
    const T* in = host_data<const T>(args.x);
    T* out = host_data<T>(y);
    each_element(context, y.count(), [&](size_t i) { out[i] = in[i] > T{0} ? in[i] : slopes[i % channels] * in[i]; });
    return {};
  }));
  return y;
}

Status run_prelu_gradient(Context& context, const PreluGradientArgs& args) {
  return with_type(args.dy.dtype(), [&]<typename T>() -> Status {
    BALLAST_TRY(const auto slopes, Values<T>::of(context, args.slopes));
    const uint64_t channels = args.dy.dims().back();
    const T* x = host_data<const T>(args.x);
    const T* dy = host_data<const T>(args.dy);
    T* dx = data_or_null<T>(args.dx);
    T* terms = data_or_null<T>(args.terms);
    each_element(context, args.dy.count(), [&](size_t i) {
      if (dx != nullptr) dx[i] = x[i] > T{0} ? dy[i] : slopes[i % channels] * dy[i];
      if (terms != nullptr) terms[i] = x[i] > T{0} ? T{0} : x[i] * dy[i];
    });
    return {};
  });
}

}  // namespace

template <typename T>
T activated(Activation activation, T x) {
  switch (activation) {
    case Activation::kNone: return x;
    case Activation::kRelu: return relu(x);
    case Activation::kRelu6: return relu6(x);
    case Activation::kGeluErf: return gelu_erf(x);
    case Activation::kGeluTanh: return gelu_tanh(x);
    case Activation::kSilu: return silu(x);
  }
  return x;
}

template float activated(Activation, float);
template double activated(Activation, double);

void add_activation(Registry& registry) {
  add_unary<ReluArgs, UnaryOp::kRelu>(registry);
  add_unary<Relu6Args, UnaryOp::kRelu6>(registry);
  add_unary<SiluArgs, UnaryOp::kSilu>(registry);
  registry.add_builtin<UnaryArgs>(nullptr, run_unary);
  registry.add_builtin<GeluArgs>(nullptr, run_gelu);
  registry.add_builtin<SwigluArgs>(nullptr, run_swiglu);
  registry.add_builtin<SoftmaxLastDimArgs>(nullptr, run_softmax);
  registry.add_builtin<PreluArgs>(nullptr, run_prelu);
  registry.add_routine(run_unary_gradient);
  registry.add_routine(run_softmax_gradient);
  registry.add_routine(run_prelu_gradient);
}

}  // namespace ballast::reference
