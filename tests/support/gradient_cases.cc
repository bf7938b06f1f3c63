#include "tests/support/gradient_cases.h"

#include <fmt/format.h>

#include <array>

#include "ballast/ops/metric.h"
#include "ballast/ops/rotary_order.h"
#include "tests/support/case_shapes.h"

namespace ballast::testing {

namespace {

using Run = std::function<Result<Tensor>(Trial&)>;

// A few dozen roundings of sums of a few dozen terms. A unit in the last place of 1 is 1.2e-7.
constexpr double kClose = 2e-5;

void add(Cases& cases, std::string_view functional, const std::string& name, CaseShapes shapes, Run run,
         double tolerance = kClose) {
  add_case(cases, functional, name, std::move(shapes), std::move(run), tolerance);
}

void add_activation_slopes(Cases& cases) {
  for (const Dims& dims : {Dims{1}, Dims{7}, Dims{3, 5}, Dims{2, 3, 17}}) {
    const std::string name = dims.to_string();
    add(cases, "relu", name, {{dims}}, [](Trial& t) { return ops::relu(t.context, t.x[0]); });
    add(cases, "relu6", name, {{dims}}, [](Trial& t) -> Result<Tensor> {
      BALLAST_TRY(const Tensor wide, ops::unary(t.context, UnaryOp::kScale, t.x[0], 9));
      return ops::relu6(t.context, wide);
    });
    add(cases, "silu", name, {{dims}}, [](Trial& t) { return ops::silu(t.context, t.x[0]); });
    for (const Activation variant : {Activation::kGeluErf, Activation::kGeluTanh}) {
      add(cases, "gelu", fmt::format("{} {}", name, static_cast<int>(variant)), {{dims}},
          [=](Trial& t) { return ops::gelu(t.context, t.x[0], variant); });
    }
    add(cases, "swiglu", name, {{dims, dims}}, [](Trial& t) { return ops::swiglu(t.context, t.x[0], t.x[1]); });
    add(cases, "softmax_last_dim", name, {{dims}}, [](Trial& t) { return ops::softmax_last_dim(t.context, t.x[0]); });
    add(cases, "prelu", name, {{dims}, {{dims.back()}}},
        [](Trial& t) { return ops::prelu(t.context, t.x[0], t.params[0]); });
  }
}

// Into the middle of where the operation is smooth, and across its bends.
Result<Tensor> unary_in_domain(Trial& t, UnaryOp op) {
  const bool positive = op == UnaryOp::kLog || op == UnaryOp::kSqrt;
  BALLAST_TRY(Tensor x, ops::unary(t.context, UnaryOp::kScale, t.x[0], positive ? 0.7 : 3.3));
  if (positive) {
    BALLAST_TRY(x, ops::unary(t.context, UnaryOp::kShift, x, 1));
  }
  return ops::unary(t.context, op, x, 0.3);
}

void add_elementwise_slopes(Cases& cases) {
  for (const UnaryOp op : all_unary()) {
    for (const Dims& dims : {Dims{1}, Dims{5, 7}}) {
      add(cases, "unary", fmt::format("op {} {}", static_cast<int>(op), dims.to_string()), {{dims}},
          [=](Trial& t) { return unary_in_domain(t, op); });
    }
  }
  for (const BinaryOp op :
       {BinaryOp::kAdd, BinaryOp::kSub, BinaryOp::kMul, BinaryOp::kDiv, BinaryOp::kMax, BinaryOp::kMin}) {
    add(cases, "binary", fmt::format("op {}", static_cast<int>(op)), {{{3, 11}, {3, 11}}},
        [=](Trial& t) -> Result<Tensor> {
          BALLAST_TRY(const Tensor b, ops::unary(t.context, UnaryOp::kShift, t.x[1], op == BinaryOp::kDiv ? 2 : 0));
          return ops::binary(t.context, op, t.x[0], b);
        });
    add(cases, "binary", fmt::format("op {} with itself", static_cast<int>(op)), {{{13}}},
        [=](Trial& t) { return ops::binary(t.context, op, t.x[0], t.x[0]); });
  }
  add(cases, "clamp", "", {{{5, 9}}}, [](Trial& t) { return ops::clamp(t.context, t.x[0], -0.25F, 0.5F); });
  for (const float p : {0.0F, 0.3F}) {
    add(cases, "dropout", fmt::format("{}", p), {{{9, 7}}},
        [=](Trial& t) { return ops::dropout(t.context, t.x[0], p, true); });
  }
  add(cases, "dropout", "twice", {{{9, 7}}}, [](Trial& t) -> Result<Tensor> {
    BALLAST_TRY(const Tensor once, ops::dropout(t.context, t.x[0], 0.25F, true));
    return ops::dropout(t.context, once, 0.5F, true);
  });
  for (const Dims& dims : {Dims{1, 1}, Dims{6, 5}, Dims{2, 3, 17}}) {
    add(cases, "add_bias", "parameter " + dims.to_string(), {{dims}, {{dims.back()}}},
        [](Trial& t) { return ops::add_bias(t.context, t.x[0], t.params[0]); });
    add(cases, "add_bias", "tensor " + dims.to_string(), {{dims, {dims.back()}}},
        [](Trial& t) { return ops::add_bias(t.context, t.x[0], t.x[1]); });
  }
}

void add_sum_slopes(Cases& cases) {
  for (const Dims& dims : {Dims{1}, Dims{9}, Dims{3, 7}, Dims{2, 3, 5}}) {
    const std::string name = dims.to_string();
    const Dims rows = dims.rank() == 1 ? Dims{1} : Dims(dims.span().first(dims.rank() - 1));
    add(cases, "sum_all", name, {{dims}}, [](Trial& t) { return ops::sum_all(t.context, t.x[0]); });
    add(cases, "mean_all", name, {{dims}}, [](Trial& t) { return ops::mean_all(t.context, t.x[0]); });
    add(cases, "sum_last_dim", name, {{dims}}, [](Trial& t) { return ops::sum_last_dim(t.context, t.x[0]); });
    add(cases, "scale_rows", name, {{dims, rows}}, [](Trial& t) { return ops::scale_rows(t.context, t.x[0], t.x[1]); });
  }
}

void add_shape_slopes(Cases& cases) {
  add(cases, "reshape", "beside the tensor itself", {{{3, 8}}}, [](Trial& t) -> Result<Tensor> {
    BALLAST_TRY(const Tensor flat, ops::reshape(t.context, t.x[0], {2, 12}));
    BALLAST_TRY(const Tensor a, ops::silu(t.context, flat));
    BALLAST_TRY(const Tensor b, ops::unary(t.context, UnaryOp::kTanh, t.x[0]));
    BALLAST_TRY(const Tensor a_again, ops::reshape(t.context, a, {3, 8}));
    return ops::binary(t.context, BinaryOp::kMul, a_again, b);
  });
  add(cases, "transpose", "", {{{2, 3, 5}}}, [](Trial& t) {
    const size_t axes[] = {2, 0, 1};
    return ops::transpose(t.context, t.x[0], axes);
  });
  for (const size_t axis : {0U, 1U, 2U}) {
    add(cases, "slice_along_axis", fmt::format("axis {}, overlapping", axis), {{{4, 5, 3}}},
        [=](Trial& t) -> Result<Tensor> {
          BALLAST_TRY(const Tensor a, ops::slice_along_axis(t.context, t.x[0], axis, 0, 2));
          BALLAST_TRY(const Tensor b, ops::slice_along_axis(t.context, t.x[0], axis, 1, 2));
          return ops::binary(t.context, BinaryOp::kMul, a, b);
        });
    add(cases, "concat_along_axis", fmt::format("axis {}", axis), {{{2, 3, 4}, {2, 3, 4}}},
        [=](Trial& t) -> Result<Tensor> {
          const Tensor parts[] = {t.x[0], t.x[1], t.x[0]};
          return ops::concat_along_axis(t.context, parts, axis);
        });
  }
}

void add_product_slopes(Cases& cases) {
  struct Product {
    uint64_t m, k, n;
  };
  for (const auto& [m, k, n] : {Product{1, 1, 1}, Product{1, 7, 5}, Product{4, 6, 9}, Product{33, 70, 47}}) {
    const std::string name = fmt::format("{} x {} x {}", m, k, n);
    add(cases, "matmul", "parameter " + name, {{{m, k}}, {{k, n}}},
        [](Trial& t) { return ops::matmul(t.context, t.x[0], t.params[0]); });
    add(cases, "matmul", "tensors " + name, {{{m, k}, {k, n}}},
        [](Trial& t) { return ops::matmul(t.context, t.x[0], t.x[1]); });
    add(cases, "matmul", "three of " + name, {{{3, m, k}, {3, k, n}}},
        [](Trial& t) { return ops::matmul(t.context, t.x[0], t.x[1]); });
    for (const WeightLayout layout : {WeightLayout::kInOut, WeightLayout::kOutIn}) {
      const Shape weight = layout == WeightLayout::kInOut ? Shape{k, n} : Shape{n, k};
      const std::string full = name + (layout == WeightLayout::kInOut ? " in-out" : " out-in");
      add(cases, "linear", full, {{{m, k}}, {weight, {n}}}, [=](Trial& t) {
        return ops::linear(t.context, t.x[0], t.params[0], {.bias = &t.params[1], .layout = layout});
      });
      add(cases, "linear", full + " relu", {{{m, k}}, {weight, {n}}}, [=](Trial& t) {
        return ops::linear(t.context, t.x[0], t.params[0],
                           {.bias = &t.params[1], .activation = Activation::kRelu, .layout = layout});
      });
      add(cases, "linear", full + " gelu + residual", {{{m, k}, {m, n}}, {weight}}, [=](Trial& t) {
        return ops::linear(t.context, t.x[0], t.params[0],
                           {.activation = Activation::kGeluTanh, .residual = &t.x[1], .layout = layout});
      });
    }
  }
  add(cases, "linear", "the same weight twice, relu + residual", {{{5, 6}}, {{6, 6}}}, [](Trial& t) -> Result<Tensor> {
    BALLAST_TRY(const Tensor once, ops::linear(t.context, t.x[0], t.params[0]));
    return ops::linear(t.context, once, t.params[0], {.activation = Activation::kRelu, .residual = &t.x[0]});
  });
  add(cases, "embedding_lookup", "with rows that come again", {{}, {{5, 7}}}, [](Trial& t) {
    const uint32_t ids[] = {4, 0, 2, 2, 2, 4};
    return ops::embedding_lookup(t.context, t.params[0], ids, t.dtype);
  });
}

void add_norms(Cases& cases) {
  for (const Dims& dims : {Dims{3, 2}, Dims{2, 5}, Dims{2, 3, 17}, Dims{11, 33}}) {
    const Shape features{dims.back()};
    const std::string name = dims.to_string();
    // Rows of two features may lie close together: dividing by little makes gradients and their roundings large.
    const double tolerance = 1e-4;
    add(
        cases, "layer_norm", name, {{dims}, {features, features}},
        [](Trial& t) { return ops::layer_norm(t.context, t.x[0], t.params[0], t.params[1], 1e-2F); }, tolerance);
    add(
        cases, "rms_norm", name, {{dims}, {features}},
        [](Trial& t) { return ops::rms_norm(t.context, t.x[0], t.params[0], 1e-2F); }, tolerance);
    add(
        cases, "rms_norm", name + " shifted", {{dims}, {features}},
        [](Trial& t) { return ops::rms_norm(t.context, t.x[0], t.params[0], 1e-2F, 1); }, tolerance);
    add(
        cases, "batch_norm_training", name, {{dims}, {features, features}},
        [](Trial& t) -> Result<Tensor> {
          Tape* const tape = std::exchange(t.context.tape, nullptr);
          const auto statistics = ops::batch_statistics(t.context, t.x[0]);
          t.context.tape = tape;
          if (!statistics) return statistics;
          return ops::batch_norm_training(t.context, t.x[0], *statistics, t.params[0], t.params[1], 1e-2F);
        },
        tolerance);
  }
  for (const Dims& dims : {Dims{2, 3, 3, 6}, Dims{1, 1, 2, 12}}) {
    for (const uint64_t groups : {1U, 3U}) {
      add(
          cases, "group_norm", fmt::format("{} groups {}", groups, dims.to_string()), {{dims}, {{dims[3]}, {dims[3]}}},
          [=](Trial& t) { return ops::group_norm(t.context, t.x[0], groups, t.params[0], t.params[1], 1e-2F); }, 1e-4);
    }
  }
}

// Statistics are constants to this one.
void add_constant_batch_norm(Cases& cases) {
  add(cases, "batch_norm", "", {{{7, 5}}, {{5}, {5}, {5}, {5}}}, [](Trial& t) {
    return ops::batch_norm(t.context, t.x[0], t.params[2], t.params[3], t.params[0], t.params[1], 3);
  });
  cases.back().constants = 2;
}

void add_attention_slopes(Cases& cases) {
  for (ops::AttentionConfig config : std::array<ops::AttentionConfig, 3>{{{1, 1, 1}, {4, 2, 3}, {3, 3, 8}}}) {
    for (const bool causal : {true, false}) {
      for (const uint64_t sequences : {1U, 3U}) {
        config.causal = causal;
        config.sequences = sequences;
        const uint64_t width = config.q_width() + 2 * config.kv_width();
        add(cases, "attention",
            fmt::format("{} on {} of {}, {} sequences{}", config.q_heads, config.kv_heads, config.head_dim, sequences,
                        causal ? "" : ", not causal"),
            {{{sequences * 5, width}}}, [=](Trial& t) { return ops::attention(t.context, config, t.x[0]); });
        add(cases, "apply_rope_qkv_packed",
            fmt::format("{} on {} of {}, {} sequences {}", config.q_heads, config.kv_heads, config.head_dim, sequences,
                        causal),
            {{{sequences * 5, width}}}, [=](Trial& t) -> Result<Tensor> {
              BALLAST_TRY(const auto tables,
                          ops::rope_tables(t.context, {.rotary_dim = config.head_dim / 2 * 2}, {3, 5}, t.dtype));
              return ops::apply_rope_qkv_packed(t.context, config, t.x[0], tables);
            });
      }
    }
  }
  for (const uint64_t window : {0U, 1U, 3U}) {
    for (const float soft_cap : {0.0F, 0.4F}) {
      const ops::AttentionConfig config{
          .q_heads = 4, .kv_heads = 2, .head_dim = 3, .window = window, .scale = 0.9F, .soft_cap = soft_cap};
      add(cases, "attention", fmt::format("window {}, cap {}", window, soft_cap), {{{7, 24}}},
          [=](Trial& t) { return ops::attention(t.context, config, t.x[0]); });
    }
  }
  for (const uint64_t sequences : {1U, 3U}) {
    const ops::AttentionConfig config{.q_heads = 4, .kv_heads = 2, .head_dim = 6, .sequences = sequences};
    add(cases, "pairs_to_halves", fmt::format("{} sequences", sequences), {{{sequences * 5, 48}}},
        [=](Trial& t) { return ops::pairs_to_halves(t.context, config, t.x[0]); });
  }
  add(cases, "apply_rope", "pairs", {{{5, 3, 7}}}, [](Trial& t) -> Result<Tensor> {
    const ops::RopeConfig rope{.rotary_dim = 4, .layout = ops::RopeLayout::kPairs};
    BALLAST_TRY(const auto tables, ops::rope_tables(t.context, rope, {3, 5}, t.dtype));
    return ops::apply_rope(t.context, t.x[0], tables);
  });
  add(cases, "attention", "70 positions, window 40, cap", {{{70, 4 * 33}}}, [](Trial& t) {
    const ops::AttentionConfig config{.q_heads = 2, .kv_heads = 1, .head_dim = 33, .window = 40, .soft_cap = 0.5F};
    return ops::attention(t.context, config, t.x[0]);
  });
  // More keys than a block of the vectorised kernel.
  const ops::AttentionConfig config{2, 1, 33};
  add(cases, "attention", "70 positions", {{{70, 4 * 33}}},
      [=](Trial& t) { return ops::attention(t.context, config, t.x[0]); });
  add(cases, "apply_rope", "", {{{5, 3, 7}}}, [](Trial& t) -> Result<Tensor> {
    BALLAST_TRY(const auto tables, ops::rope_tables(t.context, {.rotary_dim = 4}, {3, 5}, t.dtype));
    return ops::apply_rope(t.context, t.x[0], tables);
  });
}

struct ConvSlope {
  uint64_t n, h, w, in, out, kernel, stride, pad, groups, dilation;
};

void add_image_slopes(Cases& cases) {
  for (const ConvSlope& c : {ConvSlope{1, 1, 1, 1, 1, 1, 1, 0, 1, 1}, ConvSlope{2, 5, 4, 3, 4, 3, 1, 1, 1, 1},
                             ConvSlope{2, 7, 6, 2, 3, 3, 2, 1, 1, 1}, ConvSlope{1, 5, 5, 6, 6, 3, 1, 1, 3, 1},
                             ConvSlope{1, 5, 5, 5, 5, 3, 1, 1, 5, 1}, ConvSlope{1, 7, 7, 2, 3, 3, 1, 2, 1, 2},
                             ConvSlope{1, 4, 5, 17, 33, 1, 1, 0, 1, 1}, ConvSlope{3, 8, 8, 3, 8, 5, 1, 2, 1, 1}}) {
    ops::Conv2dParams params{.stride_h = c.stride,
                             .stride_w = c.stride,
                             .pad_top = c.pad,
                             .pad_bottom = c.pad,
                             .pad_left = c.pad,
                             .pad_right = c.pad,
                             .dilation_h = c.dilation,
                             .dilation_w = c.dilation,
                             .groups = c.groups};
    const uint64_t reach = (c.kernel - 1) * c.dilation + 1;
    const Dims out{c.n, (c.h + 2 * c.pad - reach) / c.stride + 1, (c.w + 2 * c.pad - reach) / c.stride + 1, c.out};
    const Dims in{c.n, c.h, c.w, c.in};
    const Shape weight{c.out, c.in / c.groups, c.kernel, c.kernel};
    const std::string name = fmt::format("{} to {} kernel {} stride {} groups {} dilation {}", in.to_string(), c.out,
                                         c.kernel, c.stride, c.groups, c.dilation);
    add(cases, "conv2d", name, {{in}, {weight, {c.out}}},
        [=](Trial& t) { return ops::conv2d(t.context, t.x[0], t.params[0], &t.params[1], params); });
    add(cases, "conv2d", name + " residual silu", {{in, out}, {weight}}, [=](Trial& t) mutable {
      params.activation = Activation::kSilu;
      params.residual = &t.x[1];
      return ops::conv2d(t.context, t.x[0], t.params[0], nullptr, params);
    });
    if (out.count() > 300) continue;  // among many outputs one is always near the bend of ReLU
    add(cases, "conv2d", name + " relu", {{in}, {weight}}, [=](Trial& t) mutable {
      params.activation = Activation::kRelu;
      return ops::conv2d(t.context, t.x[0], t.params[0], nullptr, params);
    });
  }
  for (const auto& [kernel, stride, pad] : std::array<std::array<uint64_t, 3>, 3>{{{1, 1, 0}, {3, 2, 1}, {2, 2, 0}}}) {
    add(cases, "conv_transpose2d", fmt::format("kernel {} stride {} pad {}", kernel, stride, pad),
        {{{2, 3, 4, 3}}, {{3, 5, kernel, kernel}, {5}}},
        [=](Trial& t) { return ops::conv_transpose2d(t.context, t.x[0], t.params[0], &t.params[1], stride, pad); });
  }
  const std::array<ops::PoolParams, 3> pools = {{{2, 2, 2, 2}, {3, 2, 1, 2, 1, 1, 1, 0}, {3, 3, 2, 2, 1, 1, 1, 1}}};
  for (const ops::PoolParams& params : pools) {
    const std::string name =
        fmt::format("window {}, {} stride {}, {}", params.window_h, params.window_w, params.stride_h, params.stride_w);
    add(cases, "max_pool2d_nhwc", name, {{{2, 5, 6, 3}}},
        [=](Trial& t) { return ops::max_pool2d_nhwc(t.context, t.x[0], params); });
    add(cases, "max_pool2d", name, {{{2, 3, 5, 6}}},
        [=](Trial& t) { return ops::max_pool2d(t.context, t.x[0], params); });
    add(cases, "avg_pool2d_nhwc", name, {{{2, 5, 6, 3}}},
        [=](Trial& t) { return ops::avg_pool2d_nhwc(t.context, t.x[0], params); });
  }
  add(cases, "global_mean_pool_nhwc", "", {{{2, 3, 5, 7}}},
      [](Trial& t) { return ops::global_mean_pool_nhwc(t.context, t.x[0]); });
  for (const ops::Upsampling method :
       {ops::Upsampling::kNearest, ops::Upsampling::kBilinear, ops::Upsampling::kBilinearAlignedCorners}) {
    for (const Dims& dims : {Dims{2, 3, 4, 2}, Dims{1, 1, 1, 3}}) {
      add(cases, "upsample2d", fmt::format("{} {}", static_cast<int>(method), dims.to_string()), {{dims}},
          [=](Trial& t) { return ops::upsample2d(t.context, t.x[0], 3, method); });
    }
  }
}

void add_loss_slopes(Cases& cases) {
  add(cases, "cross_entropy", "labels", {{{4, 7}}}, [](Trial& t) {
    const uint32_t labels[] = {6, 0, ops::kIgnoredLabel, 3};
    return ops::cross_entropy(t.context, t.x[0], labels);
  });
  // Targets have no gradient. On the stack: a pass takes no memory.
  add(cases, "cross_entropy", "targets", {{{3, 17}}}, [](Trial& t) -> Result<Tensor> {
    std::array<double, 3 * 17> shares{};
    std::array<float, 3 * 17> narrow{};
    for (size_t i = 0; i < shares.size(); ++i) {
      shares[i] = 0.05 * static_cast<double>(i % 7);
      narrow[i] = static_cast<float>(shares[i]);
    }
    const ByteSpan bytes = t.dtype == DType::kF64 ? ByteSpan(std::as_bytes(std::span(shares)))
                                                  : ByteSpan(std::as_bytes(std::span(narrow)));
    BALLAST_TRY(const Tensor targets, t.context.workspace().from_bytes(bytes, t.x[0].dims(), t.dtype));
    return ops::cross_entropy(t.context, t.x[0], targets);
  });
  for (const ops::ElementLoss loss :
       {ops::ElementLoss::kSquared, ops::ElementLoss::kAbsolute, ops::ElementLoss::kSmoothL1,
        ops::ElementLoss::kBinaryCrossEntropy, ops::ElementLoss::kBinaryCrossEntropyWithLogits}) {
    add(
        cases, "element_loss", fmt::format("{}", static_cast<int>(loss)), {{{5, 7}}},
        [=](Trial& t) -> Result<Tensor> {
          auto targets = t.context.workspace().zeros(t.x[0].dims(), t.dtype);
          if (!targets) return targets;
          // Probabilities lie inside (0, 1), and some beyond where they are clamped.
          BALLAST_TRY(const Tensor half, ops::unary(t.context, UnaryOp::kScale, t.x[0], 0.6));
          BALLAST_TRY(const Tensor z, ops::unary(t.context, UnaryOp::kShift, half, 0.45));
          return ops::element_loss(t.context, loss, z, *targets, 0.3);
        },
        1e-4);
  }
  add(cases, "square_distances", "two", {{{4, 3}, {5, 3}}},
      [](Trial& t) { return ops::square_distances(t.context, t.x[0], t.x[1]); });
  add(cases, "square_distances", "itself", {{{4, 7}}},
      [](Trial& t) { return ops::square_distances(t.context, t.x[0], t.x[0]); });
  for (const ops::AngularMargin kind : {ops::AngularMargin::kArcFace, ops::AngularMargin::kEasyArcFace,
                                        ops::AngularMargin::kCosFace, ops::AngularMargin::kSphereFace}) {
    add(
        cases, "margin_logits", fmt::format("{}", static_cast<int>(kind)), {{{5, 6}}},
        [=](Trial& t) {
          const uint32_t labels[] = {5, 0, ops::kIgnoredLabel, 3, 2};
          return ops::margin_logits(t.context, kind, t.x[0], labels, 0.4, 8);
        },
        1e-4);
  }
  add(cases, "hinge_loss", "", {{{5, 6}}}, [](Trial& t) {
    const uint32_t labels[] = {5, 0, ops::kIgnoredLabel, 3, 2};
    return ops::hinge_loss(t.context, t.x[0], labels, 0.4);
  });
}

}  // namespace

std::vector<ConformanceCase> gradient_cases() {
  Cases cases;
  add_activation_slopes(cases);
  add_elementwise_slopes(cases);
  add_sum_slopes(cases);
  add_shape_slopes(cases);
  add_product_slopes(cases);
  add_norms(cases);
  add_constant_batch_norm(cases);
  add_attention_slopes(cases);
  add_image_slopes(cases);
  add_loss_slopes(cases);
  return cases;
}

std::span<const std::string_view> functionals_without_gradient() {
  // Statistics have one through batch_norm_training; a cache and experts are for models that only run; a tape is shown
  // the steps of what is fused.
  static constexpr std::array<std::string_view, 6> kNames = {"attention_decode_cache",
                                                             "attention_decode_turned",
                                                             "batch_statistics",
                                                             "expert_gates",
                                                             "expert_mlp",
                                                             "linear_parts"};
  return kNames;
}

}  // namespace ballast::testing
