// The reference kernels, each in the file of its family, for float and double.
#pragma once

#include "ballast/backends/host/kernel_table.h"

namespace ballast::reference {

// activation.cc
template <typename T>
T activated(Activation activation, T x);
template <typename T>
void unary(UnaryOp op, T parameter, const T* x, T* y, uint64_t count, ThreadPool& threads);
template <typename T>
void swiglu(const T* gate, const T* up, T* y, uint64_t count, ThreadPool& threads);
template <typename T>
void softmax(const T* x, T* y, uint64_t rows, uint64_t features, ThreadPool& threads);

// attention.cc
template <typename T>
void attention(const AttentionProblem<T>& problem, ThreadPool& threads);

// conv.cc
template <typename T>
void conv2d(const Conv2dProblem<T>& problem, T* scratch, ThreadPool& threads);
template <typename T>
uint64_t conv2d_scratch(const Conv2dProblem<T>& problem, unsigned threads);

// embedding.cc
template <typename T>
void widen(const WeightView& weight, T* out, uint64_t count);

// linalg.cc
template <typename T>
void gemm(const GemmTile<T>& tile, ThreadPool& threads);
template <typename T>
void batched_matmul(const BatchedMatmul<T>& problem, ThreadPool& threads);

// normalization.cc
template <typename T>
void layer_norm(const NormProblem<T>& problem, ThreadPool& threads);
template <typename T>
void rms_norm(const NormProblem<T>& problem, ThreadPool& threads);

// pooling.cc
template <typename T>
void max_pool2d(const Pool2dProblem<T>& problem, ThreadPool& threads);
template <typename T>
void avg_pool2d(const Pool2dProblem<T>& problem, ThreadPool& threads);
template <typename T>
void mean_over_positions(const T* x, T* y, uint64_t n, uint64_t positions, uint64_t c, ThreadPool& threads);

// rotary.cc
template <typename T>
void rope(const RopeProblem<T>& problem, ThreadPool& threads);

// tensor_ops.cc
template <typename T>
void binary(BinaryOp op, const T* a, const T* b, T* y, uint64_t count, ThreadPool& threads);
template <typename T>
void add_bias(const T* x, const T* bias, T* y, uint64_t rows, uint64_t features, ThreadPool& threads);

}  // namespace ballast::reference
