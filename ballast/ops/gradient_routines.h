// What gradient rules ask of a backend. Each writes into tensors that are given, of the shape and type that its
// functional has for them; `dy` is the gradient of the output. Products round their operands as the context says
// (Context::product_dtype). A sum over many rows is cut into pieces whose size depends on the shape alone, and the
// pieces are added in their order.
#pragma once

#include <span>
#include <string_view>

#include "ballast/ops/metric.h"
#include "ballast/ops/ops.h"

namespace ballast::ops {

// ---------------------------------------------------------------- elementwise
// dx = dy * f'(x).
struct UnaryGradientArgs {
  static constexpr std::string_view kRoutine = "unary_gradient";
  UnaryOp op;
  double parameter;
  const Tensor& x;
  const Tensor& dy;
  Tensor& dx;
};

// dx = dy where the larger (kMax) or the smaller (kMin) of a and b is a, or where it is not; else 0. Of two that are
// equal, b was taken.
struct ChoiceGradientArgs {
  static constexpr std::string_view kRoutine = "choice_gradient";
  BinaryOp op;
  const Tensor& a;
  const Tensor& b;
  bool to_a;
  const Tensor& dy;
  Tensor& dx;
};

// dx = dy where x is inside, else 0.
struct ClampGradientArgs {
  static constexpr std::string_view kRoutine = "clamp_gradient";
  const Tensor& x;
  float low;
  float high;
  const Tensor& dy;
  Tensor& dx;
};

struct PreluGradientArgs {
  static constexpr std::string_view kRoutine = "prelu_gradient";
  const Tensor& x;
  const Param& slopes;
  const Tensor& dy;
  Tensor* dx;     // null: not wanted
  Tensor* terms;  // of the slopes' gradient, which is the sum of their rows; null: not wanted
};

// From the output of softmax.
struct SoftmaxGradientArgs {
  static constexpr std::string_view kRoutine = "softmax_gradient";
  const Tensor& y;
  const Tensor& dy;
  Tensor& dx;
};

// ---------------------------------------------------------------- sums
// sums = or += the sum of the rows of x, of as many features as there are sums.
struct ColumnSumsArgs {
  static constexpr std::string_view kRoutine = "column_sums";
  const Tensor& x;
  Tensor& sums;
  bool add;
};

// Every element of dx = share * dy, which is one number.
struct SpreadAllArgs {
  static constexpr std::string_view kRoutine = "spread_all";
  const Tensor& dy;
  double share;
  Tensor& dx;
};

// Every element of a row of dx = the row's number.
struct SpreadRowsArgs {
  static constexpr std::string_view kRoutine = "spread_rows";
  const Tensor& dy;
  Tensor& dx;
};

// y += x where x is a range of one dimension of it.
struct AddSliceArgs {
  static constexpr std::string_view kRoutine = "add_slice";
  const Tensor& x;
  size_t axis;
  uint64_t begin;
  Tensor& y;
};

// table[indices[i]] += rows[i], in the order of i.
struct ScatterRowsArgs {
  static constexpr std::string_view kRoutine = "scatter_rows";
  std::span<const uint32_t> indices;
  const Tensor& rows;
  Tensor& table;
};

// ---------------------------------------------------------------- products
// c[k, n] = or += a[m, k] transposed * b[m, n]; a and b may have more dimensions before the last.
struct TransposedProductArgs {
  static constexpr std::string_view kRoutine = "transposed_product";
  const Tensor& a;
  const Tensor& b;
  Tensor& c;
  bool add;
};

struct AttentionGradientArgs {
  static constexpr std::string_view kRoutine = "attention_gradient";
  const AttentionConfig& config;
  const Tensor& qkv;
  const Tensor& y;
  const Tensor& dy;
  Tensor& dqkv;
};

// Of pairs_to_halves: the channels go back to where they came from.
struct HalvesToPairsArgs {
  static constexpr std::string_view kRoutine = "halves_to_pairs";
  const AttentionConfig& config;
  const Tensor& dy;
  Tensor& dx;
};

// Of the sums of a convolution: what its params say of bias, activation and residual does not count.
struct Conv2dGradientArgs {
  static constexpr std::string_view kRoutine = "conv2d_gradient";
  const Conv2dParams& params;
  const Shape& weight_shape;
  const Dims& x_dims;
  const Tensor& dy;
  const Tensor* x = nullptr;      // there where dw is wanted
  const Param* weight = nullptr;  // there where dx is wanted
  Tensor* dx = nullptr;           // null: not wanted
  Tensor* dw = nullptr;           // null: not wanted
  bool add = false;               // to what is in dw
};

// ---------------------------------------------------------------- norms
// Of layer_norm or, without dbeta, of rms_norm.
struct NormGradientArgs {
  static constexpr std::string_view kRoutine = "norm_gradient";
  bool is_rms;
  const Tensor& x;
  const Param& gamma;
  float eps;
  float shift;  // of gamma
  const Tensor& dy;
  Tensor* dx;      // null: not wanted
  Tensor* dgamma;  // null: not wanted
  Tensor* dbeta;   // null: not wanted
  bool add;        // to what is in dgamma and dbeta
};

// Of batch_norm_training (`statistics` is there) or of batch_norm (mean and variance are: constants).
struct BatchNormGradientArgs {
  static constexpr std::string_view kRoutine = "batch_norm_gradient";
  const Tensor& x;
  const Tensor* statistics;
  const Param* mean;
  const Param* variance;
  const Param& gamma;
  float eps;
  const Tensor& dy;
  Tensor* dx;      // null: not wanted
  Tensor* dgamma;  // null: not wanted
  Tensor* dbeta;   // null: not wanted
  bool add;        // to what is in dgamma and dbeta
};

// With n the normal form of x: dx, and dy * n, whose rows add up to the gradient of gamma.
struct GroupNormGradientArgs {
  static constexpr std::string_view kRoutine = "group_norm_gradient";
  const Tensor& x;
  uint64_t groups;
  const Param& gamma;
  float eps;
  const Tensor& dy;
  Tensor* dx;     // null: not wanted
  Tensor* terms;  // null: not wanted
};

// ---------------------------------------------------------------- images, NHWC
// The first largest of each window, in row order, gets the gradient.
struct MaxPool2dGradientArgs {
  static constexpr std::string_view kRoutine = "max_pool2d_gradient";
  const Tensor& x;
  const PoolParams& params;
  const Tensor& dy;
  Tensor& dx;
};
struct AvgPool2dGradientArgs {
  static constexpr std::string_view kRoutine = "avg_pool2d_gradient";
  const PoolParams& params;
  const Tensor& dy;
  Tensor& dx;
};
struct GlobalMeanPoolGradientArgs {
  static constexpr std::string_view kRoutine = "global_mean_pool_gradient";
  const Tensor& dy;
  Tensor& dx;
};
struct Upsample2dGradientArgs {
  static constexpr std::string_view kRoutine = "upsample2d_gradient";
  uint64_t factor;
  Upsampling method;
  const Tensor& dy;
  Tensor& dx;
};

// ---------------------------------------------------------------- losses; dy is one number
struct CrossEntropyGradientArgs {
  static constexpr std::string_view kRoutine = "cross_entropy_gradient";
  const Tensor& logits;
  std::span<const uint32_t> labels;
  const Tensor* targets;  // null: labels
  uint64_t counted;       // rows that count
  const Tensor& dy;
  Tensor& dlogits;
};
struct HingeLossGradientArgs {
  static constexpr std::string_view kRoutine = "hinge_loss_gradient";
  const Tensor& logits;
  std::span<const uint32_t> labels;
  double margin;
  uint64_t counted;  // rows that count
  const Tensor& dy;
  Tensor& dlogits;
};
// One dy per element.
struct ElementLossGradientArgs {
  static constexpr std::string_view kRoutine = "element_loss_gradient";
  ElementLoss loss;
  double parameter;
  const Tensor& predictions;
  const Tensor& targets;
  const Tensor& dy;
  Tensor& dx;
};
// dx of row i of x = the sum over the rows o of `others` of 2 dy (x_i - o), where dy is [x's rows, others' rows], or
// the other way round.
struct SquareDistancesGradientArgs {
  static constexpr std::string_view kRoutine = "square_distances_gradient";
  const Tensor& x;
  const Tensor& others;
  const Tensor& dy;
  bool is_transposed;
  Tensor& dx;
};
struct MarginLogitsGradientArgs {
  static constexpr std::string_view kRoutine = "margin_logits_gradient";
  AngularMargin kind;
  const Tensor& cosines;
  std::span<const uint32_t> labels;
  double margin;
  double scale;
  const Tensor& dy;
  Tensor& dx;
};

}  // namespace ballast::ops
