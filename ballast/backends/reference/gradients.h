// The reference kernels that training adds, for float and double.
#pragma once

#include "ballast/backends/host/kernel_table.h"

namespace ballast::reference {

// gradients_linalg.cc
template <typename T>
void transposed_product(const TransposedProduct<T>& problem, T* scratch, ThreadPool& threads);
template <typename T>
uint64_t transposed_product_scratch(const TransposedProduct<T>& problem);
template <typename T>
void column_sums(const T* x, T* y, uint64_t rows, uint64_t features, bool add, ThreadPool& threads);
template <typename T>
double square_sum(const T* x, uint64_t count, ThreadPool& threads);
template <typename T>
void scatter_rows(const uint32_t* indices, const T* rows, T* table, uint64_t count, uint64_t features,
                  ThreadPool& threads);

// gradients_activation.cc
template <typename T>
void unary_gradient(UnaryOp op, T parameter, const T* x, const T* dy, T* dx, uint64_t count, ThreadPool& threads);
template <typename T>
void softmax_gradient(const T* y, const T* dy, T* dx, uint64_t rows, uint64_t features, ThreadPool& threads);
template <typename T>
void dropout(const T* x, T* y, uint64_t count, double p, uint64_t key, ThreadPool& threads);

// gradients_normalization.cc
template <typename T>
void layer_norm_gradient(const NormGradient<T>& problem, ThreadPool& threads);
template <typename T>
void rms_norm_gradient(const NormGradient<T>& problem, ThreadPool& threads);
template <typename T>
void batch_statistics(const T* x, T* mean, T* variance, uint64_t rows, uint64_t channels, ThreadPool& threads);
template <typename T>
void batch_norm_gradient(const BatchNormGradient<T>& problem, ThreadPool& threads);

// gradients_attention.cc
template <typename T>
void attention_gradient(const AttentionGradient<T>& problem, T* scratch, ThreadPool& threads);
template <typename T>
uint64_t attention_gradient_scratch(const AttentionGradient<T>& problem, unsigned threads);

// gradients_images.cc
template <typename T>
void conv2d_gradient(const Conv2dGradient<T>& problem, T* scratch, ThreadPool& threads);
template <typename T>
uint64_t conv2d_gradient_scratch(const Conv2dGradient<T>& problem, unsigned threads);
template <typename T>
void max_pool2d_gradient(const Pool2dProblem<T>& problem, const T* dy, T* dx, ThreadPool& threads);

// losses.cc
template <typename T>
void cross_entropy(const CrossEntropyProblem<T>& problem, ThreadPool& threads);
template <typename T>
void cross_entropy_gradient(const CrossEntropyProblem<T>& problem, T scale, T* dlogits, ThreadPool& threads);

// optimizers.cc
template <typename T>
void sgd(const SgdUpdate<T>& update, ThreadPool& threads);
template <typename T>
void adam(const AdamUpdate<T>& update, ThreadPool& threads);
template <typename T>
void rmsprop(const RmsPropUpdate<T>& update, ThreadPool& threads);

}  // namespace ballast::reference
