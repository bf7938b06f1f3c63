#include "ballast/backends/reference/kernels.h"

namespace ballast::reference {

namespace {

constexpr size_t kElementwiseGrain = 1 << 12;

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

}  // namespace

template <typename T>
void binary(BinaryOp op, const T* a, const T* b, T* y, uint64_t count, ThreadPool& threads) {
  threads.for_ranges(count, kElementwiseGrain, [=](size_t begin, size_t end) {
    for (size_t i = begin; i < end; ++i) y[i] = binary_of(op, a[i], b[i]);
  });
}

template <typename T>
void add_bias(const T* x, const T* bias, T* y, uint64_t rows, uint64_t features, ThreadPool& threads) {
  threads.for_ranges(rows, 1, [=](size_t begin, size_t end) {
    for (size_t row = begin; row < end; ++row) {
      for (uint64_t i = 0; i < features; ++i) y[row * features + i] = x[row * features + i] + bias[i];
    }
  });
}

template void binary(BinaryOp, const float*, const float*, float*, uint64_t, ThreadPool&);
template void binary(BinaryOp, const double*, const double*, double*, uint64_t, ThreadPool&);
template void add_bias(const float*, const float*, float*, uint64_t, uint64_t, ThreadPool&);
template void add_bias(const double*, const double*, double*, uint64_t, uint64_t, ThreadPool&);

}  // namespace ballast::reference
