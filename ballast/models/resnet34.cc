// ResNet34 with batch norm folded into the convolutions.
#include <fmt/format.h>

#include "ballast/models/image_head.h"
#include "ballast/models/kind_config.h"
#include "ballast/models/kinds.h"
#include "ballast/models/token_input.h"

namespace ballast {

namespace {

struct ResNetStage {
  uint64_t channels, blocks;
};
constexpr ResNetStage kResNetStages[] = {{64, 3}, {128, 4}, {256, 6}, {512, 3}};
constexpr uint64_t kResNetStemChannels = 64;

struct ResNetBlock {
  std::string name;
  ConvLayer conv1, conv2;
  std::optional<ConvLayer> downsample;
  uint64_t stride = 1;
};

ops::Conv2dParams conv_params(uint64_t stride, uint64_t pad, Activation activation, const Tensor* residual = nullptr) {
  return {.stride_h = stride,
          .stride_w = stride,
          .pad_top = pad,
          .pad_bottom = pad,
          .pad_left = pad,
          .pad_right = pad,
          .activation = activation,
          .residual = residual};
}

class Resnet34 final : public PictureModel {
 public:
  static Result<std::unique_ptr<Model>> build(const KindConfig& config, ParamLoader& params) {
    auto model = std::make_unique<Resnet34>();
    BALLAST_TRY(model->stem_, load_conv(params, "conv1", kResNetStemChannels, 3, 7));
    uint64_t in = kResNetStemChannels;
    for (size_t s = 0; s < std::size(kResNetStages); ++s) {
      for (uint64_t b = 0; b < kResNetStages[s].blocks; ++b) {
        BALLAST_TRY(ResNetBlock block, load_block(params, s, b, in));
        in = kResNetStages[s].channels;
        model->blocks_.push_back(std::move(block));
      }
    }
    BALLAST_TRY(model->head_, load_classifier(params, "fc", in));
    BALLAST_TRY(model->labels_, parse_labels("resnet34", config.text, model->head_.classes));
    return std::unique_ptr<Model>(std::move(model));
  }

  std::string_view kind() const override { return "resnet34"; }

  Result<Tensor> classify(Context& context, const Tensor& pixels) const override {
    BALLAST_TRY(Tensor x, to_nhwc(context, pixels, kind()));
    BALLAST_TRY(
        x, ops::conv2d(context.at("stem.relu"), x, stem_.weight, &stem_.bias, conv_params(2, 3, Activation::kRelu)));
    BALLAST_TRY(x, ops::max_pool2d_nhwc(context.at("stem.maxpool"), x,
                                        {.window_h = 3,
                                         .window_w = 3,
                                         .stride_h = 2,
                                         .stride_w = 2,
                                         .pad_top = 1,
                                         .pad_bottom = 1,
                                         .pad_left = 1,
                                         .pad_right = 1}));
    for (const ResNetBlock& block : blocks_) {
      const Context::Scope scope(context, block.name);
      BALLAST_TRY(x, run_block(context, block, x));
    }
    return classify_features(context, x, head_);
  }

 private:
  static Result<ResNetBlock> load_block(ParamLoader& params, size_t stage, uint64_t index, uint64_t in) {
    const uint64_t out = kResNetStages[stage].channels;
    ResNetBlock block;
    block.name = fmt::format("layer{}.{}", stage + 1, index);
    BALLAST_TRY(block.conv1, load_conv(params, block.name + ".conv1", out, in, 3));
    BALLAST_TRY(block.conv2, load_conv(params, block.name + ".conv2", out, out, 3));
    if (stage > 0 && index == 0) {
      block.stride = 2;
      BALLAST_TRY(block.downsample, load_conv(params, block.name + ".downsample", out, in, 1));
    }
    return block;
  }

  static Result<Tensor> run_block(Context& context, const ResNetBlock& block, const Tensor& x) {
    Tensor shortcut = x;
    if (block.downsample) {
      BALLAST_TRY(shortcut, ops::conv2d(context.at("downsample"), x, block.downsample->weight, &block.downsample->bias,
                                        conv_params(block.stride, 0, Activation::kNone)));
    }
    BALLAST_TRY(const Tensor inner, ops::conv2d(context.at("relu1"), x, block.conv1.weight, &block.conv1.bias,
                                                conv_params(block.stride, 1, Activation::kRelu)));
    return ops::conv2d(context.at("relu2"), inner, block.conv2.weight, &block.conv2.bias,
                       conv_params(1, 1, Activation::kRelu, &shortcut));
  }

  ConvLayer stem_;
  std::vector<ResNetBlock> blocks_;
};

}  // namespace

const ModelKind kResnet34Kind = {"resnet34", "ResNet34: images, 3 x 224 x 224", Resnet34::build};

}  // namespace ballast
