// A Sequential inside another.
#include <fmt/format.h>

#include "ballast/nn/rows.h"
#include "ballast/nn/sequential.h"

namespace ballast::nn {

namespace {

class NestedSequential final : public Layer {
 public:
  static Result<LayerPtr> build(const LayerArgs& args, const LayerTable& table) {
    auto layer = std::make_unique<NestedSequential>();
    BALLAST_TRY(layer->layers_, table.build_all(args.raw("layers"), args.where()));
    for (size_t i = 0; i < layer->layers_.size(); ++i) {
      for (const LayerTensor& tensor : layer->layers_[i]->tensors()) {
        layer->add_tensor(fmt::format("{}.{}", i, tensor.key), tensor.shape, tensor.initial, tensor.trained);
      }
    }
    return LayerPtr(std::move(layer));
  }
  // Its layers ask for what they want.
  Order order() const override { return Order::kAny; }
  Status bind(std::vector<Param> params) override { return bind_all(layers_, std::move(params)); }
  Result<Value> forward(Pass& pass, const Value& x) const override { return run_layers(pass, layers_, x); }

 private:
  std::vector<LayerPtr> layers_;
};

}  // namespace

void add_nested_layers(std::vector<LayerType>& rows) {
  rows.push_back({.name = "Sequential", .args = {{"layers", ArgKind::kLayers}}, .build = NestedSequential::build});
}

}  // namespace ballast::nn
