// Linear, Flatten and the layers that only change which way numbers lie.
#include <array>

#include "ballast/nn/parts.h"
#include "ballast/nn/rows.h"

namespace ballast::nn {

namespace {

class Linear final : public PartsLayer {
 public:
  static Result<LayerPtr> build(const LayerArgs& args, const LayerTable&) {
    auto layer = std::make_unique<Linear>();
    layer->part_ = layer->add_linear("", args.count("in_features"), args.count("out_features"), args.truth("bias"));
    return LayerPtr(std::move(layer));
  }
  Order order() const override { return Order::kAsGiven; }
  bool fuses_relu() const override { return true; }
  Result<Value> forward(Pass& pass, const Value& x) const override { return run(pass, x, Activation::kNone); }
  Result<Value> forward_relu(Pass& pass, const Value& x) const override { return run(pass, x, Activation::kRelu); }

 private:
  Result<Value> run(Pass& pass, const Value& x, Activation activation) const {
    BALLAST_TRY(Tensor y, run_linear(pass, part_, x.tensor, activation));
    return Value{std::move(y)};
  }
  LinearPart part_;
};

// The output projection of a model whose embedding is its weight: x * weight transposed. Owns nothing.
class TiedLinear final : public Layer {
 public:
  static Result<LayerPtr> build(const LayerArgs& args, const LayerTable&) {
    auto layer = std::make_unique<TiedLinear>();
    layer->embedding_ = args.count("embedding");
    return LayerPtr(std::move(layer));
  }
  Order order() const override { return Order::kAsGiven; }
  std::optional<size_t> tied_layer() const override { return static_cast<size_t>(embedding_); }
  void bind_tied(const Param& weight) override { weight_ = weight; }
  Result<Value> forward(Pass& pass, const Value& x) const override {
    if (x.tensor.dims().rank() == 0 || x.tensor.dims().back() != weight_.shape()[1]) {
      return wrong_input(*this, x.tensor, "the embedding's width in its last dimension");
    }
    BALLAST_TRY(const Tensor y,
                ops::linear(pass.context, as_rows(x.tensor), weight_, {.layout = WeightLayout::kOutIn}));
    return Value{with_last(y, x.tensor.dims())};
  }

 private:
  uint64_t embedding_ = 0;
  Param weight_;
};

class Flatten final : public Layer {
 public:
  static Result<LayerPtr> build(const LayerArgs&, const LayerTable&) { return LayerPtr(std::make_unique<Flatten>()); }
  Order order() const override { return Order::kAsGiven; }
  Result<Value> forward(Pass&, const Value& x) const override {
    const Dims& dims = x.tensor.dims();
    if (dims.rank() == 0 || dims[0] == 0)
      return wrong_input(*this, x.tensor, "at least one dimension, and not of length 0");
    return Value{x.tensor.reshaped({dims[0], x.tensor.count() / dims[0]})};
  }
};

class Identity final : public Layer {
 public:
  static Result<LayerPtr> build(const LayerArgs&, const LayerTable&) { return LayerPtr(std::make_unique<Identity>()); }
  Result<Value> forward(Pass&, const Value& x) const override { return x; }
};

class Dropout final : public Layer {
 public:
  static Result<LayerPtr> build(const LayerArgs& args, const LayerTable&) {
    auto layer = std::make_unique<Dropout>();
    layer->p_ = static_cast<float>(args.real("p"));
    layer->seed_ = args.optional_count("seed");
    if (!(layer->p_ >= 0 && layer->p_ < 1)) return args.error("\"p\" must be at least 0 and below 1");
    return LayerPtr(std::move(layer));
  }
  Result<Value> forward(Pass& pass, const Value& x) const override {
    BALLAST_TRY(Tensor y, run_dropout(pass, x.tensor, p_, seed_));
    return Value{std::move(y), x.channels_last};
  }

 private:
  float p_ = 0;
  std::optional<uint64_t> seed_;
};

}  // namespace

void add_linear_layers(std::vector<LayerType>& rows) {
  rows.push_back({.name = "Linear",
                  .args = {{"in_features"}, {"out_features"}, {"bias", ArgKind::kTruth, "true"}},
                  .build = Linear::build,
                  .netcl_saves = true});
  rows.push_back({.name = "TiedLinear", .args = {{"embedding", ArgKind::kCountOrZero}}, .build = TiedLinear::build});
  rows.push_back({.name = "Flatten", .build = Flatten::build, .netcl_saves = true, .ignores_unknown = true});
  rows.push_back({.name = "Identity", .build = Identity::build, .ignores_unknown = true});
  rows.push_back({.name = "Dropout",
                  .args = {{"p", ArgKind::kReal, "0.5"}, {"seed", ArgKind::kSeed, "null"}},
                  .build = Dropout::build,
                  .netcl_saves = true,
                  .ignores_unknown = true});
}

}  // namespace ballast::nn
