#include "ballast/training/trainable_layers.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <utility>

#include "ballast/device/host_values.h"
#include "ballast/nn/netcl_io.h"

namespace ballast {

namespace {

// The dimensions of a batch: the number of examples before those of one.
Dims batch_dims(uint64_t examples, const Shape& shape) {
  std::array<uint64_t, Dims::kMaxRank> dims{};
  dims[0] = examples;
  std::ranges::copy(shape.dims(), dims.begin() + 1);
  return Dims(std::span<const uint64_t>(dims.data(), shape.rank() + 1));
}

template <typename T>
Result<Tensor> batch_tensor(Context& context, std::span<const T> values, uint64_t examples, const Shape& shape,
                            DType dtype) {
  return context.workspace().from_bytes(std::as_bytes(values), batch_dims(examples, shape), dtype);
}

// Rows whose largest value, the first of several, is the label's.
Result<uint64_t> count_correct(const Tensor& predictions, std::span<const uint32_t> labels) {
  BALLAST_TRY(const auto all, HostValues<float>::of(predictions));
  const uint64_t classes = predictions.dims().back();
  uint64_t correct = 0;
  for (size_t row = 0; row < labels.size(); ++row) {
    const float* values = all.data() + row * classes;
    correct += static_cast<uint64_t>(std::max_element(values, values + classes) - values) == labels[row] ? 1 : 0;
  }
  return correct;
}

class LayersTrainable final : public Trainable {
 public:
  LayersTrainable(std::unique_ptr<nn::Sequential> model, LossConfig loss)
      : model_(std::move(model)), loss_(std::move(loss)) {}

  TrainedParams& params() override { return model_->memory(); }
  ParamStore& store() override { return model_->store(); }
  std::vector<Param> trained() const override { return {model_->parameters().begin(), model_->parameters().end()}; }
  std::string_view item_name() const override { return images_ ? "images" : "rows"; }

  Status check_layout(const ExampleLayout& layout) const override {
    if (layout.targets == TargetKind::kNone) {
      return make_error(ErrorCode::kInvalidArgument, "the data has no targets to compare with: [data] y names them");
    }
    if (layout.feature_shape.rank() + 1 > Dims::kMaxRank || layout.target_shape.rank() + 1 > Dims::kMaxRank) {
      return make_error(ErrorCode::kInvalidArgument,
                        fmt::format("examples of shape {} have too many dimensions: a batch has at most {}",
                                    layout.feature_shape.to_string(), Dims::kMaxRank));
    }
    layout_ = layout;
    images_ = layout.feature_shape.rank() >= 2;
    return {};
  }

  Result<Loss> loss(Context& context, const Batch& batch, Mode mode) override {
    BALLAST_TRY(const Tensor x, input(context, batch));
    model_->train(mode == Mode::kTraining);
    BALLAST_TRY(const Tensor predictions, model_->forward(context, x));
    BALLAST_CHECK(check_predictions(predictions, batch.size()));
    Loss loss;
    loss.items = batch.size();
    if (layout_.targets == TargetKind::kValues) {
      BALLAST_TRY(const Tensor values,
                  batch_tensor<float>(context, batch.targets(), batch.size(), layout_.target_shape, DType::kF32));
      BALLAST_TRY(loss.value, compute_loss(context.at("loss"), loss_, predictions, {.values = &values}));
      return loss;
    }
    BALLAST_TRY(loss.value, compute_loss(context.at("loss"), loss_, predictions, {.labels = batch.target_ids()}));
    loss.has_classes = true;
    if (mode == Mode::kEvaluation) {
      BALLAST_TRY(loss.correct, count_correct(predictions, batch.target_ids()));
    }
    return loss;
  }

  std::optional<ModelConfig> model_config() const override {
    return ModelConfig{"netcl", nn::sequential_json(*model_, "netcl.single-file")};
  }

  Status check_output(const std::string& path) const override {
    if (path.ends_with(".safetensors")) return {};
    if (!path.ends_with(".netcl")) {
      return make_error(ErrorCode::kInvalidArgument,
                        fmt::format("{}: a model of layers is saved as .netcl or .safetensors", path));
    }
    const std::vector<std::string> refused = netcl_refuses();
    if (refused.empty()) return {};
    return make_error(ErrorCode::kInvalidArgument, fmt::format("{}: netcl has no such layers: {}; save as .safetensors",
                                                               path, fmt::join(refused, ", ")));
  }

  Status check_weights_format(std::string_view format) const override {
    if (format == "gptrs") {
      return make_error(ErrorCode::kInvalidArgument,
                        "weights of a sequential model cannot be kept as gptrs, which holds models of gpt.rs alone; "
                        "take safetensors, burnpack or netcl");
    }
    const std::vector<std::string> refused = netcl_refuses();
    if (format != "netcl" || refused.empty()) return {};
    return make_error(ErrorCode::kInvalidArgument,
                      fmt::format("netcl could not load these layers, so weights cannot be kept as netcl: {}; take "
                                  "safetensors or burnpack",
                                  fmt::join(refused, ", ")));
  }

  Status save(const std::string& path, std::span<const CompanionFile>, bool overwrite) const override {
    if (path.ends_with(".safetensors")) {
      BALLAST_CHECK(nn::save_safetensors(*model_, path, /*sync=*/true, overwrite));
    } else {
      BALLAST_CHECK(netcl::save_model(*model_, path, {.overwrite = overwrite}));
    }
    return {};
  }

 private:
  // Types of layers that a .netcl file cannot hold.
  std::vector<std::string> netcl_refuses() const {
    std::vector<std::string> types;
    for (const auto& layer : model_->layers()) {
      const bool known = std::ranges::find(types, layer->type()) != types.end();
      if (!layer->netcl_saves() && !known) types.push_back(layer->type());
    }
    return types;
  }

  // In words of the configuration: operations speak of tensors.
  Status check_predictions(const Tensor& predictions, uint64_t examples) const {
    const uint64_t given = examples == 0 ? 0 : predictions.count() / examples;
    const auto wrong = [&](std::string_view has, uint64_t wanted) {
      return make_error(ErrorCode::kInvalidArgument,
                        fmt::format("the model gives {} value{} for each example, but the data has {} {}: its last "
                                    "layer needs {} outputs",
                                    given, given == 1 ? "" : "s", wanted, has, wanted));
    };
    if (layout_.targets == TargetKind::kClasses && given < layout_.classes) return wrong("classes", layout_.classes);
    if (layout_.targets == TargetKind::kValues && given != layout_.target_count())
      return wrong("target values", layout_.target_count());
    return {};
  }

  Result<Tensor> input(Context& context, const Batch& batch) const {
    if (layout_.features == FeatureKind::kTokens) {
      return batch_tensor<uint32_t>(context, batch.feature_ids(), batch.size(), layout_.feature_shape, DType::kU32);
    }
    return batch_tensor<float>(context, batch.features(), batch.size(), layout_.feature_shape, DType::kF32);
  }

  std::unique_ptr<nn::Sequential> model_;
  LossConfig loss_;
  mutable ExampleLayout layout_;
  mutable bool images_ = false;
};

}  // namespace

Result<std::unique_ptr<Trainable>> make_layers_trainable(std::unique_ptr<nn::Sequential> model,
                                                         const LossConfig& loss) {
  BALLAST_CHECK(check_loss(loss));
  if (loss.reduction == "none") {
    return make_error(ErrorCode::kInvalidArgument, "a loss to train with is one number: its reduction is mean or sum");
  }
  return std::unique_ptr<Trainable>(std::make_unique<LayersTrainable>(std::move(model), loss));
}

}  // namespace ballast
