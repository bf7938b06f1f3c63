#include <cmath>
#include <numbers>

#include "ballast/backends/reference/gradients.h"
#include "ballast/base/counter_random.h"

namespace ballast::reference {

namespace {

constexpr size_t kSlopeGrain = 1 << 12;

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

}  // namespace

template <typename T>
void unary_gradient(UnaryOp op, T parameter, const T* x, const T* dy, T* dx, uint64_t count, ThreadPool& threads) {
  threads.for_ranges(count, kSlopeGrain, [=](size_t begin, size_t end) {
    for (size_t i = begin; i < end; ++i) dx[i] = dy[i] * slope_of(op, parameter, x[i]);
  });
}

template <typename T>
void softmax_gradient(const T* y, const T* dy, T* dx, uint64_t rows, uint64_t features, ThreadPool& threads) {
  threads.for_ranges(rows, 1, [=](size_t begin, size_t end) {
    for (size_t i = begin * features; i < end * features; i += features) {
      T sum = 0;
      for (uint64_t j = 0; j < features; ++j) sum += y[i + j] * dy[i + j];
      for (uint64_t j = 0; j < features; ++j) dx[i + j] = y[i + j] * (dy[i + j] - sum);
    }
  });
}

template <typename T>
void dropout(const T* x, T* y, uint64_t count, double p, uint64_t key, ThreadPool& threads) {
  const auto factor = static_cast<T>(1 / (1 - p));
  threads.for_ranges(count, kSlopeGrain, [=](size_t begin, size_t end) {
    for (size_t i = begin; i < end; ++i) y[i] = counter_uniform(key, i) > p ? x[i] * factor : T{0};
  });
}

#define INSTANTIATE(T)                                                                     \
  template void unary_gradient(UnaryOp, T, const T*, const T*, T*, uint64_t, ThreadPool&); \
  template void softmax_gradient(const T*, const T*, T*, uint64_t, uint64_t, ThreadPool&); \
  template void dropout(const T*, T*, uint64_t, double, uint64_t, ThreadPool&);
INSTANTIATE(float)
INSTANTIATE(double)
#undef INSTANTIATE

}  // namespace ballast::reference
