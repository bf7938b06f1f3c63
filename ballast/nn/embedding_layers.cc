#include <fmt/format.h>

#include "ballast/device/host_values.h"
#include "ballast/nn/parts.h"
#include "ballast/nn/rows.h"

namespace ballast::nn {

namespace {

template <typename T>
Result<std::vector<uint32_t>> copy_ids(const Tensor& x, T most, bool& sound) {
  BALLAST_TRY(const auto values, HostValues<T>::of(x));
  std::vector<uint32_t> ids(values.size());
  for (size_t i = 0; i < ids.size(); ++i) {
    const T value = values[i];
    sound = sound && value >= T{0} && value <= most && static_cast<T>(static_cast<uint32_t>(value)) == value;
    ids[i] = sound ? static_cast<uint32_t>(value) : 0;
  }
  return ids;
}

// Ids in any of the types that arrays of ids come in.
Result<std::vector<uint32_t>> ids_of(const Layer& layer, const Tensor& x) {
  bool sound = true;
  Result<std::vector<uint32_t>> ids = std::vector<uint32_t>();
  switch (x.dtype()) {
    case DType::kU32: {
      BALLAST_TRY(const auto values, HostValues<uint32_t>::of(x));
      return std::vector<uint32_t>(values.begin(), values.end());
    }
    case DType::kI32: ids = copy_ids<int32_t>(x, 0x7FFFFFFF, sound); break;
    case DType::kI64: ids = copy_ids<int64_t>(x, 0xFFFFFFFE, sound); break;
    case DType::kF32: ids = copy_ids<float>(x, 0x1p24F, sound); break;
    default: sound = false;
  }
  if (sound || !ids) return ids;
  return wrong_input(layer, x, "ids: whole numbers from 0 on, as u32, i32, i64 or f32");
}

class Embedding final : public Layer {
 public:
  static Result<LayerPtr> build(const LayerArgs& args, const LayerTable&) {
    auto layer = std::make_unique<Embedding>();
    layer->add_tensor("weight", {args.count("num_embeddings"), args.count("embedding_dim")}, Initial::normal(1));
    return LayerPtr(std::move(layer));
  }
  Order order() const override { return Order::kAsGiven; }
  Result<Value> forward(Pass& pass, const Value& x) const override {
    const Dims& dims = x.tensor.dims();
    if (dims.rank() >= Dims::kMaxRank) return wrong_input(*this, x.tensor, "fewer dimensions");
    BALLAST_TRY(const std::vector<uint32_t> ids, ids_of(*this, x.tensor));
    BALLAST_TRY(const Tensor rows, ops::embedding_lookup(pass.context, param(0), ids));
    std::vector<uint64_t> shape(dims.span().begin(), dims.span().end());
    shape.push_back(rows.dims().back());
    return Value{rows.reshaped(Dims(shape))};
  }
};

// Adds the row of its position to each of [.., t, d].
class PositionalEmbedding final : public Layer {
 public:
  static Result<LayerPtr> build(const LayerArgs& args, const LayerTable&) {
    auto layer = std::make_unique<PositionalEmbedding>();
    layer->longest_ = args.count("max_len");
    layer->features_ = args.count("d_model");
    layer->add_tensor("weight", {layer->longest_, layer->features_}, Initial::normal(args.real("init_std")));
    return LayerPtr(std::move(layer));
  }
  Order order() const override { return Order::kAsGiven; }
  Result<Value> forward(Pass& pass, const Value& x) const override {
    const Dims& dims = x.tensor.dims();
    if (dims.rank() < 2 || dims.back() != features_ || dims.back(1) > longest_) {
      return wrong_input(*this, x.tensor, fmt::format("[.., at most {}, {}]", longest_, features_));
    }
    std::vector<uint32_t> positions(static_cast<size_t>(dims.leading()));
    for (size_t i = 0; i < positions.size(); ++i) positions[i] = static_cast<uint32_t>(i % dims.back(1));
    BALLAST_TRY(const Tensor rows, ops::embedding_lookup(pass.context, param(0), positions, x.tensor.dtype()));
    BALLAST_TRY(Tensor y, ops::add(pass.context, x.tensor, rows.reshaped(dims)));
    return Value{std::move(y)};
  }

 private:
  uint64_t longest_ = 0, features_ = 0;
};

}  // namespace

void add_embedding_layers(std::vector<LayerType>& rows) {
  rows.push_back({.name = "Embedding", .args = {{"num_embeddings"}, {"embedding_dim"}}, .build = Embedding::build});
  rows.push_back({.name = "PositionalEmbedding",
                  .args = {{"max_len"}, {"d_model"}, {"init_std", ArgKind::kReal, "0.02"}},
                  .build = PositionalEmbedding::build});
}

}  // namespace ballast::nn
