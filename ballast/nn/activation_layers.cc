#include <fmt/format.h>

#include "ballast/nn/parts.h"
#include "ballast/nn/rows.h"

namespace ballast::nn {

namespace {

class Unary final : public Layer {
 public:
  explicit Unary(UnaryOp op, double parameter = 0) : op_(op), parameter_(parameter) {}
  Result<Value> forward(Pass& pass, const Value& x) const override {
    BALLAST_TRY(Tensor y, compute(pass.context, x.tensor));
    return Value{std::move(y), x.channels_last};
  }

 private:
  // Those that models of gpt.rs have too go by their own names, which overrides know.
  Result<Tensor> compute(Context& context, const Tensor& x) const {
    switch (op_) {
      case UnaryOp::kRelu: return ops::relu(context, x);
      case UnaryOp::kSilu: return ops::silu(context, x);
      case UnaryOp::kGeluErf: return ops::gelu(context, x, Activation::kGeluErf);
      case UnaryOp::kGeluTanh: return ops::gelu(context, x, Activation::kGeluTanh);
      default: return ops::unary(context, op_, x, parameter_);
    }
  }
  UnaryOp op_;
  double parameter_;
};

template <UnaryOp kOp>
Result<LayerPtr> build_unary(const LayerArgs&, const LayerTable&) {
  return LayerPtr(std::make_unique<Unary>(kOp));
}
Result<LayerPtr> build_leaky_relu(const LayerArgs& args, const LayerTable&) {
  return LayerPtr(std::make_unique<Unary>(UnaryOp::kLeakyRelu, args.real("negative_slope")));
}
Result<LayerPtr> build_elu(const LayerArgs& args, const LayerTable&) {
  return LayerPtr(std::make_unique<Unary>(UnaryOp::kElu, args.real("alpha")));
}
Result<LayerPtr> build_gelu(const LayerArgs& args, const LayerTable&) {
  return LayerPtr(std::make_unique<Unary>(args.truth("approximate") ? UnaryOp::kGeluTanh : UnaryOp::kGeluErf));
}

class HardTanh final : public Layer {
 public:
  static Result<LayerPtr> build(const LayerArgs& args, const LayerTable&) {
    auto layer = std::make_unique<HardTanh>();
    layer->low_ = static_cast<float>(args.real("min_val"));
    layer->high_ = static_cast<float>(args.real("max_val"));
    if (!(layer->low_ <= layer->high_)) return args.error("\"min_val\" must not be above \"max_val\"");
    return LayerPtr(std::move(layer));
  }
  Result<Value> forward(Pass& pass, const Value& x) const override {
    BALLAST_TRY(Tensor y, ops::clamp(pass.context, x.tensor, low_, high_));
    return Value{std::move(y), x.channels_last};
  }

 private:
  float low_ = -1, high_ = 1;
};

class Softmax final : public Layer {
 public:
  static Result<LayerPtr> build(const LayerArgs&, const LayerTable&) { return LayerPtr(std::make_unique<Softmax>()); }
  Order order() const override { return Order::kAsGiven; }
  Result<Value> forward(Pass& pass, const Value& x) const override {
    BALLAST_TRY(Tensor y, ops::softmax_last_dim(pass.context, x.tensor));
    return Value{std::move(y)};
  }
};

class PRelu final : public Layer {
 public:
  static Result<LayerPtr> build(const LayerArgs& args, const LayerTable&) {
    auto layer = std::make_unique<PRelu>();
    layer->add_tensor("alpha", {args.count("num_parameters")}, Initial::constant(args.real("init")));
    return LayerPtr(std::move(layer));
  }
  Order order() const override { return Order::kChannelsLast; }
  Result<Value> forward(Pass& pass, const Value& x) const override {
    BALLAST_TRY(Tensor y, ops::prelu(pass.context, x.tensor, param(0)));
    return Value{std::move(y), x.channels_last};
  }
};

}  // namespace

void add_activation_layers(std::vector<LayerType>& rows) {
  constexpr auto kReal = ArgKind::kReal;
  const auto plain = [&](std::string_view name, auto build, bool netcl_saves = false) {
    rows.push_back({.name = name, .build = build, .netcl_saves = netcl_saves, .ignores_unknown = netcl_saves});
  };
  plain("ReLU", build_unary<UnaryOp::kRelu>, true);
  rows.push_back({.name = "LeakyReLU",
                  .args = {{"negative_slope", kReal, "0.01"}},
                  .build = build_leaky_relu,
                  .netcl_saves = true,
                  .ignores_unknown = true});
  plain("Sigmoid", build_unary<UnaryOp::kSigmoid>, true);
  plain("Tanh", build_unary<UnaryOp::kTanh>, true);
  rows.push_back({.name = "GELU", .args = {{"approximate", ArgKind::kTruth, "true"}}, .build = build_gelu});
  plain("SiLU", build_unary<UnaryOp::kSilu>);
  rows.push_back({.name = "ELU", .args = {{"alpha", kReal, "1.0"}}, .build = build_elu});
  plain("Softplus", build_unary<UnaryOp::kSoftplus>);
  plain("HardSigmoid", build_unary<UnaryOp::kHardSigmoid>);
  plain("HardSwish", build_unary<UnaryOp::kHardSwish>);
  rows.push_back(
      {.name = "HardTanh", .args = {{"min_val", kReal, "-1.0"}, {"max_val", kReal, "1.0"}}, .build = HardTanh::build});
  plain("Softmax", Softmax::build);
  rows.push_back({.name = "PReLU", .args = {{"num_parameters"}, {"init", kReal, "0.25"}}, .build = PRelu::build});
}

}  // namespace ballast::nn
