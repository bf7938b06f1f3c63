#include "ballast/nn/sequential.h"

#include <fmt/format.h>

#include <array>
#include <cstring>

#include "ballast/backends/backends.h"
#include "ballast/base/json.h"
#include "ballast/io/guard.h"
#include "ballast/nn/initialize.h"
#include "ballast/tensor/cast.h"

namespace ballast::nn {

namespace {

// With one channel or one position the numbers lie alike in both orders.
bool lies_alike(uint64_t channels, uint64_t height, uint64_t width) { return channels == 1 || height * width == 1; }

Result<Value> channels_last(Context& context, const Value& x) {
  const Dims& d = x.tensor.dims();
  if (x.channels_last || d.rank() != 4) return x;
  if (lies_alike(d[1], d[2], d[3])) return Value{x.tensor.reshaped({d[0], d[2], d[3], d[1]}), true};
  constexpr std::array<size_t, 4> kToLast = {0, 2, 3, 1};
  BALLAST_TRY(Tensor y, ops::transpose(context, x.tensor, kToLast));
  return Value{std::move(y), true};
}

Result<Value> in_order(Context& context, const Value& x, Order order) {
  switch (order) {
    case Order::kChannelsLast: return channels_last(context, x);
    case Order::kAsGiven: {
      BALLAST_TRY(Tensor y, as_given(context, x));
      return Value{std::move(y)};
    }
    case Order::kAny: break;
  }
  return x;
}

std::string layer_prefix(size_t index) { return fmt::format("{}.", index); }

}  // namespace

Result<Tensor> as_given(Context& context, const Value& x) {
  if (!x.channels_last) return x.tensor;
  const Dims& d = x.tensor.dims();
  if (lies_alike(d[3], d[1], d[2])) return x.tensor.reshaped({d[0], d[3], d[1], d[2]});
  constexpr std::array<size_t, 4> kToSecond = {0, 3, 1, 2};
  return ops::transpose(context, x.tensor, kToSecond);
}

Result<Value> run_layers(Pass& pass, std::span<const LayerPtr> layers, Value x) {
  const auto watch = std::exchange(pass.watch, nullptr);
  for (size_t i = 0; i < layers.size(); ++i) {
    const Layer& layer = *layers[i];
    const Context::Scope scope(pass.context, fmt::to_string(i));
    BALLAST_TRY(x, in_order(pass.context, x, layer.order()));
    const bool with_relu = !watch && layer.fuses_relu() && i + 1 < layers.size() && layers[i + 1]->type() == "ReLU";
    auto y = with_relu ? layer.forward_relu(pass, x) : layer.forward(pass, x);
    if (!y) return std::move(y).error().with_context(fmt::format("layer {} ({})", i, layer.type()));
    x = std::move(*y);
    if (watch) BALLAST_CHECK(watch(i, x));
    i += with_relu ? 1 : 0;
  }
  return x;
}

Status bind_all(std::span<const LayerPtr> layers, std::vector<Param> params) {
  std::vector<std::span<const Param>> parts;
  size_t at = 0;
  for (const LayerPtr& layer : layers) {
    const std::span<const Param> part(params.data() + at, layer->tensors().size());
    BALLAST_CHECK(layer->bind({part.begin(), part.end()}));
    parts.push_back(part);
    at += part.size();
  }
  for (size_t i = 0; i < layers.size(); ++i) {
    const auto tied = layers[i]->tied_layer();
    if (!tied) continue;
    if (*tied >= layers.size() || layers[*tied]->type() != "Embedding") {
      return make_error(ErrorCode::kInvalidArgument,
                        fmt::format("layer {} ({}) takes the weight of layer {}, which is no Embedding", i,
                                    layers[i]->type(), *tied));
    }
    layers[i]->bind_tied(parts[*tied].front());
  }
  return {};
}

Result<std::unique_ptr<Sequential>> Sequential::make(std::vector<LayerPtr> layers, const SequentialOptions& options) {
  return guarded([&]() -> Result<std::unique_ptr<Sequential>> {
    std::unique_ptr<Sequential> model(new Sequential(std::move(layers)));
    BALLAST_CHECK(model->allocate(options));
    BALLAST_CHECK(model->bind_layers());
    return model;
  });
}

Status Sequential::allocate(const SequentialOptions& options) {
  memory_ = std::make_shared<TrainedParams>();
  for (size_t i = 0; i < layers_.size(); ++i) {
    for (const LayerTensor& tensor : layers_[i]->tensors()) {
      TensorInfo info;
      info.name = layer_prefix(i) + tensor.key;
      info.shape = tensor.shape;
      info.dtype = options.dtype_of ? options.dtype_of(info.name, options.dtype) : options.dtype;
      info.requires_grad = tensor.trained;
      BALLAST_TRY(const size_t index, memory_->add(info));
      BALLAST_CHECK(initialize(memory_->bytes(index), memory_->params()[index], tensor.initial, options.seed));
    }
  }
  return {};
}

Status Sequential::bind_layers() {
  BALLAST_TRY(store_, ParamStore::open(memory_));
  tensors_.clear();
  parameters_.clear();
  for (size_t i = 0; i < layers_.size(); ++i) {
    for (const LayerTensor& tensor : layers_[i]->tensors()) {
      BALLAST_TRY(const Param param, store_->get(layer_prefix(i) + tensor.key));
      tensors_.push_back(param);
      if (tensor.trained) parameters_.push_back(param);
    }
  }
  return bind_all(layers_, tensors_);
}

Result<Tensor> Sequential::forward(Context& context, const Tensor& x) {
  return guarded([&]() -> Result<Tensor> {
    Pass pass{context, training_, memory_.get()};
    BALLAST_TRY(const Value y, run_layers(pass, layers_, Value{x}));
    return as_given(context, y);
  });
}

Result<Tensor> Sequential::run(const Tensor& x) {
  if (execution_ == nullptr) {
    BALLAST_TRY(execution_, Execution::open(default_backend(true)));  // it may be trained next
  }
  return forward(execution_->context(), x);
}

void Sequential::track(ParamGradients& gradients) const {
  for (const Param& param : parameters_) gradients.train(param);
}

StateDict Sequential::state_dict() const {
  StateDict state;
  for (const Param& param : tensors_) state.push_back({param.info(), memory_->bytes(param.index())});
  return state;
}

std::vector<StateTensor> Sequential::parameter_tensors() {
  std::vector<StateTensor> tensors;
  for (const Param& param : parameters_) tensors.push_back({param.info(), memory_->bytes(param.index())});
  return tensors;
}

Result<StateReport> Sequential::load_state_dict(const StateDict& state, const StateOptions& options) {
  return guarded([&] { return load_tensors(tensors_, *memory_, state, options); });
}

Status Sequential::to(DType dtype) {
  return guarded([&]() -> Status {
    if (!can_cast(DType::kF32, dtype)) {
      return make_error(ErrorCode::kInvalidArgument, fmt::format("a model cannot be of type {}", dtype_name(dtype)));
    }
    auto memory = std::make_shared<TrainedParams>();
    for (const Param& param : tensors_) {
      TensorInfo info = param.info();
      info.dtype = dtype;
      BALLAST_TRY(const size_t index, memory->add(info));
      BALLAST_TRY([[maybe_unused]] const CastReport report,
                  cast_elements(param.dtype(), memory_->bytes(param.index()), dtype, memory->bytes(index)));
    }
    store_.reset();
    memory_ = std::move(memory);
    return bind_layers();
  });
}

Result<std::unique_ptr<Sequential>> build_sequential(std::string_view config, const SequentialOptions& options,
                                                     const LayerTable& table) {
  return guarded([&]() -> Result<std::unique_ptr<Sequential>> {
    BALLAST_TRY(std::vector<LayerPtr> layers, table.build_all(config, "the model's layers"));
    return Sequential::make(std::move(layers), options);
  });
}

Result<std::unique_ptr<Sequential>> build_mlp(std::span<const uint64_t> sizes, const MlpOptions& mlp,
                                              const SequentialOptions& options) {
  if (sizes.size() < 2) {
    return make_error(ErrorCode::kInvalidArgument,
                      fmt::format("an MLP needs at least 2 sizes, and {} is given", sizes.size()));
  }
  std::vector<std::string> entries;
  if (mlp.flatten) entries.push_back(R"({"type": "Flatten", "args": {}})");
  for (size_t i = 0; i + 1 < sizes.size(); ++i) {
    entries.push_back(
        fmt::format(R"({{"type": "Linear", "args": {{"in_features": {}, "out_features": {}, "bias": {}}}}})", sizes[i],
                    sizes[i + 1], mlp.bias));
    if (i + 2 == sizes.size()) break;
    entries.push_back(fmt::format(R"({{"type": "{}", "args": {{}}}})", mlp.activation));
    if (mlp.dropout != 0) {
      entries.push_back(fmt::format(R"({{"type": "Dropout", "args": {{"p": {}}}}})", python_real(mlp.dropout)));
    }
  }
  return build_sequential(fmt::format("[{}]", fmt::join(entries, ", ")), options);
}

}  // namespace ballast::nn
