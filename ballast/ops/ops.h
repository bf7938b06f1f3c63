// Everything a model is written in. Each functional checks its arguments, names itself and the shapes when they do not
// fit, and runs the implementation that the model's registry chooses.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "ballast/ops/context.h"
#include "ballast/ops/kv_pages.h"
#include "ballast/ops/registry.h"
#include "ballast/params/param_store.h"

namespace ballast::ops {

// A value or a parameter, where a functional takes either. Refers to what it was made from.
class Operand {
 public:
  Operand(const Tensor& tensor) : tensor_(&tensor) {}  // NOLINT: both are operands
  Operand(const Param& param) : param_(&param) {}      // NOLINT
  const Tensor* tensor() const { return tensor_; }
  const Param* param() const { return param_; }
  Dims dims() const;
  DType dtype() const;

 private:
  const Tensor* tensor_ = nullptr;
  const Param* param_ = nullptr;
};

// ---------------------------------------------------------------- activation
Result<Tensor> relu(Context& context, const Tensor& x);
Result<Tensor> relu6(Context& context, const Tensor& x);
Result<Tensor> gelu(Context& context, const Tensor& x, Activation variant = Activation::kGeluErf);
Result<Tensor> silu(Context& context, const Tensor& x);
Result<Tensor> swiglu(Context& context, const Tensor& gate, const Tensor& up);
Result<Tensor> softmax_last_dim(Context& context, const Tensor& x);
// x where it is above 0, else the slope of its channel (the last dimension) times x.
Result<Tensor> prelu(Context& context, const Tensor& x, const Param& slopes);

// ---------------------------------------------------------------- linear algebra
// [m, k] x [k, n], or [b, m, k] x [b, k, n].
Result<Tensor> matmul(Context& context, const Tensor& a, const Operand& b);
Result<Tensor> add_bias(Context& context, const Tensor& x, const Operand& bias);

// Rows of a parameter; a count of 0 means all of them.
struct RowRange {
  uint64_t first = 0;
  uint64_t count = 0;
};
struct LinearOptions {
  const Param* bias = nullptr;
  Activation activation = Activation::kNone;
  const Tensor* residual = nullptr;  // added last
  WeightLayout layout = WeightLayout::kInOut;
  // Of a weight [n, k] or of a stack of them [e, n, k], counted through (kOutIn): one of several matrices that share a
  // parameter. The others are not read.
  RowRange rows{};
};
// activation(x * weight + bias) + residual in one sweep; taken apart into matmul, add_bias and so on where one of them
// is overridden.
Result<Tensor> linear(Context& context, const Tensor& x, const Param& weight, const LinearOptions& options = {});

// A norm in front of products; without gamma there is none, without beta it is RMS.
struct NormStep {
  const Param* gamma = nullptr;
  const Param* beta = nullptr;
  float eps = 0;
  float shift = 0;  // of gamma, of an RMS norm
  std::string_view label{};
};
// One of several products of the same rows.
struct LinearPart {
  const Param& weight;
  LinearOptions options{};  // without a residual
  std::string_view label{};
};
struct LinearPartsOptions {
  NormStep norm{};
  // Of two parts, activation(first) * second; else all stand side by side in the last dimension.
  bool is_gated = false;
  Activation gate = Activation::kNone;
  std::string_view label{};  // of what becomes of the parts
};
// Products of norm(x) in one sweep. Where the context shows steps they are taken one by one, under their labels.
Result<Tensor> linear_parts(Context& context, const Tensor& x, std::span<const LinearPart> parts,
                            const LinearPartsOptions& options = {});

// ---------------------------------------------------------------- elementwise; same shapes, no broadcasting
Result<Tensor> binary(Context& context, BinaryOp op, const Tensor& a, const Tensor& b);
inline Result<Tensor> add(Context& context, const Tensor& a, const Tensor& b) {
  return binary(context, BinaryOp::kAdd, a, b);
}
// `parameter`: see UnaryOp.
Result<Tensor> unary(Context& context, UnaryOp op, const Tensor& x, double parameter = 0);
Result<Tensor> clamp(Context& context, const Tensor& x, float low, float high);
// In training it needs the context's RandomStream.
Result<Tensor> dropout(Context& context, const Tensor& x, float p, bool training);

// ---------------------------------------------------------------- sums
Result<Tensor> sum_all(Context& context, const Tensor& x);   // [1]
Result<Tensor> mean_all(Context& context, const Tensor& x);  // [1]
// [.., n] to [..]; a vector gives [1].
Result<Tensor> sum_last_dim(Context& context, const Tensor& x);
// Row i of x times factors[i]; factors as sum_last_dim gives them.
Result<Tensor> scale_rows(Context& context, const Tensor& x, const Tensor& factors);

// ---------------------------------------------------------------- shape
Result<Tensor> reshape(Context& context, const Tensor& x, const Dims& dims);
Result<Tensor> transpose(Context& context, const Tensor& x, std::span<const size_t> permutation);
Result<Tensor> slice_along_axis(Context& context, const Tensor& x, size_t axis, uint64_t begin, uint64_t count);
Result<Tensor> concat_along_axis(Context& context, std::span<const Tensor> parts, size_t axis);

// ---------------------------------------------------------------- normalization, over the last dimension
Result<Tensor> layer_norm(Context& context, const Tensor& x, const Param& gamma, const Param& beta, float eps);
// x / rms(x) * (gamma + shift).
Result<Tensor> rms_norm(Context& context, const Tensor& x, const Param& gamma, float eps, float shift = 0);

// Mean and biased variance of each channel (the last dimension) over all rows: [2, channels]. No gradient by itself.
Result<Tensor> batch_statistics(Context& context, const Tensor& x);
// (x - mean) / sqrt(variance + eps) * gamma + beta with the statistics of x itself, through which gradients go too.
Result<Tensor> batch_norm_training(Context& context, const Tensor& x, const Tensor& statistics, const Param& gamma,
                                   const Param& beta, float eps);
// The same with statistics that were gathered before: constants.
Result<Tensor> batch_norm(Context& context, const Tensor& x, const Param& mean, const Param& variance,
                          const Param& gamma, const Param& beta, float eps);
// NHWC; over each of `groups` groups of channels of one image.
Result<Tensor> group_norm(Context& context, const Tensor& x, uint64_t groups, const Param& gamma, const Param& beta,
                          float eps);

// ---------------------------------------------------------------- embedding
// Rows of [v, e]; reads those rows and no others. An id outside the table is kInvalidArgument.
Result<Tensor> embedding_lookup(Context& context, const Param& weight, std::span<const uint32_t> indices,
                                DType dtype = DType::kF32);

// ---------------------------------------------------------------- attention
struct AttentionConfig {
  uint64_t q_heads = 0;
  uint64_t kv_heads = 0;
  uint64_t head_dim = 0;
  // Of equal length, one after the other in the rows; they do not see each other. With a past its parts tell, and this
  // is 1.
  uint64_t sequences = 1;
  bool causal = true;
  uint64_t window = 0;  // not 0: a query sees itself and window - 1 positions before it
  float scale = 0;      // of the scores; 0: 1 / sqrt(head_dim)
  float soft_cap = 0;   // not 0: scores become soft_cap * tanh(score / soft_cap)

  uint64_t q_width() const { return q_heads * head_dim; }
  uint64_t kv_width() const { return kv_heads * head_dim; }
};
// Attention over packed [t, q | k | v], without a past.
Result<Tensor> attention(Context& context, const AttentionConfig& config, const Tensor& qkv);
// The same for rows of sequences that have a past, one part after the other: their keys and values are put into the
// pages of the layer first.
Result<Tensor> attention_decode_cache(Context& context, const AttentionConfig& config, const Tensor& qkv,
                                      std::span<const KvRows> parts, uint64_t layer);

// ---------------------------------------------------------------- rotary embedding
struct RopeScaling {
  enum class Kind : uint8_t {
    kNone,
    kLinear,   // all frequencies divided by the factor
    kDynamic,  // theta grows with the text, once it is longer than original_context
    kLlama3,   // low frequencies divided by the factor, high ones kept
    kYarn,
    kLongRope,  // divided by a factor each, by another where the text is longer than original_context
  };
  Kind kind = Kind::kNone;
  double factor = 1;
  std::optional<double> mscale{}, mscale_all_dim{};
  double beta_fast = 32, beta_slow = 1;
  uint64_t original_context = 0;
  bool truncate = true;
  std::optional<double> attention_factor{};             // kYarn, kLongRope: instead of what follows from the factor
  double low_frequency = 1, high_frequency = 4;         // kLlama3: turns within the original context
  std::vector<double> short_factors{}, long_factors{};  // kLongRope: rotary_dim / 2; no long ones: always the short
};
enum class RopeLayout : uint8_t {
  kHalves,  // channel i turns with channel i + rotary_dim / 2
  kPairs,   // channel 2 i with 2 i + 1
};
struct RopeConfig {
  uint64_t rotary_dim = 0;
  double theta = 10000;
  RopeScaling scaling{};
  RopeLayout layout = RopeLayout::kHalves;
};
struct RopeTables {
  Tensor cosines, sines;  // [positions, rotary_dim / 2]
  RopeLayout layout = RopeLayout::kHalves;
};
Status check_rope(const RopeConfig& config);
// Consecutive positions of one text.
struct RopeStretch {
  uint64_t first_position = 0;
  uint64_t positions = 0;
  uint64_t text_length = 0;  // of the whole text, for scalings that depend on it; 0: it ends with these positions
};
// Of all stretches, one after the other.
Result<RopeTables> rope_tables(Context& context, const RopeConfig& config, std::span<const RopeStretch> stretches,
                               DType dtype = DType::kF32);
inline Result<RopeTables> rope_tables(Context& context, const RopeConfig& config, const RopeStretch& stretch,
                                      DType dtype = DType::kF32) {
  return rope_tables(context, config, std::span(&stretch, 1), dtype);
}
// [t, heads, head_dim]; the first rotary_dim channels of each head are turned.
Result<Tensor> apply_rope(Context& context, const Tensor& x, const RopeTables& tables);
// The queries and keys of packed [t, q | k | v]; the tables are for the positions of one sequence.
Result<Tensor> apply_rope_qkv_packed(Context& context, const AttentionConfig& config, const Tensor& qkv,
                                     const RopeTables& tables);

// What happens to q and k before attention; in this order.
struct TurnOptions {
  bool from_pairs = false;           // pairs_to_halves
  const RopeTables* rope = nullptr;  // apply_rope_qkv_packed; null: neither
  std::string_view halves_label{}, rope_label{}, label{};
};
// attention_decode_cache of qkv that is turned first, in one sweep. Where the context shows steps they are taken one by
// one, under their labels.
Result<Tensor> attention_decode_turned(Context& context, const AttentionConfig& config, const Tensor& qkv,
                                       const TurnOptions& turn, std::span<const KvRows> parts, uint64_t layer);

// ---------------------------------------------------------------- mixture of experts
// Of scores [t, experts] the softmax, of which the `used` largest of each row stay and the others become 0; of equal
// ones the first. `normalise`: those that stay are divided by their sum.
Result<Tensor> expert_gates(Context& context, const Tensor& scores, uint64_t used, bool normalise);

// Matrices [n, k] of a gated feed-forward part, each some rows of a parameter.
struct Expert {
  struct Matrix {
    Param weight;
    RowRange rows{};
  };
  Matrix gate, up, down;
};
// The sum over experts of gate * down(activation(gate(x)) * up(x)), for rows whose gate is not 0. Parameters of experts
// that no row uses are not touched.
Result<Tensor> expert_mlp(Context& context, const Tensor& x, const Tensor& gates, std::span<const Expert> experts,
                          Activation activation);
// down's input: activation(gate) * up.
Result<Tensor> gated(Context& context, Activation activation, const Tensor& gate, const Tensor& up);

// ---------------------------------------------------------------- images, NHWC
struct Conv2dParams {
  uint64_t stride_h = 1, stride_w = 1;
  uint64_t pad_top = 0, pad_bottom = 0, pad_left = 0, pad_right = 0;
  uint64_t dilation_h = 1, dilation_w = 1;
  uint64_t groups = 1;
  Activation activation = Activation::kNone;  // after bias and residual
  const Tensor* residual = nullptr;
};
// Weight [out, in / groups, kh, kw]; `bias` null: none.
Result<Tensor> conv2d(Context& context, const Tensor& x, const Param& weight, const Param* bias,
                      const Conv2dParams& params);
struct PoolParams {
  uint64_t window_h = 1, window_w = 1, stride_h = 1, stride_w = 1;
  uint64_t pad_top = 0, pad_bottom = 0, pad_left = 0, pad_right = 0;
};
Result<Tensor> max_pool2d_nhwc(Context& context, const Tensor& x, const PoolParams& params);
Result<Tensor> max_pool2d(Context& context, const Tensor& x, const PoolParams& params);       // NCHW
Result<Tensor> avg_pool2d_nhwc(Context& context, const Tensor& x, const PoolParams& params);  // divides by the window
// [n, h, w, c] to [n, c].
Result<Tensor> global_mean_pool_nhwc(Context& context, const Tensor& x);
// Weight [in, out, k, k]; gives (h - 1) * stride - 2 * pad + k.
Result<Tensor> conv_transpose2d(Context& context, const Tensor& x, const Param& weight, const Param* bias,
                                uint64_t stride, uint64_t pad);
enum class Upsampling : uint8_t { kNearest, kBilinear, kBilinearAlignedCorners };
Result<Tensor> upsample2d(Context& context, const Tensor& x, uint64_t factor, Upsampling method);

// ---------------------------------------------------------------- losses
inline constexpr uint32_t kIgnoredLabel = 0xFFFFFFFFU;
// Mean over the rows of [n, classes] whose label counts; [1].
Result<Tensor> cross_entropy(Context& context, const Tensor& logits, std::span<const uint32_t> labels);
// Against one-hot rows or any distribution: mean over rows.
Result<Tensor> cross_entropy(Context& context, const Tensor& logits, const Tensor& targets);
enum class ElementLoss : uint8_t {
  kSquared,             // d^2
  kAbsolute,            // |d|
  kSmoothL1,            // parameter beta: d^2 / (2 beta) inside |d| < beta, else |d| - beta / 2
  kBinaryCrossEntropy,  // of probabilities, clamped to [1e-6, 1 - 1e-6]
  kBinaryCrossEntropyWithLogits,
};
// One value per element: reduce with sum_all or mean_all. Targets get no gradient.
Result<Tensor> element_loss(Context& context, ElementLoss loss, const Tensor& predictions, const Tensor& targets,
                            double parameter = 1);
// Mean over rows of the sum over the wrong classes of max(0, margin - z_true + z); [1].
Result<Tensor> hinge_loss(Context& context, const Tensor& logits, std::span<const uint32_t> labels, double margin);

}  // namespace ballast::ops
