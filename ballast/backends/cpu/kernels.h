// The kernels, each running on the level that was chosen. Their contracts are those of KernelTable.
#pragma once

#include "ballast/backends/host/kernel_table.h"

namespace ballast::cpu {

void gemm(const GemmTile<float>& tile, ThreadPool& pool);
uint64_t gemm_scratch(const GemmTile<float>& tile);
uint64_t gemm_packed_bytes(const GemmTile<float>& tile);
void gemm_pack(const GemmTile<float>& tile, std::byte* packed, ThreadPool& pool);
void batched_matmul(const BatchedMatmul<float>& problem, ThreadPool& pool);
void attention(std::span<AttentionProblem<float>> problems, ThreadPool& pool);

void conv2d(const Conv2dProblem<float>& problem, float* scratch, ThreadPool& pool);
uint64_t conv2d_scratch(const Conv2dProblem<float>& problem, unsigned threads);
uint64_t conv2d_packed_bytes(const Conv2dProblem<float>& problem);
void conv2d_pack(const Conv2dProblem<float>& problem, std::byte* packed, ThreadPool& pool);

void max_pool2d(const Pool2dProblem<float>& problem, ThreadPool& pool);
void avg_pool2d(const Pool2dProblem<float>& problem, ThreadPool& pool);
void mean_over_positions(const float* x, float* y, uint64_t n, uint64_t positions, uint64_t c, ThreadPool& pool);
void layer_norm(const NormProblem<float>& problem, ThreadPool& pool);
void rms_norm(const NormProblem<float>& problem, ThreadPool& pool);
void softmax(const float* x, float* y, uint64_t rows, uint64_t features, ThreadPool& pool);
void rope(const RopeProblem<float>& problem, ThreadPool& pool);

void unary(UnaryOp op, float parameter, const float* x, float* y, uint64_t count, ThreadPool& pool);
void binary(BinaryOp op, const float* a, const float* b, float* y, uint64_t count, ThreadPool& pool);
void add_bias(const float* x, const float* bias, float* y, uint64_t rows, uint64_t features, ThreadPool& pool);
void swiglu(const float* gate, const float* up, float* y, uint64_t count, ThreadPool& pool);
void widen(const WeightView& weights, float* out, uint64_t count);

}  // namespace ballast::cpu
