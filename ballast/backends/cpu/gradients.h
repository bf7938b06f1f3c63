// The kernels that training adds, each running on the level that was chosen. Their contracts are those of
// GradientKernels.
#pragma once

#include "ballast/backends/host/kernel_table.h"

namespace ballast::cpu::gradients {

// gradients_products.cc
void transposed_product(const TransposedProduct<float>& problem, float* scratch, ThreadPool& pool);
uint64_t transposed_product_scratch(const TransposedProduct<float>& problem);
void column_sums(const float* x, float* y, uint64_t rows, uint64_t features, bool add, ThreadPool& pool);
void scatter_rows(const uint32_t* indices, const float* rows, float* table, uint64_t count, uint64_t features,
                  ThreadPool& pool);

// gradients_elementwise.cc
void unary(UnaryOp op, float parameter, const float* x, const float* dy, float* dx, uint64_t count, ThreadPool& pool);
void dropout(const float* x, float* y, uint64_t count, double p, uint64_t key, ThreadPool& pool);
double square_sum(const float* x, uint64_t count, ThreadPool& pool);

// gradients_rows.cc
void softmax(const float* y, const float* dy, float* dx, uint64_t rows, uint64_t features, ThreadPool& pool);
void layer_norm(const NormGradient<float>& problem, ThreadPool& pool);
void rms_norm(const NormGradient<float>& problem, ThreadPool& pool);
void batch_statistics(const float* x, float* mean, float* variance, uint64_t rows, uint64_t channels, ThreadPool& pool);
void batch_norm(const BatchNormGradient<float>& problem, ThreadPool& pool);
void cross_entropy(const CrossEntropyProblem<float>& problem, ThreadPool& pool);
void cross_entropy_gradient(const CrossEntropyProblem<float>& problem, float scale, float* dlogits, ThreadPool& pool);

// gradients_attention.cc
void attention(const AttentionGradient<float>& problem, float* scratch, ThreadPool& pool);
uint64_t attention_scratch(const AttentionGradient<float>& problem, unsigned threads);

// gradients_conv2d.cc
void conv2d(const Conv2dGradient<float>& problem, float* scratch, ThreadPool& pool);
uint64_t conv2d_scratch(const Conv2dGradient<float>& problem, unsigned threads);
void max_pool2d(const Pool2dProblem<float>& problem, const float* dy, float* dx, ThreadPool& pool);

// optimizers.cc
void sgd(const SgdUpdate<float>& update, ThreadPool& pool);
void adam(const AdamUpdate<float>& update, ThreadPool& pool);
void rmsprop(const RmsPropUpdate<float>& update, ThreadPool& pool);

}  // namespace ballast::cpu::gradients
