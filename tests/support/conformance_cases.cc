#include "tests/support/conformance_cases.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "ballast/ops/rotary_order.h"
#include "tests/support/case_shapes.h"
#include "tests/support/whole_past.h"

namespace ballast::testing {

namespace {

void add_activations(Cases& cases) {
  add_one_input(cases, "relu", "", kExact, [](Trial& t) { return ops::relu(t.context, t.x[0]); });
  add_one_input(cases, "relu6", "", kExact, [](Trial& t) { return ops::relu6(t.context, t.x[0]); });
  add_one_input(cases, "silu", "", kFunction, [](Trial& t) { return ops::silu(t.context, t.x[0]); });
  for (const Activation variant : {Activation::kGeluErf, Activation::kGeluTanh}) {
    add_one_input(cases, "gelu", variant == Activation::kGeluErf ? "erf" : "tanh", kFunction,
                  [=](Trial& t) { return ops::gelu(t.context, t.x[0], variant); });
  }
  add_one_input(cases, "swiglu", "", kFunction, [](Trial& t) { return ops::swiglu(t.context, t.x[0], t.x[1]); });
  add_one_input(cases, "softmax_last_dim", "", kFunction,
                [](Trial& t) { return ops::softmax_last_dim(t.context, t.x[0]); });
}

// Logarithms and roots take what is well above 0.
Result<Tensor> inside_domain(Trial& t, UnaryOp op) {
  if (op != UnaryOp::kLog && op != UnaryOp::kSqrt) return t.x[0];
  return ops::clamp(t.context, t.x[0], 0.25F, 1);
}

void add_elementwise(Cases& cases) {
  constexpr std::array kBinary = {BinaryOp::kAdd, BinaryOp::kSub, BinaryOp::kMul, BinaryOp::kMax, BinaryOp::kMin};
  for (const BinaryOp op : kBinary) {
    add_one_input(cases, "binary", fmt::format("op {}", static_cast<int>(op)), kElementwise,
                  [=](Trial& t) { return ops::binary(t.context, op, t.x[0], t.x[1]); });
  }
  // What is divided by stays away from 0.
  add_one_input(cases, "binary", "div", kElementwise, [](Trial& t) -> Result<Tensor> {
    BALLAST_TRY(Tensor away, ops::clamp(t.context, t.x[1], 0.5F, 1));
    return ops::binary(t.context, BinaryOp::kDiv, t.x[0], away);
  });
  for (const UnaryOp op : all_unary()) {
    add_one_input(cases, "unary", fmt::format("op {}", static_cast<int>(op)), kFunction,
                  [=](Trial& t) -> Result<Tensor> {
                    BALLAST_TRY(const Tensor x, inside_domain(t, op));
                    return ops::unary(t.context, op, x, 0.3);
                  });
  }
  add_one_input(cases, "clamp", "", kExact, [](Trial& t) { return ops::clamp(t.context, t.x[0], -0.25F, 0.5F); });
  add_one_input(cases, "dropout", "", kExact, [](Trial& t) { return ops::dropout(t.context, t.x[0], 0.1F, false); });
  add_one_input(cases, "dropout", "in training", kElementwise, [](Trial& t) {
    RandomStream random{.seed = 5};
    t.context.random = &random;
    auto y = ops::dropout(t.context, t.x[0], 0.3F, true);
    t.context.random = nullptr;
    return y;
  });
  for (const Dims& dims : vectors()) {
    const Shape features{dims.back()};
    cases.push_back({"add_bias",
                     dims.to_string(),
                     {dims},
                     {features},
                     [](Trial& t) { return ops::add_bias(t.context, t.x[0], t.params[0]); },
                     kElementwise});
    cases.push_back({"layer_norm",
                     dims.to_string(),
                     {dims},
                     {features, features},
                     [](Trial& t) { return ops::layer_norm(t.context, t.x[0], t.params[0], t.params[1], 1e-5F); },
                     // A row whose values lie close together is divided by little: its roundings grow.
                     1e-5});
    cases.push_back({"rms_norm",
                     dims.to_string(),
                     {dims},
                     {features},
                     [](Trial& t) { return ops::rms_norm(t.context, t.x[0], t.params[0], 1e-5F); },
                     sum_of(dims.back())});
    cases.push_back({"rms_norm",
                     dims.to_string() + " shifted",
                     {dims},
                     {features},
                     [](Trial& t) { return ops::rms_norm(t.context, t.x[0], t.params[0], 1e-5F, 1); },
                     2 * sum_of(dims.back())});
  }
}

struct Product {
  uint64_t m, k, n;
};
constexpr std::array<Product, 15> kProducts = {{{0, 3, 4},
                                                {3, 4, 0},
                                                {3, 0, 5},
                                                {1, 1, 1},
                                                {1, 7, 5},
                                                {2, 13, 31},
                                                {3, 1, 17},
                                                {1, 129, 257},
                                                {4, 64, 64},
                                                {5, 67, 33},
                                                {7, 33, 15},
                                                {13, 48, 1},
                                                {17, 31, 129},
                                                {33, 300, 47},
                                                {133, 264, 70}}};

struct Epilogue {
  std::string_view name;
  bool bias;
  Activation activation;
  bool residual;
};
constexpr std::array<Epilogue, 6> kEpilogues = {{{"plain", false, Activation::kNone, false},
                                                 {"bias", true, Activation::kNone, false},
                                                 {"relu", false, Activation::kRelu, false},
                                                 {"bias relu6 residual", true, Activation::kRelu6, true},
                                                 {"bias gelu", true, Activation::kGeluErf, false},
                                                 {"silu residual", false, Activation::kSilu, true}}};

Result<Tensor> run_linear(Trial& t, const Epilogue& epilogue, WeightLayout layout) {
  return ops::linear(t.context, t.x[0], t.params[0],
                     {.bias = epilogue.bias ? &t.params[1] : nullptr,
                      .activation = epilogue.activation,
                      .residual = epilogue.residual ? &t.x[1] : nullptr,
                      .layout = layout});
}

void add_products(Cases& cases) {
  for (const auto& [m, k, n] : kProducts) {
    const std::string name = fmt::format("{} x {} x {}", m, k, n);
    cases.push_back({"matmul",
                     "parameter " + name,
                     {{m, k}},
                     {{k, n}},
                     [](Trial& t) { return ops::matmul(t.context, t.x[0], t.params[0]); },
                     sum_of(k)});
    cases.push_back({"matmul",
                     "tensors " + name,
                     {{m, k}, {k, n}},
                     {},
                     [](Trial& t) { return ops::matmul(t.context, t.x[0], t.x[1]); },
                     sum_of(k)});
    cases.push_back({"matmul",
                     "three of " + name,
                     {{3, m, k}, {3, k, n}},
                     {},
                     [](Trial& t) { return ops::matmul(t.context, t.x[0], t.x[1]); },
                     sum_of(k)});
    for (const Epilogue& epilogue : kEpilogues) {
      for (const WeightLayout layout : {WeightLayout::kInOut, WeightLayout::kOutIn}) {
        const bool in_out = layout == WeightLayout::kInOut;
        cases.push_back({"linear",
                         fmt::format("{} {} {}", name, in_out ? "in-out" : "out-in", epilogue.name),
                         {{m, k}, {m, n}},
                         {in_out ? Shape{k, n} : Shape{n, k}, {n}},
                         [=](Trial& t) { return run_linear(t, epilogue, layout); },
                         kFunction + 2 * sum_of(k)});
      }
    }
  }
}

// Shapes whose rows can be whole blocks.
constexpr std::array<Product, 8> kOutInBlocks = {
    {{1, 256, 1}, {1, 768, 33}, {3, 512, 17}, {19, 256, 40}, {1, 160, 21}, {9, 32, 7}, {5, 96, 64}, {133, 512, 70}}};
constexpr std::array<Product, 3> kInOutBlocks = {{{1, 7, 256}, {3, 40, 512}, {9, 5, 96}}};

void add_block_products(Cases& cases) {
  for (const Epilogue& epilogue : {kEpilogues[0], kEpilogues[3]}) {
    for (const auto& [m, k, n] : kOutInBlocks) {
      cases.push_back({"linear",
                       fmt::format("whole blocks {} x {} x {} out-in {}", m, k, n, epilogue.name),
                       {{m, k}, {m, n}},
                       {{n, k}, {n}},
                       [=](Trial& t) { return run_linear(t, epilogue, WeightLayout::kOutIn); },
                       kFunction + 2 * sum_of(k)});
    }
    for (const auto& [m, k, n] : kInOutBlocks) {
      cases.push_back({"linear",
                       fmt::format("whole blocks {} x {} x {} in-out {}", m, k, n, epilogue.name),
                       {{m, k}, {m, n}},
                       {{k, n}, {n}},
                       [=](Trial& t) { return run_linear(t, epilogue, WeightLayout::kInOut); },
                       kFunction + 2 * sum_of(k)});
    }
  }
  for (const auto& [m, k, n] : kInOutBlocks) {
    cases.push_back({"matmul",
                     fmt::format("whole blocks {} x {} x {}", m, k, n),
                     {{m, k}},
                     {{k, n}},
                     [](Trial& t) { return ops::matmul(t.context, t.x[0], t.params[0]); },
                     sum_of(k)});
  }
}

// Rows of x, terms, outputs of each weight; some that a launch for few rows takes, and some that it does not.
struct LinearParts {
  uint64_t m, k;
  std::vector<uint64_t> outputs;
};
const std::array<LinearParts, 10> kLinearParts = {{{0, 8, {4, 4}},
                                                   {1, 8, {3}},
                                                   {2, 7, {5, 5}},
                                                   {1, 64, {48, 16, 16}},
                                                   {4, 256, {40, 24}},
                                                   {3, 200, {33}},
                                                   {5, 96, {64, 64}},
                                                   {2, 1032, {17, 5, 3}},
                                                   {1, 2048, {32, 32}},
                                                   {1, 512, {8, 8, 8, 8}}}};

// Parameters: gamma, beta, the weights, a bias of the first.
Result<Tensor> run_linear_parts(Trial& t, size_t weights, int norms, bool is_gated) {
  std::vector<ops::LinearPart> parts;
  for (size_t i = 0; i < weights; ++i) {
    const Param* const bias = i == 0 ? &t.params[2 + weights] : nullptr;
    const Activation activation = !is_gated && i == 0 ? Activation::kGeluTanh : Activation::kNone;
    parts.push_back({t.params[2 + i], {.bias = bias, .activation = activation, .layout = WeightLayout::kOutIn}, {}});
  }
  const ops::NormStep norm{.gamma = norms > 0 ? &t.params[0] : nullptr,
                           .beta = norms > 1 ? &t.params[1] : nullptr,
                           .eps = 1e-3F,
                           .shift = norms == 1 ? 0.5F : 0};
  return ops::linear_parts(t.context, t.x[0], parts, {.norm = norm, .is_gated = is_gated, .gate = Activation::kSilu});
}

void add_linear_parts(Cases& cases) {
  for (const LinearParts& shape : kLinearParts) {
    const size_t weights = shape.outputs.size();
    std::vector<Shape> params = {{shape.k}, {shape.k}};
    for (const uint64_t n : shape.outputs) params.push_back({n, shape.k});
    params.push_back({shape.outputs.front()});
    const std::string name = fmt::format("{} x {} x {}", shape.m, shape.k, fmt::join(shape.outputs, " "));
    // What a norm has rounded is multiplied by each weight.
    const double tolerance = kFunction + 2 * sum_of(shape.k);
    for (const int norms : {0, 1, 2}) {
      cases.push_back({"linear_parts",
                       fmt::format("{}, {} of a norm", name, norms),
                       {{shape.m, shape.k}},
                       params,
                       [=](Trial& t) { return run_linear_parts(t, weights, norms, false); },
                       norms == 0 ? tolerance : 8 * tolerance + 1e-4});
      if (weights != 2 || shape.outputs[0] != shape.outputs[1]) continue;
      // Two sums are multiplied: what one has rounded grows by the other, which is brought back to the size of 1.
      cases.push_back({"linear_parts",
                       fmt::format("{}, {} of a norm, gated", name, norms),
                       {{shape.m, shape.k}},
                       params,
                       [=](Trial& t) -> Result<Tensor> {
                         BALLAST_TRY(const Tensor y, run_linear_parts(t, weights, norms, true));
                         return ops::unary(t.context, UnaryOp::kScale, y, 1.0 / 64);
                       },
                       8 * tolerance + 1e-4});
    }
  }
}

void add_embeddings(Cases& cases) {
  for (const uint64_t features : {0U, 1U, 7U, 33U, 768U}) {
    cases.push_back({"embedding_lookup",
                     fmt::format("[11, {}]", features),
                     {},
                     {{11, features}},
                     [](Trial& t) {
                       const uint32_t ids[] = {10, 0, 3, 3, 7};
                       return ops::embedding_lookup(t.context, t.params[0], ids, t.dtype);
                     },
                     kExact});
  }
}

constexpr std::array<ops::AttentionConfig, 6> kHeads = {
    {{1, 1, 1}, {2, 1, 3}, {4, 2, 8}, {3, 3, 17}, {8, 2, 64}, {2, 2, 33}}};

// A prompt of t positions, then one at a time, then three at once: what the past holds grows on the way.
Result<Tensor> run_cached(Trial& t, const ops::AttentionConfig& config, DType cache_dtype) {
  const uint64_t total = t.x[0].dims()[0];
  if (t.dtype == DType::kF64) cache_dtype = DType::kF64;
  const KvPast past = whole_past({.layers = 2,
                                  .kv_heads = config.kv_heads,
                                  .head_dim = config.head_dim,
                                  .most_positions = 100,
                                  .dtype = cache_dtype},
                                 t.context.workspace().queue().device());
  std::vector<Tensor> outputs;
  for (uint64_t at = 0; at < total;) {
    const uint64_t count = at == 0 ? total - 4 : std::min<uint64_t>(at == total - 4 ? 1 : 3, total - at);
    BALLAST_TRY(const Tensor qkv, ops::slice_along_axis(t.context, t.x[0], 0, at, count));
    const KvRows rows{&past, at, count};
    BALLAST_TRY(outputs.emplace_back(), ops::attention_decode_cache(t.context, config, qkv, std::span(&rows, 1), 1));
    at += count;
  }
  return ops::concat_along_axis(t.context, outputs, 0);
}

void add_attention(Cases& cases) {
  for (const ops::AttentionConfig& config : kHeads) {
    const uint64_t width = config.q_width() + 2 * config.kv_width();
    const std::string heads = fmt::format("{} heads on {} of {}", config.q_heads, config.kv_heads, config.head_dim);
    const double tolerance = kFunction + 2 * sum_of(config.head_dim);
    for (const uint64_t t : {0U, 1U, 2U, 7U, 33U, 65U}) {
      cases.push_back({"attention",
                       fmt::format("{} positions, {}", t, heads),
                       {{t, width}},
                       {},
                       [=](Trial& trial) { return ops::attention(trial.context, config, trial.x[0]); },
                       tolerance});
    }
    for (const uint64_t sequences : {2U, 3U}) {
      for (const bool causal : {true, false}) {
        ops::AttentionConfig several = config;
        several.sequences = sequences;
        several.causal = causal;
        cases.push_back({"attention",
                         fmt::format("{} sequences of 67{}, {}", sequences, causal ? "" : ", not causal", heads),
                         {{sequences * 67, width}},
                         {},
                         [=](Trial& trial) { return ops::attention(trial.context, several, trial.x[0]); },
                         tolerance});
      }
    }
    for (const uint64_t t : {5U, 11U, 66U}) {
      for (const DType cache : {DType::kF32, DType::kF16}) {
        // Keys and values rounded to f16 are off by 2^-11 at most, which scores over many dimensions multiply.
        cases.push_back({"attention_decode_cache",
                         fmt::format("{} positions, {}, {}", t, heads, dtype_name(cache)),
                         {{t, width}},
                         {},
                         [=](Trial& trial) { return run_cached(trial, config, cache); },
                         cache == DType::kF16 ? 4e-3 : tolerance});
      }
    }
  }
}

// A window that ends within, at and behind blocks of keys; scores of a scale of their own; caps that bend them.
void add_attention_variants(Cases& cases) {
  for (const ops::AttentionConfig& heads : kHeads) {
    for (const uint64_t window : {1U, 7U, 64U, 65U}) {
      ops::AttentionConfig config = heads;
      config.window = window;
      config.scale = 0.7F;
      config.soft_cap = window == 7 ? 0 : 0.5F;
      const uint64_t width = config.q_width() + 2 * config.kv_width();
      const std::string name = fmt::format("window {}, cap {}, {} heads on {} of {}", window, config.soft_cap,
                                           config.q_heads, config.kv_heads, config.head_dim);
      const double tolerance = kFunction + 2 * sum_of(config.head_dim);
      for (const uint64_t t : {3U, 150U}) {
        cases.push_back({"attention",
                         fmt::format("{} positions, {}", t, name),
                         {{t, width}},
                         {},
                         [=](Trial& trial) { return ops::attention(trial.context, config, trial.x[0]); },
                         tolerance});
      }
      cases.push_back({"attention_decode_cache",
                       name,
                       {{90, width}},
                       {},
                       [=](Trial& trial) { return run_cached(trial, config, DType::kF32); },
                       tolerance});
    }
  }
}

// As run_cached, but turned on the way.
Result<Tensor> run_turned(Trial& t, const ops::AttentionConfig& config, ops::RopeLayout layout, uint64_t rotary,
                          bool from_pairs, DType cache_dtype) {
  const uint64_t total = t.x[0].dims()[0];
  if (t.dtype == DType::kF64) cache_dtype = DType::kF64;
  const KvPast past = whole_past({.layers = 2,
                                  .kv_heads = config.kv_heads,
                                  .head_dim = config.head_dim,
                                  .most_positions = 100,
                                  .dtype = cache_dtype},
                                 t.context.workspace().queue().device());
  std::vector<Tensor> outputs;
  for (uint64_t at = 0; at < total;) {
    const uint64_t count = at == 0 ? total - 4 : std::min<uint64_t>(at == total - 4 ? 1 : 3, total - at);
    BALLAST_TRY(const Tensor qkv, ops::slice_along_axis(t.context, t.x[0], 0, at, count));
    BALLAST_TRY(const ops::RopeTables tables,
                ops::rope_tables(t.context, {.rotary_dim = rotary, .layout = layout}, {at, count, 0}, t.dtype));
    const KvRows rows{&past, at, count};
    const ops::TurnOptions turn{.from_pairs = from_pairs, .rope = rotary != 0 ? &tables : nullptr};
    BALLAST_TRY(outputs.emplace_back(),
                ops::attention_decode_turned(t.context, config, qkv, turn, std::span(&rows, 1), 1));
    at += count;
  }
  return ops::concat_along_axis(t.context, outputs, 0);
}

void add_turned_attention(Cases& cases) {
  for (const ops::AttentionConfig& config : kHeads) {
    if (config.head_dim % 2 != 0) continue;
    const uint64_t width = config.q_width() + 2 * config.kv_width();
    for (const uint64_t rotary : {config.head_dim, config.head_dim / 2 / 2 * 2}) {
      for (const bool in_pairs : {false, true}) {
        for (const bool from_pairs : {false, true}) {
          const ops::RopeLayout layout = in_pairs ? ops::RopeLayout::kPairs : ops::RopeLayout::kHalves;
          cases.push_back(
              {"attention_decode_turned",
               fmt::format("{} heads on {} of {}, {} turned{}{}", config.q_heads, config.kv_heads, config.head_dim,
                           rotary, in_pairs ? " in pairs" : "", from_pairs ? ", from pairs" : ""),
               {{66, width}},
               {},
               [=](Trial& t) { return run_turned(t, config, layout, rotary, from_pairs, DType::kF32); },
               2 * kFunction + 4 * sum_of(config.head_dim)});
        }
      }
    }
    cases.push_back(
        {"attention_decode_turned",
         fmt::format("{} heads on {} of {}, f16", config.q_heads, config.kv_heads, config.head_dim),
         {{66, width}},
         {},
         [=](Trial& t) { return run_turned(t, config, ops::RopeLayout::kHalves, config.head_dim, false, DType::kF16); },
         4e-3});
  }
}

void add_interleaved_rope(Cases& cases) {
  for (const uint64_t rotary : {2U, 6U, 16U, 34U, 64U}) {
    cases.push_back({"apply_rope",
                     fmt::format("pairs, {} turned", rotary),
                     {{5, 2, 65}},
                     {},
                     [=](Trial& trial) -> Result<Tensor> {
                       const ops::RopeConfig config{.rotary_dim = rotary, .layout = ops::RopeLayout::kPairs};
                       BALLAST_TRY(const auto tables, ops::rope_tables(trial.context, config, {3, 5}, trial.dtype));
                       return ops::apply_rope(trial.context, trial.x[0], tables);
                     },
                     kElementwise});
  }
}

void add_rotary_order(Cases& cases) {
  for (const ops::AttentionConfig& config : kHeads) {
    if (config.head_dim % 2 != 0) continue;
    for (const uint64_t t : {0U, 1U, 5U, 37U}) {
      cases.push_back(
          {"pairs_to_halves",
           fmt::format("{} positions, {} heads on {} of {}", t, config.q_heads, config.kv_heads, config.head_dim),
           {{t, config.q_width() + 2 * config.kv_width()}},
           {},
           [=](Trial& trial) { return ops::pairs_to_halves(trial.context, config, trial.x[0]); },
           kExact});
    }
  }
}

// Scores far enough apart that rounding does not choose other experts.
Result<Tensor> spread_scores(Trial& t, uint64_t rows, uint64_t experts) {
  std::vector<double> scores(rows * experts);
  for (uint64_t i = 0; i < scores.size(); ++i) {
    scores[i] = 0.37 * static_cast<double>((i * 7 + i / experts) % (experts + 3));
  }
  return tensor_of(t.context.workspace(), scores, {rows, experts}, t.dtype);
}

void add_experts(Cases& cases) {
  struct Mixture {
    uint64_t rows, experts, used, width, hidden;
  };
  for (const Mixture& m : {Mixture{1, 1, 1, 1, 1}, {0, 3, 2, 4, 5}, {5, 4, 2, 33, 17}, {9, 8, 3, 16, 40}}) {
    const std::string name = fmt::format("{} of {} experts, {} rows", m.used, m.experts, m.rows);
    for (const bool normalise : {false, true}) {
      cases.push_back({"expert_gates",
                       fmt::format("{}{}", name, normalise ? ", normalised" : ""),
                       {},
                       {},
                       [=](Trial& t) -> Result<Tensor> {
                         BALLAST_TRY(const Tensor scores, spread_scores(t, m.rows, m.experts));
                         return ops::expert_gates(t.context, scores, m.used, normalise);
                       },
                       kFunction});
    }
    cases.push_back({"expert_mlp",
                     name,
                     {{m.rows, m.width}},
                     {{m.experts, 2 * m.hidden, m.width}, {m.experts, m.width, m.hidden}},
                     [=](Trial& t) -> Result<Tensor> {
                       std::vector<ops::Expert> experts;
                       for (uint64_t e = 0; e < m.experts; ++e) {
                         experts.push_back({{t.params[0], {2 * e * m.hidden, m.hidden}},
                                            {t.params[0], {(2 * e + 1) * m.hidden, m.hidden}},
                                            {t.params[1], {e * m.width, m.width}}});
                       }
                       BALLAST_TRY(const Tensor scores, spread_scores(t, m.rows, m.experts));
                       BALLAST_TRY(const Tensor gates, ops::expert_gates(t.context, scores, m.used, true));
                       return ops::expert_mlp(t.context, t.x[0], gates, experts, Activation::kGeluTanh);
                     },
                     kFunction + 4 * sum_of(m.width + m.hidden)});
  }
}

void add_rope(Cases& cases) {
  for (const ops::AttentionConfig& config : kHeads) {
    const uint64_t width = config.q_width() + 2 * config.kv_width();
    for (const uint64_t t : {0U, 1U, 5U}) {
      for (const uint64_t rotary : {uint64_t{0}, config.head_dim / 2 * 2, config.head_dim / 4 * 2}) {
        const std::string name =
            fmt::format("{} positions, {} heads of {}, {} turned", t, config.q_heads, config.head_dim, rotary);
        const auto tables = [=](Trial& trial) {
          return *ops::rope_tables(trial.context, {.rotary_dim = rotary}, {3, t}, trial.dtype);
        };
        cases.push_back({"apply_rope",
                         name,
                         {{t, config.q_heads, config.head_dim}},
                         {},
                         [=](Trial& trial) { return ops::apply_rope(trial.context, trial.x[0], tables(trial)); },
                         kElementwise});
        cases.push_back(
            {"apply_rope_qkv_packed",
             name,
             {{t, width}},
             {},
             [=](Trial& trial) { return ops::apply_rope_qkv_packed(trial.context, config, trial.x[0], tables(trial)); },
             kElementwise});
      }
    }
  }
}

void add_shapes(Cases& cases) {
  for (const Dims& dims : vectors()) {
    cases.push_back({"reshape",
                     dims.to_string(),
                     {dims},
                     {},
                     [](Trial& t) {
                       return ops::reshape(t.context, t.x[0], {t.x[0].count(), 1});
                     },
                     kExact});
    cases.push_back({"transpose",
                     dims.to_string(),
                     {dims},
                     {},
                     [](Trial& t) {
                       std::vector<size_t> axes(t.x[0].dims().rank());
                       for (size_t i = 0; i < axes.size(); ++i) axes[i] = axes.size() - 1 - i;
                       return ops::transpose(t.context, t.x[0], axes);
                     },
                     kExact});
    cases.push_back({"slice_along_axis",
                     dims.to_string(),
                     {dims},
                     {},
                     [](Trial& t) {
                       const uint64_t length = t.x[0].dims()[0];
                       return ops::slice_along_axis(t.context, t.x[0], 0, length / 3, length / 2);
                     },
                     kExact});
    cases.push_back({"concat_along_axis",
                     dims.to_string(),
                     {dims, dims},
                     {},
                     [](Trial& t) { return ops::concat_along_axis(t.context, t.x, t.x[0].dims().rank() - 1); },
                     kExact});
  }
}

struct Conv {
  uint64_t n, h, w, in, out, kernel, stride, pad, groups, dilation;
};
constexpr std::array<Conv, 14> kConvs = {{{0, 5, 5, 3, 4, 3, 1, 1, 1, 1},  // no image
                                          {1, 1, 1, 1, 1, 1, 1, 0, 1, 1},  // one of everything
                                          {1, 7, 5, 3, 8, 3, 1, 1, 1, 1},
                                          {2, 8, 9, 5, 7, 3, 2, 1, 1, 1},
                                          {1, 14, 14, 16, 33, 1, 1, 0, 1, 1},  // 1 x 1
                                          {1, 15, 13, 17, 31, 1, 2, 0, 1, 1},  // 1 x 1 with a stride
                                          {1, 19, 17, 3, 16, 7, 2, 3, 1, 1},   // the first of a ResNet
                                          {1, 9, 9, 33, 33, 3, 1, 1, 33, 1},   // depthwise
                                          {2, 11, 7, 32, 32, 3, 2, 1, 32, 1},
                                          {1, 6, 6, 6, 12, 3, 1, 1, 3, 1},  // groups
                                          {1, 9, 10, 4, 5, 3, 1, 2, 1, 2},  // dilation
                                          {1, 3, 3, 5, 3, 3, 1, 0, 1, 1},   // one window
                                          {1, 4, 4, 64, 65, 3, 1, 1, 1, 1},
                                          {3, 5, 6, 8, 16, 5, 3, 2, 1, 1}}};

// `lopsided`: nothing is the same along both axes.
void add_conv_case(Cases& cases, const Conv& c, bool fused, bool lopsided) {
  const uint64_t kernel_w = lopsided && c.kernel > 1 ? c.kernel - 1 : c.kernel;
  ops::Conv2dParams params{.stride_h = c.stride,
                           .stride_w = c.stride + (lopsided ? 1 : 0),
                           .pad_top = c.pad,
                           .pad_bottom = c.pad + (lopsided ? 1 : 0),
                           .pad_left = c.pad,
                           .pad_right = c.pad + (lopsided ? 2 : 0),
                           .dilation_h = c.dilation,
                           .dilation_w = c.dilation + (lopsided ? 1 : 0),
                           .groups = c.groups};
  const uint64_t reach_h = (c.kernel - 1) * params.dilation_h + 1, reach_w = (kernel_w - 1) * params.dilation_w + 1;
  const uint64_t out_h = (c.h + params.pad_top + params.pad_bottom - reach_h) / params.stride_h + 1;
  const uint64_t out_w = (c.w + params.pad_left + params.pad_right - reach_w) / params.stride_w + 1;
  const auto run = [=](Trial& t) mutable {
    if (fused) params.activation = Activation::kRelu6;
    if (fused) params.residual = &t.x[1];
    return ops::conv2d(t.context, t.x[0], t.params[0], fused ? &t.params[1] : nullptr, params);
  };
  cases.push_back({"conv2d",
                   fmt::format("[{}, {}, {}, {}] to {}, kernel {} stride {} pad {} groups {} dilation {}{}{}", c.n, c.h,
                               c.w, c.in, c.out, c.kernel, c.stride, c.pad, c.groups, c.dilation, fused ? " fused" : "",
                               lopsided ? " lopsided" : ""),
                   {{c.n, c.h, c.w, c.in}, {c.n, out_h, out_w, c.out}},
                   {{c.out, c.in / c.groups, c.kernel, kernel_w}, {c.out}},
                   run,
                   sum_of(c.in / c.groups * c.kernel * kernel_w)});
}

void add_images(Cases& cases) {
  for (const Conv& conv : kConvs) {
    add_conv_case(cases, conv, false, false);
    add_conv_case(cases, conv, true, false);
    add_conv_case(cases, conv, true, true);
  }
  struct Pool {
    Dims dims;
    ops::PoolParams params;
  };
  const std::vector<Pool> pools = {
      {{1, 1, 1, 1}, {}},
      {{0, 4, 4, 3}, {.window_h = 2, .window_w = 2}},
      {{2, 7, 9, 5}, {.window_h = 3, .window_w = 2, .stride_h = 2, .stride_w = 3}},
      {{1, 11, 13, 33}, {3, 3, 2, 2, 1, 1, 1, 1}},
      {{1, 5, 5, 64}, {3, 3, 1, 1, 2, 0, 0, 2}},
  };
  for (const Pool& pool : pools) {
    const Dims& dims = pool.dims;
    const ops::PoolParams& params = pool.params;
    cases.push_back({"max_pool2d_nhwc",
                     dims.to_string(),
                     {dims},
                     {},
                     [=](Trial& t) { return ops::max_pool2d_nhwc(t.context, t.x[0], params); },
                     kExact});
    cases.push_back({"max_pool2d",
                     dims.to_string(),
                     {{dims[0], dims[3], dims[1], dims[2]}},
                     {},
                     [=](Trial& t) { return ops::max_pool2d(t.context, t.x[0], params); },
                     kExact});
    cases.push_back({"avg_pool2d_nhwc",
                     dims.to_string(),
                     {dims},
                     {},
                     [=](Trial& t) { return ops::avg_pool2d_nhwc(t.context, t.x[0], params); },
                     kElementwise});
    cases.push_back({"global_mean_pool_nhwc",
                     dims.to_string(),
                     {dims},
                     {},
                     [](Trial& t) { return ops::global_mean_pool_nhwc(t.context, t.x[0]); },
                     sum_of(dims[1] * dims[2])});
  }
}

}  // namespace

std::span<const UnaryOp> all_unary() {
  static constexpr std::array kOps = {UnaryOp::kNeg,         UnaryOp::kAbs,       UnaryOp::kRelu,  UnaryOp::kRelu6,
                                      UnaryOp::kGeluErf,     UnaryOp::kGeluTanh,  UnaryOp::kSilu,  UnaryOp::kSigmoid,
                                      UnaryOp::kTanh,        UnaryOp::kLeakyRelu, UnaryOp::kElu,   UnaryOp::kSoftplus,
                                      UnaryOp::kHardSigmoid, UnaryOp::kHardSwish, UnaryOp::kExp,   UnaryOp::kLog,
                                      UnaryOp::kSqrt,        UnaryOp::kSquare,    UnaryOp::kScale, UnaryOp::kShift};
  return kOps;
}

std::vector<ConformanceCase> conformance_cases() {
  Cases cases;
  add_activations(cases);
  add_elementwise(cases);
  add_products(cases);
  add_block_products(cases);
  add_linear_parts(cases);
  add_embeddings(cases);
  add_attention(cases);
  add_attention_variants(cases);
  add_turned_attention(cases);
  add_rope(cases);
  add_interleaved_rope(cases);
  add_rotary_order(cases);
  add_experts(cases);
  add_shapes(cases);
  add_images(cases);
  add_training_cases(cases);
  return cases;
}

}  // namespace ballast::testing
