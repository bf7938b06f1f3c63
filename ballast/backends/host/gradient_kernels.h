// The inner loops that training adds: gradients of the others, and the updates of optimizers. The contract of
// kernel_table.h holds: neither the number of threads nor anything but shapes and values may change a bit. A sum over
// many rows is cut into pieces whose size depends on the shape alone, and the pieces are added in their order.
#pragma once

#include <cstdint>

#include "ballast/io/thread_pool.h"
#include "ballast/ops/operation_kinds.h"

namespace ballast {

template <typename T>
struct Conv2dProblem;
template <typename T>
struct Pool2dProblem;

// C[k, n] = or += A[m, k] transposed * B[m, n]: what a weight's gradient is made of.
template <typename T>
struct TransposedProduct {
  const T* a;
  const T* b;
  T* c;
  uint64_t m, k, n;
  bool add;  // to what is in c
};

// Of y = (x - mean) / sqrt(variance + eps) * gamma + beta over the last dimension, or of its RMS form.
template <typename T>
struct NormGradient {
  const T* x;
  const T* dy;
  const T* gamma;
  T* dx;      // null: not wanted
  T* dgamma;  // null: not wanted
  T* dbeta;   // null: not wanted, and in the RMS form
  uint64_t rows, features;
  T eps;
  bool add;  // dgamma and dbeta are added to; dx is written
};

// Of batch norm over all rows of [rows, channels].
template <typename T>
struct BatchNormGradient {
  const T* x;
  const T* dy;
  const T* gamma;
  const T* mean;      // [channels]
  const T* variance;  // [channels], biased
  T* dx;              // null: not wanted
  T* dgamma;          // null: not wanted
  T* dbeta;           // null: not wanted
  uint64_t rows, channels;
  T eps;
  bool constant_statistics;  // the running ones: mean and variance do not depend on x
  bool add;                  // dgamma and dbeta are added to; dx is written
};

// Of softmax(q k^T * scale) v, computed anew from the packed input, so that nothing of t x t is kept.
template <typename T>
struct AttentionGradient {
  const T* qkv;  // [sequences * length, q | k | v]
  const T* out;  // [sequences * length, q_heads * head_dim]
  const T* dout;
  T* dqkv;  // written
  uint64_t sequences, length, q_heads, kv_heads, head_dim;
  bool causal;
  T scale;
  uint64_t window = 0;  // as in AttentionProblem
  T soft_cap = 0;
};

template <typename T>
struct Conv2dGradient {
  const Conv2dProblem<T>* forward;  // its x and shapes; its w where dx is wanted: whole, f32 (f64 for double)
  const T* dy;
  T* dx;     // null: not wanted; written
  T* dw;     // null: not wanted; OIHW
  bool add;  // dw is added to
};

// Softmax and its loss in one sweep over [rows, classes].
template <typename T>
struct CrossEntropyProblem {
  const T* logits;
  const uint32_t* labels;  // one per row, or null: targets
  const T* targets;        // [rows, classes]
  T* losses;               // [rows]: sum_c t_c * (log(sum exp(z - max)) - (z_c - max)); 0 where ignored
  uint64_t rows, classes;
  uint32_t ignored;  // a label that counts for nothing
};

// p and its state, changed in place. Scalars in double, rounded once where they are used.
template <typename T>
struct SgdUpdate {
  T* p;
  const T* g;
  T* velocity;  // null: no momentum
  uint64_t count;
  double lr, momentum, weight_decay;
  bool nesterov;
};
template <typename T>
struct AdamUpdate {
  T* p;
  const T* g;
  T* m;
  T* v;
  uint64_t count;
  double lr, beta1, beta2, eps, weight_decay;
  double correction1, correction2;  // 1 - beta^t
  bool decoupled;                   // AdamW: p -= lr * weight_decay * p first, instead of g += weight_decay * p
};
template <typename T>
struct RmsPropUpdate {
  T* p;
  const T* g;
  T* square_mean;
  T* buffer;  // null: no momentum
  uint64_t count;
  double lr, alpha, eps, weight_decay, momentum;
};

template <typename T>
struct GradientKernels {
  void (*transposed_product)(const TransposedProduct<T>&, T* scratch, ThreadPool&) = nullptr;
  uint64_t (*transposed_product_scratch)(const TransposedProduct<T>&) = nullptr;  // elements
  // y[features] = or += the sum of the rows of x.
  void (*column_sums)(const T* x, T* y, uint64_t rows, uint64_t features, bool add, ThreadPool&) = nullptr;
  // dx = dy * f'(x); `parameter` as in KernelTable::unary.
  void (*unary)(UnaryOp, T parameter, const T* x, const T* dy, T* dx, uint64_t count, ThreadPool&) = nullptr;
  void (*softmax)(const T* y, const T* dy, T* dx, uint64_t rows, uint64_t features, ThreadPool&) = nullptr;
  void (*layer_norm)(const NormGradient<T>&, ThreadPool&) = nullptr;
  void (*rms_norm)(const NormGradient<T>&, ThreadPool&) = nullptr;
  void (*batch_statistics)(const T* x, T* mean, T* variance, uint64_t rows, uint64_t channels, ThreadPool&) = nullptr;
  void (*batch_norm)(const BatchNormGradient<T>&, ThreadPool&) = nullptr;
  void (*attention)(const AttentionGradient<T>&, T* scratch, ThreadPool&) = nullptr;
  uint64_t (*attention_scratch)(const AttentionGradient<T>&, unsigned threads) = nullptr;  // elements
  void (*conv2d)(const Conv2dGradient<T>&, T* scratch, ThreadPool&) = nullptr;
  uint64_t (*conv2d_scratch)(const Conv2dGradient<T>&, unsigned threads) = nullptr;  // elements
  // The first largest of each window, in row order, gets the gradient. dx is written.
  void (*max_pool2d)(const Pool2dProblem<T>&, const T* dy, T* dx, ThreadPool&) = nullptr;
  // table[indices[i]] += rows[i], in the order of i.
  void (*scatter_rows)(const uint32_t* indices, const T* rows, T* table, uint64_t count, uint64_t features,
                       ThreadPool&) = nullptr;
  void (*cross_entropy)(const CrossEntropyProblem<T>&, ThreadPool&) = nullptr;
  // dlogits = scale * (softmax(logits) * sum of targets - targets), 0 where ignored.
  void (*cross_entropy_gradient)(const CrossEntropyProblem<T>&, T scale, T* dlogits, ThreadPool&) = nullptr;
  // y = x * keep / (1 - p), keep where the i-th number of (seed, stream) is above p: its own gradient too.
  void (*dropout)(const T* x, T* y, uint64_t count, double p, uint64_t key, ThreadPool&) = nullptr;
  // The sum of x[i] * x[i], in double, in pieces: the norm of gradients.
  double (*square_sum)(const T* x, uint64_t count, ThreadPool&) = nullptr;

  void (*sgd)(const SgdUpdate<T>&, ThreadPool&) = nullptr;
  void (*adam)(const AdamUpdate<T>&, ThreadPool&) = nullptr;
  void (*rmsprop)(const RmsPropUpdate<T>&, ThreadPool&) = nullptr;
};

}  // namespace ballast
