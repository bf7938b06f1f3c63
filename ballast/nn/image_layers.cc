// Convolutions, batch norm and what else knows channels.
#include <fmt/format.h>

#include "ballast/device/host_values.h"
#include "ballast/nn/parts.h"
#include "ballast/nn/rows.h"
#include "ballast/tensor/cast.h"

namespace ballast::nn {

namespace {

Status check_image(const Layer& layer, const Value& x, uint64_t channels) {
  if (x.tensor.dims().rank() == 4 && x.tensor.dims().back() == channels) return {};
  Tensor given = x.tensor;
  if (x.channels_last) {
    const Dims& d = x.tensor.dims();
    given = given.reshaped({d[0], d[3], d[1], d[2]});
  }
  return wrong_input(layer, given, fmt::format("images [n, {}, height, width]", channels));
}

class Conv2d final : public Layer {
 public:
  struct Form {
    uint64_t in, out, kernel, stride, pad, dilation, groups;
    bool bias;
  };
  explicit Conv2d(const Form& form) : channels_(form.in) {
    const uint64_t fan_in = form.in / form.groups * form.kernel * form.kernel;
    weight_ = add_tensor("weight", {form.out, form.in / form.groups, form.kernel, form.kernel}, conv_initial(fan_in));
    if (form.bias) bias_ = add_tensor("bias", {form.out}, conv_initial(form.out));
    params_.stride_h = params_.stride_w = form.stride;
    params_.pad_top = params_.pad_bottom = params_.pad_left = params_.pad_right = form.pad;
    params_.dilation_h = params_.dilation_w = form.dilation;
    params_.groups = form.groups;
  }
  static Result<LayerPtr> build(const LayerArgs& args, const LayerTable&) {
    const Form form{args.count("in_channels"), args.count("out_channels"), args.count("kernel_size"),
                    args.count("stride"),      args.count("pad"),          args.count("dilation"),
                    args.count("groups"),      args.truth("bias")};
    if (form.in % form.groups != 0 || form.out % form.groups != 0) {
      return args.error(
          fmt::format("{} groups divide neither {} nor {} channels evenly", form.groups, form.in, form.out));
    }
    return LayerPtr(std::make_unique<Conv2d>(form));
  }
  static Result<LayerPtr> build_depthwise(const LayerArgs& args, const LayerTable&) {
    const uint64_t channels = args.count("channels");
    return LayerPtr(std::make_unique<Conv2d>(Form{channels, channels, args.count("kernel_size"), args.count("stride"),
                                                  args.count("pad"), 1, channels, args.truth("bias")}));
  }
  Order order() const override { return Order::kChannelsLast; }
  bool fuses_relu() const override { return true; }
  Result<Value> forward(Pass& pass, const Value& x) const override { return run(pass, x, Activation::kNone); }
  Result<Value> forward_relu(Pass& pass, const Value& x) const override { return run(pass, x, Activation::kRelu); }

 private:
  Result<Value> run(Pass& pass, const Value& x, Activation activation) const {
    BALLAST_CHECK(check_image(*this, x, channels_));
    ops::Conv2dParams params = params_;
    params.activation = activation;
    BALLAST_TRY(Tensor y, ops::conv2d(pass.context, x.tensor, param(weight_), find_param(bias_), params));
    return Value{std::move(y), true};
  }
  uint64_t channels_;
  size_t weight_ = kNone, bias_ = kNone;
  ops::Conv2dParams params_;
};

class ConvTranspose2d final : public Layer {
 public:
  static Result<LayerPtr> build(const LayerArgs& args, const LayerTable&) {
    auto layer = std::make_unique<ConvTranspose2d>();
    const uint64_t out = args.count("out_channels"), kernel = args.count("kernel_size");
    layer->channels_ = args.count("in_channels");
    layer->stride_ = args.count("stride");
    layer->pad_ = args.count("pad");
    // netcl counts the second dimension as what goes in, whichever way the layer runs.
    layer->weight_ =
        layer->add_tensor("weight", {layer->channels_, out, kernel, kernel}, conv_initial(out * kernel * kernel));
    if (args.truth("bias")) layer->bias_ = layer->add_tensor("bias", {out}, conv_initial(out));
    return LayerPtr(std::move(layer));
  }
  Order order() const override { return Order::kChannelsLast; }
  Result<Value> forward(Pass& pass, const Value& x) const override {
    BALLAST_CHECK(check_image(*this, x, channels_));
    BALLAST_TRY(Tensor y,
                ops::conv_transpose2d(pass.context, x.tensor, param(weight_), find_param(bias_), stride_, pad_));
    return Value{std::move(y), true};
  }

 private:
  uint64_t channels_ = 0, stride_ = 1, pad_ = 0;
  size_t weight_ = kNone, bias_ = kNone;
};

// What running statistics are kept in: f32 mostly, and whatever a file had.
Status blend(TrainedParams& memory, const Param& param, const float* batch, double momentum) {
  const MutableByteSpan bytes = memory.bytes(param.index());
  const uint64_t count = param.shape().element_count().value_or(0);
  std::vector<double> values(static_cast<size_t>(count));
  const MutableByteSpan wide(reinterpret_cast<std::byte*>(values.data()), values.size() * sizeof(double));
  BALLAST_TRY([[maybe_unused]] const CastReport widened, cast_elements(param.dtype(), bytes, DType::kF64, wide));
  // In float, as netcl does it: the numbers of its recorded runs are matched.
  const auto keep = static_cast<float>(1 - momentum), take = static_cast<float>(momentum);
  for (size_t i = 0; i < values.size(); ++i) values[i] = keep * static_cast<float>(values[i]) + take * batch[i];
  BALLAST_TRY([[maybe_unused]] const CastReport narrowed, cast_elements(DType::kF64, wide, param.dtype(), bytes));
  return {};
}

class BatchNorm2d final : public Layer {
 public:
  static Result<LayerPtr> build(const LayerArgs& args, const LayerTable&) {
    auto layer = std::make_unique<BatchNorm2d>();
    const uint64_t channels = args.count("num_features");
    layer->channels_ = channels;
    layer->momentum_ = args.real("momentum");
    layer->eps_ = static_cast<float>(args.real("eps"));
    layer->add_tensor("gamma", {channels}, Initial::constant(1));
    layer->add_tensor("beta", {channels}, Initial::constant(0));
    layer->add_tensor("running_mean", {channels}, Initial::constant(0), false);
    layer->add_tensor("running_var", {channels}, Initial::constant(1), false);
    return LayerPtr(std::move(layer));
  }
  Order order() const override { return Order::kChannelsLast; }
  Result<Value> forward(Pass& pass, const Value& x) const override {
    BALLAST_CHECK(check_image(*this, x, channels_));
    if (!pass.training) {
      BALLAST_TRY(Tensor y, ops::batch_norm(pass.context, x.tensor, param(kMean), param(kVariance), param(kGamma),
                                            param(kBeta), eps_));
      return Value{std::move(y), true};
    }
    BALLAST_TRY(const Tensor statistics, ops::batch_statistics(pass.context.at("statistics"), x.tensor));
    BALLAST_TRY(Tensor y,
                ops::batch_norm_training(pass.context, x.tensor, statistics, param(kGamma), param(kBeta), eps_));
    if (pass.memory != nullptr) BALLAST_CHECK(remember(*pass.memory, statistics));
    return Value{std::move(y), true};
  }

 private:
  static constexpr size_t kGamma = 0, kBeta = 1, kMean = 2, kVariance = 3;
  Status remember(TrainedParams& memory, const Tensor& statistics) const {
    BALLAST_TRY(const std::vector<float> batch, floats_of(statistics));
    BALLAST_CHECK(blend(memory, param(kMean), batch.data(), momentum_));
    return blend(memory, param(kVariance), batch.data() + channels_, momentum_);
  }
  uint64_t channels_ = 0;
  double momentum_ = 0.1;
  float eps_ = 0;
};

class GroupNorm final : public Layer {
 public:
  static Result<LayerPtr> build(const LayerArgs& args, const LayerTable&) {
    auto layer = std::make_unique<GroupNorm>();
    layer->groups_ = args.count("num_groups");
    layer->channels_ = args.count("num_channels");
    layer->eps_ = static_cast<float>(args.real("eps"));
    if (layer->channels_ % layer->groups_ != 0) {
      return args.error(fmt::format("{} groups do not divide {} channels evenly", layer->groups_, layer->channels_));
    }
    layer->add_tensor("gamma", {layer->channels_}, Initial::constant(1));
    layer->add_tensor("beta", {layer->channels_}, Initial::constant(0));
    return LayerPtr(std::move(layer));
  }
  Order order() const override { return Order::kChannelsLast; }
  Result<Value> forward(Pass& pass, const Value& x) const override {
    BALLAST_CHECK(check_image(*this, x, channels_));
    BALLAST_TRY(Tensor y, ops::group_norm(pass.context, x.tensor, groups_, param(0), param(1), eps_));
    return Value{std::move(y), true};
  }

 private:
  uint64_t groups_ = 1, channels_ = 1;
  float eps_ = 0;
};

class Upsample final : public Layer {
 public:
  static Result<LayerPtr> build(const LayerArgs& args, const LayerTable&) {
    auto layer = std::make_unique<Upsample>();
    layer->factor_ = args.count("scale_factor");
    const std::string mode = args.text("mode");
    if (mode != "nearest" && mode != "bilinear") return args.error("\"mode\" must be \"nearest\" or \"bilinear\"");
    if (mode == "bilinear") {
      layer->method_ =
          args.truth("align_corners") ? ops::Upsampling::kBilinearAlignedCorners : ops::Upsampling::kBilinear;
    }
    return LayerPtr(std::move(layer));
  }
  Order order() const override { return Order::kChannelsLast; }
  Result<Value> forward(Pass& pass, const Value& x) const override {
    BALLAST_TRY(Tensor y, ops::upsample2d(pass.context, x.tensor, factor_, method_));
    return Value{std::move(y), true};
  }

 private:
  uint64_t factor_ = 1;
  ops::Upsampling method_ = ops::Upsampling::kNearest;
};

}  // namespace

void add_image_layers(std::vector<LayerType>& rows) {
  constexpr auto kZero = ArgKind::kCountOrZero;
  constexpr auto kTruth = ArgKind::kTruth;
  const ArgSpec stride{"stride", ArgKind::kCount, "1"}, pad{"pad", kZero, "0"}, bias{"bias", kTruth, "true"};
  rows.push_back({.name = "Conv2d",
                  .args = {{"in_channels"},
                           {"out_channels"},
                           {"kernel_size"},
                           stride,
                           pad,
                           bias,
                           {"dilation", ArgKind::kCount, "1"},
                           {"groups", ArgKind::kCount, "1"}},
                  .build = Conv2d::build,
                  .netcl_saves = true});
  rows.push_back({.name = "BatchNorm2d",
                  .args = {{"num_features"}, {"momentum", ArgKind::kReal, "0.1"}, {"eps", ArgKind::kReal, "1e-05"}},
                  .build = BatchNorm2d::build,
                  .netcl_saves = true});
  rows.push_back({.name = "DepthwiseConv2d",
                  .args = {{"channels"}, {"kernel_size"}, stride, pad, bias},
                  .build = Conv2d::build_depthwise});
  rows.push_back({.name = "ConvTranspose2d",
                  .args = {{"in_channels"}, {"out_channels"}, {"kernel_size"}, stride, pad, bias},
                  .build = ConvTranspose2d::build});
  rows.push_back({.name = "GroupNorm",
                  .args = {{"num_groups"}, {"num_channels"}, {"eps", ArgKind::kReal, "1e-05"}},
                  .build = GroupNorm::build});
  rows.push_back(
      {.name = "Upsample",
       .args = {{"scale_factor"}, {"mode", ArgKind::kText, "\"nearest\""}, {"align_corners", kTruth, "false"}},
       .build = Upsample::build});
}

}  // namespace ballast::nn
