// The inner loops of a host backend, over plain memory. Functionals check shapes; the implementations in this folder
// take parameters from their store tile by tile and call these.
//
// Contract of every kernel: the result depends on shapes, values and the instruction-set level alone. Neither the
// number of threads nor where rows of a parameter are cut may change a bit: each output element is one chain of
// operations in a fixed order.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "ballast/backends/host/gradient_kernels.h"
#include "ballast/base/dtype.h"
#include "ballast/io/thread_pool.h"
#include "ballast/ops/kv_pages.h"
#include "ballast/ops/operation_kinds.h"

namespace ballast {

// A weight as it lies in memory: f32, f16, bf16 or whole blocks of a type that can_dequantize, aligned to nothing; or
// in a form that the backend packed it into, aligned to 64.
struct WeightView {
  const std::byte* data = nullptr;
  DType dtype = DType::kF32;
  bool packed = false;  // by conv2d_pack or gemm_pack; only where a table has it
};
// Of a type that is not in blocks.
inline size_t bytes_of_element(DType dtype) { return dtype_info(dtype).bits / 8; }

// C[m, n] (+)= A[m, k] * W, for rows [k_begin, k_begin + k_count) of W as [K, N] (kInOut), or for columns
// [n_begin, n_begin + n_count) of the result where W is [N, K] (kOutIn) and a tile holds outputs.
template <typename T>
struct GemmTile {
  const T* a = nullptr;
  T* c = nullptr;
  uint64_t m = 0, n = 0, k = 0;                // of the whole product
  uint64_t a_stride = 0, c_stride = 0;         // elements from row to row
  WeightView w;                                // of this tile
  WeightLayout layout = WeightLayout::kInOut;  // weights in blocks are kOutIn: the blocks of a row follow each other
  uint64_t begin = 0, count = 0;               // rows of W in this tile
  // The first tile starts from zero, later ones go on with what is in c. A tile of outputs (kOutIn) is both first and
  // last for its columns, whatever these say. A product over no terms (k = 0) is one tile, of no bytes.
  bool first = true, last = true;
  // Applied to what the last tile completes: c = activation(c + bias) + residual. Null: absent. Whoever adds bias,
  // activation and residual with kernels of their own gets the same bits.
  const T* bias = nullptr;
  Activation activation = Activation::kNone;
  const T* residual = nullptr;  // m x n, stride c_stride
  Numerics numerics = Numerics::kExact;
  // gemm_scratch bytes, aligned to 64. What is there already where an earlier tile of the same product had it.
  std::byte* scratch = nullptr;
  bool is_prepared = false;
};

// c[b] = a[b] * b[b] for small matrices that are all activations.
template <typename T>
struct BatchedMatmul {
  const T* a;
  const T* b;
  T* c;
  uint64_t batch, m, n, k;
};

template <typename T>
struct AttentionProblem {
  const T* q;  // [q_count, q_heads, head_dim] with q_stride elements from position to position
  // Keys and values: [kv_heads, capacity, head_dim], f32 or f16. Either all of them at one address, or in pages, whose
  // capacity is kPagePositions, at these offsets.
  const std::byte* keys;
  const std::byte* values;
  const KvPage* pages;  // null: at one address
  uint64_t keys_offset, values_offset;
  DType cache_dtype;
  T* out;  // [q_count, q_heads * head_dim]
  uint64_t q_count, q_heads, kv_heads, head_dim, q_stride, capacity;
  uint64_t first_position;  // of q: query i sees keys 0 .. first_position + i
  T scale;
  bool sees_all;         // instead: every query sees keys 0 .. first_position + q_count - 1
  uint64_t window;       // not 0: of those the last so many
  T soft_cap;            // not 0: scores become soft_cap * tanh(score / soft_cap)
  uint64_t first_piece;  // the kernel's own: where its work on this problem begins among that on all of them
};

template <typename T>
struct Conv2dProblem {
  const T* x;             // NHWC
  T* y;                   // NHWC
  WeightView w;           // OIHW, rows [o_begin, o_begin + o_count)
  const T* bias;          // of all outputs; null: none
  const T* residual;      // as y; null: none
  Activation activation;  // after bias and residual
  uint64_t n, h, width, c_in, c_out, kernel_h, kernel_w, out_h, out_w, groups;
  uint64_t stride_h, stride_w, pad_top, pad_left, dilation_h, dilation_w;
  uint64_t o_begin, o_count;
};

template <typename T>
struct Pool2dProblem {
  const T* x;  // NHWC
  T* y;
  uint64_t n, h, width, c, out_h, out_w, window_h, window_w, stride_h, stride_w, pad_top, pad_left;
};

template <typename T>
struct NormProblem {
  const T* x;
  T* y;
  const T* gamma;
  const T* beta;  // null for RMS norm
  uint64_t rows, features;
  T eps;
};

template <typename T>
struct RopeProblem {
  T* x;  // [positions, heads, head_dim], stride elements from position to position; turned in place
  const T* cosines;
  const T* sines;  // [positions, rotary_dim / 2]
  uint64_t positions, heads, head_dim, rotary_dim, stride;
  bool interleaved;  // channel 2 i turns with 2 i + 1, instead of i with i + rotary_dim / 2
};

// The inner loops for one type of activations. An empty slot means: not supported here.
template <typename T>
struct KernelTable {
  void (*gemm)(const GemmTile<T>&, ThreadPool&) = nullptr;
  // Empty: never any. The same for all tiles of a product.
  uint64_t (*gemm_scratch)(const GemmTile<T>&) = nullptr;
  // A form of weights [n, k] that gemm multiplies with several rows faster, for the same bits: worth keeping where that
  // happens again and again. Depends on n, k, numerics and the type of the weight; 0: none for these. The form of the
  // first rows, a multiple of 16, lies at the beginning of that of all; gemm takes all outputs of it at once, or as
  // many as there are from such a row on.
  uint64_t (*gemm_packed_bytes)(const GemmTile<T>&) = nullptr;
  // Puts rows [begin, begin + count) of n into their places in the packed form: call it for tiles in any order.
  void (*gemm_pack)(const GemmTile<T>&, std::byte* packed, ThreadPool&) = nullptr;
  void (*batched_matmul)(const BatchedMatmul<T>&, ThreadPool&) = nullptr;
  // Several at once, so that many small ones share the threads.
  void (*attention)(std::span<AttentionProblem<T>>, ThreadPool&) = nullptr;
  void (*conv2d)(const Conv2dProblem<T>&, T* scratch, ThreadPool&) = nullptr;
  uint64_t (*conv2d_scratch)(const Conv2dProblem<T>&, unsigned threads) = nullptr;  // elements
  // The form that conv2d likes its weight in: worth keeping (as "conv2d.<backend>.<level>"), because conv2d makes it in
  // its scratch at each call otherwise. Its size depends on shapes alone; 0: none for this problem.
  uint64_t (*conv2d_packed_bytes)(const Conv2dProblem<T>&) = nullptr;
  // Puts outputs [o_begin, o_begin + o_count) into their places in the packed form of the whole weight: call it for
  // tiles in any order. conv2d with the packed form takes all outputs at once.
  void (*conv2d_pack)(const Conv2dProblem<T>&, std::byte* packed, ThreadPool&) = nullptr;
  void (*max_pool2d)(const Pool2dProblem<T>&, ThreadPool&) = nullptr;
  void (*avg_pool2d)(const Pool2dProblem<T>&, ThreadPool&) = nullptr;  // divides by the whole window
  void (*mean_over_positions)(const T* x, T* y, uint64_t n, uint64_t positions, uint64_t c, ThreadPool&) = nullptr;
  void (*layer_norm)(const NormProblem<T>&, ThreadPool&) = nullptr;
  void (*rms_norm)(const NormProblem<T>&, ThreadPool&) = nullptr;
  void (*softmax)(const T* x, T* y, uint64_t rows, uint64_t features, ThreadPool&) = nullptr;
  void (*rope)(const RopeProblem<T>&, ThreadPool&) = nullptr;
  // `parameter` means something to the operations that say so.
  void (*unary)(UnaryOp, T parameter, const T* x, T* y, uint64_t count, ThreadPool&) = nullptr;
  void (*binary)(BinaryOp, const T* a, const T* b, T* y, uint64_t count, ThreadPool&) = nullptr;
  void (*add_bias)(const T* x, const T* bias, T* y, uint64_t rows, uint64_t features, ThreadPool&) = nullptr;
  void (*swiglu)(const T* gate, const T* up, T* y, uint64_t count, ThreadPool&) = nullptr;
  // Elements of a parameter, of any of its types.
  void (*widen)(const WeightView&, T* out, uint64_t count) = nullptr;
  // What only training needs.
  GradientKernels<T> gradients{};
};

}  // namespace ballast
