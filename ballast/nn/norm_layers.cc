#include "ballast/nn/parts.h"
#include "ballast/nn/rows.h"

namespace ballast::nn {

namespace {

class Norm final : public PartsLayer {
 public:
  static Result<LayerPtr> build_layer_norm(const LayerArgs& args, const LayerTable&) {
    auto layer = std::make_unique<Norm>();
    layer->part_ = layer->add_layer_norm("", args.count("normalized_shape"), args.real("eps"));
    return LayerPtr(std::move(layer));
  }
  static Result<LayerPtr> build_rms_norm(const LayerArgs& args, const LayerTable&) {
    auto layer = std::make_unique<Norm>();
    layer->part_ = layer->add_rms_norm("", args.count("dim"), args.real("eps"));
    return LayerPtr(std::move(layer));
  }
  Order order() const override { return Order::kAsGiven; }
  Result<Value> forward(Pass& pass, const Value& x) const override {
    BALLAST_TRY(Tensor y, run_norm(pass, part_, x.tensor));
    return Value{std::move(y)};
  }

 private:
  NormPart part_;
};

}  // namespace

void add_norm_layers(std::vector<LayerType>& rows) {
  rows.push_back({.name = "LayerNorm",
                  .args = {{"normalized_shape"}, {"eps", ArgKind::kReal, "1e-05"}},
                  .build = Norm::build_layer_norm});
  rows.push_back(
      {.name = "RMSNorm", .args = {{"dim"}, {"eps", ArgKind::kReal, "1e-06"}}, .build = Norm::build_rms_norm});
}

}  // namespace ballast::nn
