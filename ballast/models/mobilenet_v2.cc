// MobileNetV2 with batch norm folded into the convolutions.
#include <fmt/format.h>

#include "ballast/models/image_head.h"
#include "ballast/models/kind_config.h"
#include "ballast/models/kinds.h"
#include "ballast/models/token_input.h"

namespace ballast {

namespace {

// Inverted residual blocks: how much wider inside, channels out, how many, stride of the first.
struct MobileNetStage {
  uint64_t expansion, channels, blocks, stride;
};
constexpr MobileNetStage kMobileNetStages[] = {{1, 16, 1, 1}, {6, 24, 2, 2},  {6, 32, 3, 2}, {6, 64, 4, 2},
                                               {6, 96, 3, 1}, {6, 160, 3, 2}, {6, 320, 1, 1}};
constexpr uint64_t kMobileNetStemChannels = 32;
constexpr uint64_t kHeadChannels = 1280;

struct MobileNetBlock {
  std::optional<ConvLayer> expand;
  ConvLayer depthwise, project;
  uint64_t stride = 1;
  uint64_t hidden = 0;
  bool residual = false;
};

class MobilenetV2 final : public PictureModel {
 public:
  static Result<std::unique_ptr<Model>> build(const KindConfig& config, ParamLoader& params) {
    auto model = std::make_unique<MobilenetV2>();
    BALLAST_TRY(model->stem_, load_conv(params, "stem", kMobileNetStemChannels, 3, 3));
    uint64_t in = kMobileNetStemChannels;
    for (const MobileNetStage& stage : kMobileNetStages) {
      for (uint64_t i = 0; i < stage.blocks; ++i) {
        BALLAST_TRY(MobileNetBlock block,
                    load_block(params, model->blocks_.size(), stage, i == 0 ? stage.stride : 1, in));
        in = stage.channels;
        model->blocks_.push_back(std::move(block));
      }
    }
    BALLAST_TRY(model->last_, load_conv(params, "head", kHeadChannels, in, 1));
    BALLAST_TRY(model->head_, load_classifier(params, "classifier", kHeadChannels));
    BALLAST_TRY(model->labels_, parse_labels("mobilenet_v2", config.text, model->head_.classes));
    return std::unique_ptr<Model>(std::move(model));
  }

  std::string_view kind() const override { return "mobilenet_v2"; }

  Result<Tensor> classify(Context& context, const Tensor& pixels) const override {
    BALLAST_TRY(Tensor x, to_nhwc(context, pixels, kind()));
    BALLAST_TRY(x, conv(context.at("stem.relu6"), x, stem_, {.stride_h = 2, .stride_w = 2}, 1, Activation::kRelu6));
    for (size_t i = 0; i < blocks_.size(); ++i) {
      const Context::Scope scope(context, "blocks", i);
      BALLAST_TRY(x, run_block(context, blocks_[i], x));
    }
    BALLAST_TRY(x, conv(context.at("head.relu6"), x, last_, {}, 0, Activation::kRelu6));
    return classify_features(context, x, head_);
  }

 private:
  static Result<MobileNetBlock> load_block(ParamLoader& params, size_t index, const MobileNetStage& stage,
                                           uint64_t stride, uint64_t in) {
    const std::string name = fmt::format("blocks.{}.", index);
    MobileNetBlock block;
    block.stride = stride;
    block.hidden = in * stage.expansion;
    block.residual = stride == 1 && in == stage.channels;
    if (stage.expansion != 1) {
      BALLAST_TRY(block.expand, load_conv(params, name + "expand", block.hidden, in, 1));
    }
    BALLAST_TRY(block.depthwise, load_conv(params, name + "depthwise", block.hidden, 1, 3));
    BALLAST_TRY(block.project, load_conv(params, name + "project", stage.channels, block.hidden, 1));
    return block;
  }

  static Result<Tensor> conv(Context& context, const Tensor& x, const ConvLayer& layer, ops::Conv2dParams params,
                             uint64_t pad, Activation activation) {
    params.pad_top = params.pad_bottom = params.pad_left = params.pad_right = pad;
    params.activation = activation;
    return ops::conv2d(context, x, layer.weight, &layer.bias, params);
  }

  static Result<Tensor> run_block(Context& context, const MobileNetBlock& block, const Tensor& x) {
    Tensor inner = x;
    if (block.expand) {
      BALLAST_TRY(inner, conv(context.at("expand.relu6"), inner, *block.expand, {}, 0, Activation::kRelu6));
    }
    const ops::Conv2dParams depthwise{.stride_h = block.stride, .stride_w = block.stride, .groups = block.hidden};
    BALLAST_TRY(inner, conv(context.at("depthwise.relu6"), inner, block.depthwise, depthwise, 1, Activation::kRelu6));
    const ops::Conv2dParams project{.residual = block.residual ? &x : nullptr};
    return conv(context.at(block.residual ? "add" : "project"), inner, block.project, project, 0, Activation::kNone);
  }

  ConvLayer stem_, last_;
  std::vector<MobileNetBlock> blocks_;
};

}  // namespace

const ModelKind kMobilenetV2Kind = {"mobilenet_v2", "MobileNetV2: images, 3 x 224 x 224", MobilenetV2::build};

}  // namespace ballast
