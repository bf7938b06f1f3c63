// Layers one after the other, as netcl's files and ours describe them.
#include "ballast/nn/sequential.h"

#include <fmt/format.h>

#include <algorithm>

#include "ballast/models/kind_config.h"
#include "ballast/models/kinds.h"
#include "ballast/models/token_input.h"
#include "ballast/nn/about.h"

namespace ballast {

namespace {

using nn::LayerPtr;

// A side of the square images that layers take, and how many channels these have.
struct ImageSize {
  uint64_t channels = 0, side = 0;
};

uint64_t arg(const nn::Layer& layer, std::string_view name, uint64_t otherwise) {
  const auto reader = parse_kind_config("sequential", layer.args());
  const auto value = reader ? reader->count_or(name, otherwise) : Result<uint64_t>(otherwise);
  return value ? *value : otherwise;
}

// What becomes of [c, side, side] on its way through the layers.
struct ImageWalk {
  uint64_t channels = 0, side = 0;

  void window(uint64_t kernel, uint64_t stride, uint64_t pad, uint64_t dilation) {
    const uint64_t reach = dilation * (kernel - 1) + 1;
    side = side + 2 * pad < reach || stride == 0 ? 0 : (side + 2 * pad - reach) / stride + 1;
  }
  void step(const nn::Layer& layer) {
    const std::string& type = layer.type();
    const uint64_t kernel = arg(layer, "kernel_size", 2), pad = arg(layer, "pad", 0);
    if (type == "Conv2d") {
      window(kernel, arg(layer, "stride", 1), pad, arg(layer, "dilation", 1));
      channels = arg(layer, "out_channels", 1);
    } else if (type == "DepthwiseConv2d") {
      window(kernel, arg(layer, "stride", 1), pad, 1);
    } else if (type == "MaxPool2d") {
      window(kernel, arg(layer, "stride", 2), 0, 1);
    } else if (type == "AvgPool2d") {
      window(kernel, arg(layer, "stride", kernel), 0, 1);
    } else if (type == "Upsample") {
      side *= arg(layer, "scale_factor", 1);
    }
  }
};

bool is_any(const LayerPtr& layer, std::initializer_list<std::string_view> types) {
  return std::ranges::find(types, layer->type()) != types.end();
}

// The smallest image of which as many values arrive at the first linear map as that takes. A model without convolutions
// takes images of one channel; one that averages over all positions takes any size.
std::optional<ImageSize> find_image_size(std::span<const LayerPtr> layers) {
  constexpr uint64_t kLargest = 1024, kUsual = 224;
  const auto conv = std::ranges::find_if(layers, [](const LayerPtr& layer) { return is_any(layer, {"Conv2d"}); });
  const auto linear = std::ranges::find_if(layers, [](const LayerPtr& layer) { return is_any(layer, {"Linear"}); });
  const uint64_t channels = conv < linear ? arg(**conv, "in_channels", 1) : 1;
  const std::span<const LayerPtr> before(layers.begin(), linear);
  const auto stops = [](const LayerPtr& layer) { return is_any(layer, {"Sequential", "Embedding"}); };
  if (std::ranges::any_of(before, stops)) return std::nullopt;
  const auto averages = [](const LayerPtr& layer) { return is_any(layer, {"GlobalAvgPool2d", "AdaptiveAvgPool2d"}); };
  const bool any_size = std::ranges::any_of(before, averages) || linear == layers.end();
  if (any_size) return conv < linear ? std::optional(ImageSize{channels, kUsual}) : std::nullopt;
  const uint64_t wanted = arg(**linear, "in_features", 0);
  for (uint64_t side = 1; side <= kLargest; ++side) {
    ImageWalk walk{channels, side};
    for (const LayerPtr& layer : before) {
      if (walk.side != 0) walk.step(*layer);
    }
    if (walk.channels * walk.side * walk.side == wanted) return ImageSize{channels, side};
  }
  return std::nullopt;
}

// The stored size of its images, where the model was trained on something of known form. Values that are no square
// pictures are none, whatever their number.
struct StoredInput {
  bool known = false;
  std::optional<ImageSize> image;
  std::optional<float> divide_by;
};

StoredInput stored_input(const nn::About& about) {
  StoredInput stored;
  if (!about.input) return stored;
  stored.known = true;
  const std::vector<uint64_t>& shape = about.input->shape;
  const bool square = shape.size() == 3 && shape[1] == shape[2] && shape[1] != 0;
  if (square && (shape[0] == 1 || shape[0] == 3)) stored.image = ImageSize{shape[0], shape[1]};
  if (about.input->divide_by) stored.divide_by = static_cast<float>(*about.input->divide_by);
  return stored;
}

// {"layers", "separator", "about"}
Result<nn::LayerListing> parse_own_listing(std::string_view config) {
  BALLAST_TRY(const JsonObject fields, parse_kind_config("sequential", config));
  const auto layers = fields.find("layers");
  if (!layers) return fields.error("layers", "must be a list of layers");
  BALLAST_TRY(const std::string separator, fields.text_or("separator", "."));
  if (separator.size() != 1) return fields.error("separator", "must be one character");
  nn::LayerListing listing;
  listing.layers = *layers;
  listing.separator = separator.front();
  listing.about = fields.find("about").value_or("");
  return listing;
}

class SequentialModel final : public Model, public ImageClassifier, public LayeredModel {
 public:
  static Result<std::unique_ptr<Model>> build(const KindConfig& config, ParamLoader& params) {
    const bool is_listed = config.words == KindConfig::Words::kLayers;
    BALLAST_TRY(const nn::LayerListing listing,
                is_listed ? Result<nn::LayerListing>(config.layers) : parse_own_listing(config.text));
    auto model = std::make_unique<SequentialModel>();
    BALLAST_TRY(model->layers_, nn::LayerTable().build_all(listing.layers, "the model's layers"));
    BALLAST_CHECK(model->take_params(params, listing.separator));
    BALLAST_TRY(nn::About about, nn::parse_about(listing.about));
    const StoredInput input = stored_input(about);
    model->image_ = input.known ? input.image : find_image_size(model->layers_);
    model->divide_by_ = input.divide_by;
    if (about.input) model->input_shape_ = std::move(about.input->shape);
    model->class_names_ = std::move(about.classes);
    for (const LayerPtr& layer : model->layers_) {
      if (layer->type() == "Linear") model->classes_ = arg(*layer, "out_features", 0);
    }
    return std::unique_ptr<Model>(std::move(model));
  }

  std::string_view kind() const override { return "sequential"; }
  const ImageClassifier* as_image_classifier() const override { return image_ ? this : nullptr; }
  uint64_t channels() const override { return image_->channels; }
  uint64_t image_size() const override { return image_->side; }
  uint64_t classes() const override { return classes_; }
  std::span<const std::string> labels() const override { return class_names_; }
  std::span<const std::string> class_names() const override { return class_names_; }
  bool takes_values() const override { return true; }
  ImageRecipe recipe() const override {
    // As the data of small models come: values from 0 to 1, the whole picture.
    return {
        .mean = {0, 0, 0}, .deviation = {1, 1, 1}, .channels = image_->channels, .cut = false, .divide_by = divide_by_};
  }

  const LayeredModel* as_layered() const override { return this; }
  std::span<const LayerPtr> layers() const override { return layers_; }
  std::optional<std::vector<uint64_t>> input_shape() const override {
    if (!input_shape_.empty()) return input_shape_;
    if (!layers_.empty() && layers_.front()->type() == "Linear") return {{arg(*layers_.front(), "in_features", 0)}};
    if (image_) return {{image_->channels, image_->side, image_->side}};
    return std::nullopt;
  }
  Result<Tensor> forward_watched(Context& context, const Tensor& x, const Watch& watch) const override {
    nn::Pass pass{.context = context};
    pass.watch = [&](size_t layer, const nn::Value& y) -> Status {
      BALLAST_TRY(const Tensor shown, nn::as_given(context, y));
      return watch(layer, shown);
    };
    return run(pass, x);
  }

  Result<ModelOutput> forward(Context& context, const ModelInput& input) const override {
    if (const auto* tokens = std::get_if<TokenInput>(&input)) {
      static_assert(sizeof(TokenId) == sizeof(uint32_t));
      BALLAST_TRY(const Tensor ids, context.workspace().from_bytes(std::as_bytes(std::span(tokens->ids)),
                                                                   {1, tokens->ids.size()}, DType::kU32));
      return run(context, ids);
    }
    if (const auto* image = std::get_if<ImageInput>(&input)) return classify(context, image->pixels);
    return run(context, std::get<ValuesInput>(input).values);
  }
  // Models of linear maps alone take the pixels as one row.
  Result<Tensor> classify(Context& context, const Tensor& pixels) const override {
    const bool flat = !layers_.empty() && layers_.front()->type() == "Linear" && pixels.dims().rank() == 4;
    if (!flat || pixels.count() == 0) return run(context, pixels);
    return run(context, pixels.reshaped({pixels.dims()[0], pixels.count() / pixels.dims()[0]}));
  }

 private:
  Result<Tensor> run(Context& context, const Tensor& x) const {
    nn::Pass pass{.context = context};
    return run(pass, x);
  }
  Result<Tensor> run(nn::Pass& pass, const Tensor& x) const {
    BALLAST_TRY(const nn::Value y, nn::run_layers(pass, layers_, nn::Value{x}));
    return nn::as_given(pass.context, y);
  }
  Status take_params(ParamLoader& params, char separator) {
    std::vector<Param> taken;
    for (size_t i = 0; i < layers_.size(); ++i) {
      for (const nn::LayerTensor& tensor : layers_[i]->tensors()) {
        BALLAST_TRY(const Param param,
                    params.get(fmt::format("{}{}{}", i, separator, tensor.key), Dims(tensor.shape.dims())));
        taken.push_back(param);
      }
    }
    return nn::bind_all(layers_, std::move(taken));
  }

  std::vector<LayerPtr> layers_;
  std::optional<ImageSize> image_;
  std::vector<uint64_t> input_shape_;  // of one example, where the file says it
  uint64_t classes_ = 0;               // what the last linear map gives
  std::optional<float> divide_by_;
  std::vector<std::string> class_names_;
};

}  // namespace

const ModelKind kSequentialKind = {"sequential", "layers one after the other, as netcl saves them",
                                   SequentialModel::build};

}  // namespace ballast
