// Elements by themselves, elements that move, and sums of all of them.
#include "ballast/ops/operation_kinds.h"
#include "weight_values.cuh"

using namespace ballast::cuda;
using ballast::BinaryOp, ballast::UnaryOp;

namespace {

// Kernels are given an operation as its number, and compare all 32 bits: an enumeration of 8 would be cut out first.
__device__ constexpr uint32_t number_of(UnaryOp op) { return static_cast<uint32_t>(op); }
__device__ constexpr uint32_t number_of(BinaryOp op) { return static_cast<uint32_t>(op); }

__device__ float hard_sigmoid(float x) {
  const float y = 0.2F * x + 0.5F;
  return y > 1 ? 1 : relu(y);
}
// Without overflow, and exact far to the left, where it is e^x.
__device__ float softplus(float x) { return relu(x) + log1pf(expf(-fabsf(x))); }

__device__ float unary_of(uint32_t op, float parameter, float x) {
  switch (op) {
    case number_of(UnaryOp::kNeg): return -x;
    case number_of(UnaryOp::kAbs): return fabsf(x);
    case number_of(UnaryOp::kRelu): return relu(x);
    case number_of(UnaryOp::kRelu6): return relu6(x);
    case number_of(UnaryOp::kGeluErf): return gelu_erf(x);
    case number_of(UnaryOp::kGeluTanh): return gelu_tanh(x);
    case number_of(UnaryOp::kSilu): return silu(x);
    case number_of(UnaryOp::kSigmoid): return 1 / (1 + expf(-x));
    case number_of(UnaryOp::kTanh): return tanhf(x);
    case number_of(UnaryOp::kLeakyRelu): return x > 0 ? x : parameter * x;
    case number_of(UnaryOp::kElu): return x > 0 ? x : parameter * expm1f(x);
    case number_of(UnaryOp::kSoftplus): return softplus(x);
    case number_of(UnaryOp::kHardSigmoid): return hard_sigmoid(x);
    case number_of(UnaryOp::kHardSwish): return x * hard_sigmoid(x);
    case number_of(UnaryOp::kExp): return expf(x);
    case number_of(UnaryOp::kLog): return logf(x);
    case number_of(UnaryOp::kSqrt): return sqrtf(x);
    case number_of(UnaryOp::kSquare): return x * x;
    case number_of(UnaryOp::kScale): return parameter * x;
    case number_of(UnaryOp::kShift): return x + parameter;
  }
  return x;
}

__device__ float binary_of(uint32_t op, float a, float b) {
  switch (op) {
    case number_of(BinaryOp::kAdd): return a + b;
    case number_of(BinaryOp::kSub): return a - b;
    case number_of(BinaryOp::kMul): return a * b;
    case number_of(BinaryOp::kDiv): return a / b;
    case number_of(BinaryOp::kMax): return a != a || a > b ? a : b;
    case number_of(BinaryOp::kMin): return a != a || a < b ? a : b;
  }
  return a;
}

// `rows` runs of `width` units each, from and to places that are a stride apart.
template <typename T>
__device__ void copy_runs(const T* from, T* to, uint64_t rows, uint64_t width, uint64_t from_stride,
                          uint64_t to_stride) {
  for_each_index(rows * width, [&](uint64_t i) {
    const uint64_t row = i / width, column = i % width;
    to[row * to_stride + column] = from[row * from_stride + column];
  });
}

template <typename T>
__device__ void permute(const T* from, T* to, const Permutation& p, uint64_t count) {
  for_each_index(count, [&](uint64_t i) {
    uint64_t rest = i, place = 0;
    for (int axis = static_cast<int>(p.rank) - 1; axis >= 0; --axis) {
      place += rest % p.dims[axis] * p.strides[axis];
      rest /= p.dims[axis];
    }
    to[i] = from[place];
  });
}

}  // namespace

extern "C" {

__global__ void fill_f32(float* y, float value, uint64_t count) {
  begin_kernel();
  for_each_index(count, [&](uint64_t i) { y[i] = value; });
}

__global__ void unary_f32(const float* x, float* y, uint32_t op, float parameter, uint64_t count) {
  begin_kernel();
  for_each_index(count, [&](uint64_t i) { y[i] = unary_of(op, parameter, x[i]); });
}

__global__ void binary_f32(const float* a, const float* b, float* y, uint32_t op, uint64_t count) {
  begin_kernel();
  for_each_index(count, [&](uint64_t i) { y[i] = binary_of(op, a[i], b[i]); });
}

__global__ void clamp_f32(const float* x, float* y, float low, float high, uint64_t count) {
  begin_kernel();
  for_each_index(count, [&](uint64_t i) { y[i] = x[i] < low ? low : (x[i] > high ? high : x[i]); });
}

__global__ void swiglu_f32(const float* gate, const float* up, float* y, uint64_t count) {
  begin_kernel();
  for_each_index(count, [&](uint64_t i) { y[i] = silu(gate[i]) * up[i]; });
}

__global__ void add_bias_f32(const float* x, const uint8_t* bias, uint32_t type, float* y, uint64_t features,
                             uint64_t count) {
  begin_kernel();
  for_each_index(count,
                 [&](uint64_t i) { y[i] = x[i] + weight_at(static_cast<WeightType>(type), bias, i % features); });
}

__global__ void prelu_f32(const float* x, const uint8_t* slopes, uint32_t type, float* y, uint64_t channels,
                          uint64_t count) {
  begin_kernel();
  for_each_index(count, [&](uint64_t i) {
    y[i] = x[i] > 0 ? x[i] : weight_at(static_cast<WeightType>(type), slopes, i % channels) * x[i];
  });
}

__global__ void scale_rows_f32(const float* x, const float* factors, float* y, uint64_t features, uint64_t count) {
  begin_kernel();
  for_each_index(count, [&](uint64_t i) { y[i] = x[i] * factors[i / features]; });
}

__global__ void copy_runs_16(const uint4* from, uint4* to, uint64_t rows, uint64_t width, uint64_t from_stride,
                             uint64_t to_stride) {
  begin_kernel();
  copy_runs(from, to, rows, width, from_stride, to_stride);
}
__global__ void copy_runs_4(const uint32_t* from, uint32_t* to, uint64_t rows, uint64_t width, uint64_t from_stride,
                            uint64_t to_stride) {
  begin_kernel();
  copy_runs(from, to, rows, width, from_stride, to_stride);
}
__global__ void copy_runs_1(const uint8_t* from, uint8_t* to, uint64_t rows, uint64_t width, uint64_t from_stride,
                            uint64_t to_stride) {
  begin_kernel();
  copy_runs(from, to, rows, width, from_stride, to_stride);
}

// Rows of several parts side by side, in words of four bytes.
__global__ void join_columns_4(const __grid_constant__ Columns columns, uint32_t* to, uint64_t rows) {
  begin_kernel();
  for_each_index(rows * columns.width, [&](uint64_t i) {
    const uint64_t row = i / columns.width, column = i % columns.width;
    uint64_t begin = 0;
    for (uint32_t part = 0; part < columns.count; ++part) {
      const uint64_t width = columns.widths[part];
      if (column < begin + width) {
        to[i] = reinterpret_cast<const uint32_t*>(columns.from[part])[row * width + column - begin];
        return;
      }
      begin += width;
    }
  });
}

__global__ void permute_1(const uint8_t* from, uint8_t* to, const __grid_constant__ Permutation p, uint64_t count) {
  begin_kernel();
  permute(from, to, p, count);
}
__global__ void permute_2(const uint16_t* from, uint16_t* to, const __grid_constant__ Permutation p, uint64_t count) {
  begin_kernel();
  permute(from, to, p, count);
}
__global__ void permute_4(const uint32_t* from, uint32_t* to, const __grid_constant__ Permutation p, uint64_t count) {
  begin_kernel();
  permute(from, to, p, count);
}
__global__ void permute_8(const uint64_t* from, uint64_t* to, const __grid_constant__ Permutation p, uint64_t count) {
  begin_kernel();
  permute(from, to, p, count);
}

// One block. The sum of all elements over `divisor`, in f64.
__global__ void reduce_all_f32(const float* x, float* y, double divisor, uint64_t count) {
  begin_kernel();
  double sum = 0;
  for (uint64_t i = threadIdx.x; i < count; i += blockDim.x) sum += static_cast<double>(x[i]);
  sum = reduce_block(sum, 0.0, Sum());
  if (threadIdx.x == 0) *y = static_cast<float>(sum / divisor);
}

}  // extern "C"
