// Attention on its own, and the blocks that transformers are made of.
#include <fmt/format.h>

#include "ballast/nn/attention_parts.h"
#include "ballast/nn/rows.h"

namespace ballast::nn {

namespace {

struct RotaryForm {
  uint64_t features, heads;
  double base, eps;
  bool bias, norm;
  float dropout;
};

Result<RotaryForm> rotary_form(const LayerArgs& args, bool bias) {
  RotaryForm form{args.count("dim"),
                  args.count("n_head"),
                  args.real("rope_base"),
                  args.real("eps"),
                  bias,
                  args.truth("qk_norm"),
                  0};
  BALLAST_CHECK(check_heads(args, form.features, form.heads));
  if (form.features / form.heads % 2 != 0) {
    return args.error(fmt::format("heads of {} channels cannot be turned in pairs", form.features / form.heads));
  }
  if (!(form.base > 0)) return args.error("\"rope_base\" must be above 0");
  BALLAST_TRY(form.dropout, dropout_rate(args));
  return form;
}

// Everything that attends, plain or in a block, declares its tensors in netcl's order.
class AttentionBase : public AttentionLayer {
 public:
  Order order() const override { return Order::kAsGiven; }

 protected:
  AttentionPart add_packed(const std::string& prefix, uint64_t features, uint64_t heads, bool bias, bool causal,
                           float dropout) {
    AttentionPart part;
    part.qkv = add_linear(prefix + "qkv", features, 3 * features, bias);
    part.out = add_linear(prefix + "out_proj", features, features, bias);
    part.features = features;
    part.heads = heads;
    part.causal = causal;
    part.dropout = dropout;
    return part;
  }
  AttentionPart add_separate(const std::string& prefix, uint64_t features, uint64_t heads, bool bias) {
    AttentionPart part;
    part.q = add_linear(prefix + "q_proj", features, features, bias);
    part.k = add_linear(prefix + "k_proj", features, features, bias);
    part.v = add_linear(prefix + "v_proj", features, features, bias);
    part.out = add_linear(prefix + "out_proj", features, features, bias);
    part.features = features;
    part.heads = heads;
    part.causal = false;
    return part;
  }
  AttentionPart add_rotary(const std::string& prefix, const RotaryForm& form) {
    AttentionPart part;
    part.qkv = add_linear(prefix + "qkv", form.features, 3 * form.features, form.bias);
    part.out = add_linear(prefix + "proj", form.features, form.features, form.bias);
    const Shape head{form.features / form.heads};
    if (form.norm) {
      part.q_norm = add_tensor(prefix + "q_norm", head, Initial::constant(1));
      part.k_norm = add_tensor(prefix + "k_norm", head, Initial::constant(1));
    }
    part.features = form.features;
    part.heads = form.heads;
    part.rope_base = form.base;
    part.eps = static_cast<float>(form.eps);
    part.dropout = form.dropout;
    return part;
  }
};

class Attention final : public AttentionBase {
 public:
  static Result<LayerPtr> build_multihead(const LayerArgs& args, const LayerTable&) {
    const uint64_t features = args.count("embed_dim"), heads = args.count("num_heads");
    BALLAST_CHECK(check_heads(args, features, heads));
    auto layer = std::make_unique<Attention>();
    layer->part_ = layer->add_separate("", features, heads, args.truth("bias"));
    return LayerPtr(std::move(layer));
  }
  static Result<LayerPtr> build_causal(const LayerArgs& args, const LayerTable&) {
    const uint64_t features = args.count("embed_dim"), heads = args.count("num_heads");
    BALLAST_CHECK(check_heads(args, features, heads));
    BALLAST_TRY(const float dropout, dropout_rate(args));
    auto layer = std::make_unique<Attention>();
    layer->part_ = layer->add_packed("", features, heads, args.truth("bias"), args.truth("causal"), dropout);
    return LayerPtr(std::move(layer));
  }
  static Result<LayerPtr> build_rotary(const LayerArgs& args, const LayerTable&) {
    BALLAST_TRY(const RotaryForm form, rotary_form(args, args.truth("bias")));
    auto layer = std::make_unique<Attention>();
    layer->part_ = layer->add_rotary("", form);
    return LayerPtr(std::move(layer));
  }
  Result<Value> forward(Pass& pass, const Value& x) const override {
    BALLAST_TRY(Tensor y, run_attention(pass, part_, x.tensor));
    return Value{std::move(y)};
  }

 private:
  AttentionPart part_;
};

// x + attention(norm(x)), then x + map(activation(map(norm(x)))).
class TransformerBlock final : public AttentionBase {
 public:
  static Result<LayerPtr> build(const LayerArgs& args, const LayerTable&) {
    const uint64_t features = args.count("d_model"), heads = args.count("num_heads");
    const uint64_t hidden = args.optional_count("dim_feedforward").value_or(4 * features);
    if (hidden == 0) return args.error("\"dim_feedforward\" must be above 0");
    BALLAST_CHECK(check_heads(args, features, heads));
    auto layer = std::make_unique<TransformerBlock>();
    BALLAST_TRY(layer->dropout_, dropout_rate(args));
    BALLAST_TRY(layer->activation_, activation_of(args));
    layer->norm1_ = layer->add_layer_norm("ln1", features, 1e-5);
    layer->attention_ = layer->add_packed("attn.", features, heads, true, args.truth("causal"), layer->dropout_);
    layer->norm2_ = layer->add_layer_norm("ln2", features, 1e-5);
    layer->wide_ = layer->add_linear("fc1", features, hidden, true);
    layer->back_ = layer->add_linear("fc2", hidden, features, true);
    return LayerPtr(std::move(layer));
  }
  Result<Value> forward(Pass& pass, const Value& x) const override {
    BALLAST_TRY(const Tensor in, run_norm(pass, norm1_, x.tensor));
    BALLAST_TRY(const Tensor attended, run_attention(pass, attention_, in));
    BALLAST_TRY(const Tensor middle, ops::add(pass.context, x.tensor, attended));
    BALLAST_TRY(const Tensor rows, run_norm(pass, norm2_, middle));
    BALLAST_TRY(const Tensor hidden, run_linear(pass, wide_, rows, activation_));
    BALLAST_TRY(Tensor out, run_linear(pass, back_, hidden));
    BALLAST_TRY(out, run_dropout(pass, out, dropout_));
    BALLAST_TRY(Tensor y, ops::add(pass.context, middle, out));
    return Value{std::move(y)};
  }

 private:
  static Result<Activation> activation_of(const LayerArgs& args) {
    const std::string name = args.text("activation");
    if (name == "gelu") return Activation::kGeluTanh;
    if (name == "relu") return Activation::kRelu;
    if (name == "silu" || name == "swish") return Activation::kSilu;
    return args.error(fmt::format("\"activation\" is \"{}\"; there are: gelu, relu, silu", name));
  }
  NormPart norm1_, norm2_;
  AttentionPart attention_;
  LinearPart wide_, back_;
  Activation activation_ = Activation::kGeluTanh;
  float dropout_ = 0;
};

// norm(x + attention(x)), then norm(x + map(relu(map(x)))).
class TransformerEncoderLayer final : public AttentionBase {
 public:
  static Result<LayerPtr> build(const LayerArgs& args, const LayerTable&) {
    const uint64_t features = args.count("d_model"), heads = args.count("nhead");
    BALLAST_CHECK(check_heads(args, features, heads));
    auto layer = std::make_unique<TransformerEncoderLayer>();
    layer->attention_ = layer->add_separate("self_attn.", features, heads, true);
    layer->wide_ = layer->add_linear("linear1", features, args.count("dim_feedforward"), true);
    layer->back_ = layer->add_linear("linear2", args.count("dim_feedforward"), features, true);
    layer->norm1_ = layer->add_layer_norm("norm1", features, 1e-5);
    layer->norm2_ = layer->add_layer_norm("norm2", features, 1e-5);
    return LayerPtr(std::move(layer));
  }
  Result<Value> forward(Pass& pass, const Value& x) const override {
    BALLAST_TRY(const Tensor attended, run_attention(pass, attention_, x.tensor));
    BALLAST_TRY(const Tensor first, ops::add(pass.context, x.tensor, attended));
    BALLAST_TRY(const Tensor middle, run_norm(pass, norm1_, first));
    BALLAST_TRY(const Tensor hidden, run_linear(pass, wide_, middle, Activation::kRelu));
    BALLAST_TRY(const Tensor out, run_linear(pass, back_, hidden));
    BALLAST_TRY(const Tensor second, ops::add(pass.context, middle, out));
    BALLAST_TRY(Tensor y, run_norm(pass, norm2_, second));
    return Value{std::move(y)};
  }

 private:
  AttentionPart attention_;
  LinearPart wide_, back_;
  NormPart norm1_, norm2_;
};

// down(silu(gate x) * up x), alone or behind rotary attention.
class GatedLayer : public AttentionBase {
 protected:
  struct GatePart {
    LinearPart gate, up, down;
  };
  static uint64_t hidden_of(const LayerArgs& args) {
    const uint64_t hidden = args.optional_count("hidden").value_or(0);
    return hidden != 0 ? hidden : (8 * args.count("dim") / 3 + 63) / 64 * 64;
  }
  GatePart add_gate(const std::string& prefix, uint64_t features, uint64_t hidden, bool bias) {
    GatePart part;
    part.gate = add_linear(prefix + "gate", features, hidden, bias);
    part.up = add_linear(prefix + "up", features, hidden, bias);
    part.down = add_linear(prefix + "down", hidden, features, bias);
    return part;
  }
  Result<Tensor> run_gate(Pass& pass, const GatePart& part, const Tensor& x) const {
    BALLAST_TRY(const Tensor gate, run_linear(pass, part.gate, x));
    BALLAST_TRY(const Tensor up, run_linear(pass, part.up, x));
    BALLAST_TRY(const Tensor hidden, ops::swiglu(pass.context, gate, up));
    return run_linear(pass, part.down, hidden);
  }
};

class SwiGlu final : public GatedLayer {
 public:
  static Result<LayerPtr> build(const LayerArgs& args, const LayerTable&) {
    auto layer = std::make_unique<SwiGlu>();
    layer->part_ = layer->add_gate("", args.count("dim"), hidden_of(args), args.truth("bias"));
    return LayerPtr(std::move(layer));
  }
  Result<Value> forward(Pass& pass, const Value& x) const override {
    BALLAST_TRY(Tensor y, run_gate(pass, part_, x.tensor));
    return Value{std::move(y)};
  }

 private:
  GatePart part_;
};

class DecoderBlock final : public GatedLayer {
 public:
  static Result<LayerPtr> build(const LayerArgs& args, const LayerTable&) {
    BALLAST_TRY(const RotaryForm form, rotary_form(args, false));
    auto layer = std::make_unique<DecoderBlock>();
    layer->dropout_ = form.dropout;
    layer->norm1_ = layer->add_rms_norm("norm1", form.features, form.eps);
    layer->attention_ = layer->add_rotary("attn.", form);
    layer->norm2_ = layer->add_rms_norm("norm2", form.features, form.eps);
    layer->feed_ = layer->add_gate("ffn.", form.features, hidden_of(args), false);
    return LayerPtr(std::move(layer));
  }
  Result<Value> forward(Pass& pass, const Value& x) const override {
    BALLAST_TRY(const Tensor in, run_norm(pass, norm1_, x.tensor));
    BALLAST_TRY(const Tensor attended, run_attention(pass, attention_, in));
    BALLAST_TRY(const Tensor middle, ops::add(pass.context, x.tensor, attended));
    BALLAST_TRY(const Tensor rows, run_norm(pass, norm2_, middle));
    BALLAST_TRY(Tensor out, run_gate(pass, feed_, rows));
    BALLAST_TRY(out, run_dropout(pass, out, dropout_));
    BALLAST_TRY(Tensor y, ops::add(pass.context, middle, out));
    return Value{std::move(y)};
  }

 private:
  NormPart norm1_, norm2_;
  AttentionPart attention_;
  GatePart feed_;
  float dropout_ = 0;
};

constexpr auto kReal = ArgKind::kReal;
constexpr auto kTruth = ArgKind::kTruth;
constexpr auto kOptional = ArgKind::kOptionalCount;

}  // namespace

void add_attention_layers(std::vector<LayerType>& rows) {
  const ArgSpec bias{"bias", kTruth, "true"}, no_bias{"bias", kTruth, "false"}, dropout{"dropout", kReal, "0.0"};
  rows.push_back({.name = "MultiheadAttention",
                  .args = {{"embed_dim"}, {"num_heads"}, bias},
                  .build = Attention::build_multihead});
  rows.push_back({.name = "CausalSelfAttention",
                  .args = {{"embed_dim"}, {"num_heads"}, {"causal", kTruth, "true"}, dropout, bias},
                  .build = Attention::build_causal});
  rows.push_back({.name = "RotaryAttention",
                  .args = {{"dim"},
                           {"n_head"},
                           {"rope_base", kReal, "10000.0"},
                           dropout,
                           no_bias,
                           {"qk_norm", kTruth, "true"},
                           {"eps", kReal, "1e-06"}},
                  .build = Attention::build_rotary});
}

void add_block_layers(std::vector<LayerType>& rows) {
  const ArgSpec dropout{"dropout", kReal, "0.0"}, hidden{"hidden", kOptional, "null"};
  rows.push_back({.name = "TransformerBlock",
                  .args = {{"d_model"},
                           {"num_heads"},
                           {"dim_feedforward", kOptional, "null"},
                           dropout,
                           {"causal", kTruth, "true"},
                           {"activation", ArgKind::kText, "\"gelu\""}},
                  .build = TransformerBlock::build});
  rows.push_back({.name = "TransformerEncoderLayer",
                  .args = {{"d_model"}, {"nhead"}, {"dim_feedforward", ArgKind::kCount, "2048"}},
                  .build = TransformerEncoderLayer::build});
  rows.push_back({.name = "SwiGLU", .args = {{"dim"}, hidden, {"bias", kTruth, "false"}}, .build = SwiGlu::build});
  rows.push_back({.name = "DecoderBlock",
                  .args = {{"dim"},
                           {"n_head"},
                           hidden,
                           dropout,
                           {"rope_base", kReal, "10000.0"},
                           {"eps", kReal, "1e-06"},
                           {"qk_norm", kTruth, "true"}},
                  .build = DecoderBlock::build});
}

}  // namespace ballast::nn
