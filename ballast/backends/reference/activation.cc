#include <algorithm>
#include <cmath>
#include <numbers>

#include "ballast/backends/reference/kernels.h"

namespace ballast::reference {

namespace {

constexpr size_t kActivationGrain = 1 << 12;

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

template <typename T>
void unary(UnaryOp op, T parameter, const T* x, T* y, uint64_t count, ThreadPool& threads) {
  threads.for_ranges(count, kActivationGrain, [=](size_t begin, size_t end) {
    for (size_t i = begin; i < end; ++i) y[i] = unary_of(op, parameter, x[i]);
  });
}

template <typename T>
void swiglu(const T* gate, const T* up, T* y, uint64_t count, ThreadPool& threads) {
  threads.for_ranges(count, kActivationGrain, [=](size_t begin, size_t end) {
    for (size_t i = begin; i < end; ++i) y[i] = silu(gate[i]) * up[i];
  });
}

template <typename T>
void softmax(const T* x, T* y, uint64_t rows, uint64_t features, ThreadPool& threads) {
  threads.for_ranges(rows, 1, [=](size_t begin, size_t end) {
    for (size_t row = begin; row < end; ++row) {
      const T* in = x + row * features;
      T* out = y + row * features;
      const T largest = *std::max_element(in, in + features);
      T sum = 0;
      for (uint64_t i = 0; i < features; ++i) sum += out[i] = std::exp(in[i] - largest);
      for (uint64_t i = 0; i < features; ++i) out[i] = out[i] / sum;
    }
  });
}

#define INSTANTIATE(T)                                                  \
  template T activated(Activation, T);                                  \
  template void unary(UnaryOp, T, const T*, T*, uint64_t, ThreadPool&); \
  template void swiglu(const T*, const T*, T*, uint64_t, ThreadPool&);  \
  template void softmax(const T*, T*, uint64_t, uint64_t, ThreadPool&);
INSTANTIATE(float)
INSTANTIATE(double)
#undef INSTANTIATE

}  // namespace ballast::reference
