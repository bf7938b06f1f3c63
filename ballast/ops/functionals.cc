#include <algorithm>
#include <array>

#include "ballast/ops/registry.h"

namespace ballast {

namespace {

#define GPTRS "gpt_rs::ops::functional::"
#define OURS "ballast::ops::"

// The first 21 are gpt.rs's, with its keys and the names of its implementations, which checkpoints hold.
constexpr auto kFunctionals = std::to_array<FunctionalInfo>({
    {GPTRS "activation::relu", "relu", "relu_x", "max(x, 0)"},
    {GPTRS "activation::relu6", "relu6", "relu6_x", "min(max(x, 0), 6)"},
    {GPTRS "activation::softmax_last_dim", "softmax_last_dim", "softmax_last_dim_x", "softmax over the last dimension"},
    {GPTRS "activation::gelu", "gelu", "gelu_x", "GELU, the exact form or the one with tanh"},
    {GPTRS "activation::silu", "silu", "silu_x", "x / (1 + exp(-x))"},
    {GPTRS "activation::swiglu", "swiglu", "swiglu_gate_up", "silu(gate) * up"},
    {GPTRS "attention::attention", "attention", "attention_config_qkv_cache", "attention over packed q | k | v"},
    {GPTRS "attention::attention_decode_cache", "attention_decode_cache",
     "attention_decode_cache_config_qkv_cache_update_starts_query_start", "the same with a past in a KV cache"},
    {GPTRS "conv::conv2d", "conv2d", "conv2d_x_weight_bias_params", "convolution of NHWC images"},
    {GPTRS "embedding::embedding_lookup", "embedding_lookup", "embedding_lookup_weight_indices", "rows of a table"},
    {GPTRS "linalg::matmul", "matmul", "matmul_a_b", "product of two matrices, or of two batches of them"},
    {GPTRS "normalization::layer_norm", "layer_norm", "layer_norm_x_gamma_beta_eps",
     "layer norm over the last dimension"},
    {GPTRS "normalization::rms_norm", "rms_norm", "rms_norm_x_gamma_eps", "RMS norm over the last dimension"},
    {GPTRS "pooling::max_pool2d", "max_pool2d", "max_pool2d_x_window_stride_padding", "largest of windows, NCHW"},
    {GPTRS "pooling::max_pool2d_nhwc", "max_pool2d_nhwc", "max_pool2d_nhwc_x_window_stride_padding",
     "largest of windows, NHWC"},
    {GPTRS "rotary::apply_rope", "apply_rope", "apply_rope_x_cos_sin", "rotary embedding of [t, heads, head_dim]"},
    {GPTRS "rotary::apply_rope_qkv_packed", "apply_rope_qkv_packed", "apply_rope_qkv_packed_config_qkv_cos_sin",
     "rotary embedding of the q and k of packed q | k | v"},
    {GPTRS "shape::reshape", "reshape", "reshape_x_dims", "the same elements under other dimensions"},
    {GPTRS "shape::transpose", "transpose", "transpose_x_perm", "dimensions in another order"},
    {GPTRS "stochastic::dropout", "dropout", "dropout_x_p_training",
     "drops elements in training, and nothing while a model runs"},
    {GPTRS "tensor_ops::add_bias", "add_bias", "add_bias_x_bias", "a vector added to each row"},
    {OURS "linear", "linear", "linear_x_weight_options", "x * weight + bias, activation and residual in one sweep"},
    {OURS "linear_parts", "linear_parts", "linear_parts_x_parts_options",
     "a norm, products with several weights, side by side or gated, in one sweep"},
    {OURS "attention_decode_turned", "attention_decode_turned", "attention_decode_turned_config_qkv_turn_parts_layer",
     "rotary embedding and attention_decode_cache in one sweep"},
    {OURS "binary", "binary", "binary_op_a_b", "elementwise add, sub, mul, div, max, min"},
    {OURS "unary", "unary", "unary_op_x", "elementwise neg, abs, exp, log, sqrt, scale, shift and activations"},
    {OURS "clamp", "clamp", "clamp_x_low_high", "min(max(x, low), high)"},
    {OURS "slice_along_axis", "slice_along_axis", "slice_along_axis_x_axis_begin_count", "a range of one dimension"},
    {OURS "concat_along_axis", "concat_along_axis", "concat_along_axis_parts_axis", "tensors joined in one dimension"},
    {OURS "global_mean_pool_nhwc", "global_mean_pool_nhwc", "global_mean_pool_nhwc_x", "mean over all positions, NHWC"},
    {OURS "avg_pool2d_nhwc", "avg_pool2d_nhwc", "avg_pool2d_nhwc_x_params", "mean of windows, NHWC"},
    {OURS "prelu", "prelu", "prelu_x_slopes", "x above 0, below it the slope of its channel times x"},
    {OURS "pairs_to_halves", "pairs_to_halves", "pairs_to_halves_config_qkv",
     "q and k of packed q | k | v: from channels that turn as pairs to halves"},
    {OURS "expert_gates", "expert_gates", "expert_gates_scores_used", "the largest shares of a softmax, the others 0"},
    {OURS "expert_mlp", "expert_mlp", "expert_mlp_x_gates_experts",
     "gated feed-forward parts of the experts with a gate"},
    {OURS "sum_all", "sum_all", "sum_all_x", "sum of all elements"},
    {OURS "mean_all", "mean_all", "mean_all_x", "mean of all elements"},
    {OURS "sum_last_dim", "sum_last_dim", "sum_last_dim_x", "sum over the last dimension"},
    {OURS "scale_rows", "scale_rows", "scale_rows_x_factors", "each row times a factor of its own"},
    {OURS "batch_statistics", "batch_statistics", "batch_statistics_x", "mean and variance of each channel"},
    {OURS "batch_norm_training", "batch_norm_training", "batch_norm_training_x_statistics_gamma_beta_eps",
     "batch norm with the statistics of its input"},
    {OURS "batch_norm", "batch_norm", "batch_norm_x_mean_variance_gamma_beta_eps",
     "batch norm with statistics that were gathered before"},
    {OURS "group_norm", "group_norm", "group_norm_x_groups_gamma_beta_eps", "norm over groups of channels, NHWC"},
    {OURS "conv_transpose2d", "conv_transpose2d", "conv_transpose2d_x_weight_bias_stride_pad",
     "transposed convolution of NHWC images"},
    {OURS "upsample2d", "upsample2d", "upsample2d_x_factor_method", "larger images, nearest or bilinear, NHWC"},
    {OURS "cross_entropy", "cross_entropy", "cross_entropy_logits_targets", "mean cross-entropy of rows of logits"},
    {OURS "element_loss", "element_loss", "element_loss_loss_predictions_targets", "one loss per element"},
    {OURS "hinge_loss", "hinge_loss", "hinge_loss_logits_labels_margin", "mean hinge loss of rows of scores"},
    {OURS "square_distances", "square_distances", "square_distances_a_b", "squares of distances between rows"},
    {OURS "margin_logits", "margin_logits", "margin_logits_kind_cosines_labels_margin_scale",
     "scaled cosines with a margin for the class of the row"},
});

#undef GPTRS
#undef OURS

}  // namespace

std::span<const FunctionalInfo> all_functionals() { return kFunctionals; }

const FunctionalInfo* find_functional(std::string_view key_or_name) {
  const auto at = std::ranges::find_if(
      kFunctionals, [&](const FunctionalInfo& row) { return row.key == key_or_name || row.name == key_or_name; });
  return at == kFunctionals.end() ? nullptr : &*at;
}

}  // namespace ballast
