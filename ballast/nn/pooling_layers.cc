#include <fmt/format.h>

#include "ballast/nn/parts.h"
#include "ballast/nn/rows.h"

namespace ballast::nn {

namespace {

class Pool2d final : public Layer {
 public:
  enum class Kind : uint8_t { kMax, kMean };
  Pool2d(Kind kind, uint64_t window, uint64_t stride) : kind_(kind) {
    params_.window_h = params_.window_w = window;
    params_.stride_h = params_.stride_w = stride;
  }
  static Result<LayerPtr> build_max(const LayerArgs& args, const LayerTable&) {
    return LayerPtr(std::make_unique<Pool2d>(Kind::kMax, args.count("kernel_size"), args.count("stride")));
  }
  static Result<LayerPtr> build_mean(const LayerArgs& args, const LayerTable&) {
    const uint64_t window = args.count("kernel_size");
    const uint64_t stride = args.optional_count("stride").value_or(window);
    if (stride == 0) return args.error("\"stride\" must be above 0");
    return LayerPtr(std::make_unique<Pool2d>(Kind::kMean, window, stride));
  }
  Order order() const override { return Order::kChannelsLast; }
  Result<Value> forward(Pass& pass, const Value& x) const override {
    if (!x.channels_last) return wrong_input(*this, x.tensor, "images [n, channels, height, width]");
    BALLAST_TRY(Tensor y, kind_ == Kind::kMax ? ops::max_pool2d_nhwc(pass.context, x.tensor, params_)
                                              : ops::avg_pool2d_nhwc(pass.context, x.tensor, params_));
    return Value{std::move(y), true};
  }

 private:
  Kind kind_;
  ops::PoolParams params_;
};

// One mean per channel: [n, c, 1, 1].
class GlobalMeanPool2d final : public Layer {
 public:
  static Result<LayerPtr> build(const LayerArgs&, const LayerTable&) {
    return LayerPtr(std::make_unique<GlobalMeanPool2d>());
  }
  static Result<LayerPtr> build_adaptive(const LayerArgs& args, const LayerTable& table) {
    if (args.count("output_size") != 1) return args.error("\"output_size\" can only be 1, as in netcl");
    return build(args, table);
  }
  Order order() const override { return Order::kChannelsLast; }
  Result<Value> forward(Pass& pass, const Value& x) const override {
    if (!x.channels_last) return wrong_input(*this, x.tensor, "images [n, channels, height, width]");
    BALLAST_TRY(const Tensor y, ops::global_mean_pool_nhwc(pass.context, x.tensor));
    return Value{y.reshaped({y.dims()[0], 1, 1, y.dims()[1]}), true};
  }
};

}  // namespace

void add_pooling_layers(std::vector<LayerType>& rows) {
  rows.push_back({.name = "MaxPool2d",
                  .args = {{"kernel_size", ArgKind::kCount, "2"}, {"stride", ArgKind::kCount, "2"}},
                  .build = Pool2d::build_max,
                  .netcl_saves = true,
                  .ignores_unknown = true});
  rows.push_back({.name = "AvgPool2d",
                  .args = {{"kernel_size", ArgKind::kCount, "2"}, {"stride", ArgKind::kOptionalCount, "null"}},
                  .build = Pool2d::build_mean});
  rows.push_back({.name = "GlobalAvgPool2d", .build = GlobalMeanPool2d::build});
  rows.push_back({.name = "AdaptiveAvgPool2d",
                  .args = {{"output_size", ArgKind::kCount, "1"}},
                  .build = GlobalMeanPool2d::build_adaptive});
}

}  // namespace ballast::nn
