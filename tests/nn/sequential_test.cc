#include "ballast/nn/sequential.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <numeric>

#include "tests/support/ops_testing.h"

namespace ballast::nn {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using testing::Lab;

std::unique_ptr<Sequential> built_model(std::string_view config, const SequentialOptions& options = {}) {
  auto model = build_sequential(config, options);
  EXPECT_TRUE(model) << (model ? "" : model.error().message);
  return model ? std::move(*model) : nullptr;
}

std::vector<std::string> names_of(std::span<const Param> params) {
  std::vector<std::string> names;
  for (const Param& param : params) names.push_back(param.name());
  return names;
}

Tensor run(Sequential& model, Lab& lab, const Tensor& x) {
  auto y = model.forward(lab.context, x);
  EXPECT_TRUE(y) << (y ? "" : y.error().message);
  return y ? *y : Tensor();
}

std::vector<double> counting(size_t count) {
  std::vector<double> values(count);
  std::iota(values.begin(), values.end(), 1.0);
  return values;
}

void set(Sequential& model, std::string_view name, const std::vector<float>& values) {
  const auto index = model.memory().find(name);
  ASSERT_TRUE(index) << name;
  ASSERT_EQ(model.memory().values<float>(*index).size(), values.size()) << name;
  std::ranges::copy(values, model.memory().values<float>(*index).begin());
}

TEST(Sequential, CountsEveryLayerInTheNamesOfItsTensors) {
  const auto model = built_model(R"([
    {"type": "Conv2d", "args": {"in_channels": 1, "out_channels": 2, "kernel_size": 3}},
    {"type": "BatchNorm2d", "args": {"num_features": 2}}, {"type": "ReLU"}, {"type": "Flatten", "args": null},
    {"type": "Linear", "args": {"in_features": 8, "out_features": 3}}])");
  EXPECT_THAT(names_of(model->tensors()), ElementsAre("0.weight", "0.bias", "1.gamma", "1.beta", "1.running_mean",
                                                      "1.running_var", "4.weight", "4.bias"));
  EXPECT_THAT(names_of(model->parameters()),
              ElementsAre("0.weight", "0.bias", "1.gamma", "1.beta", "4.weight", "4.bias"));
}

TEST(Sequential, WritesItsArgumentsAsNetclDoes) {
  const auto model = built_model(R"([
    {"type": "Conv2d", "args": {"kernel_size": 3, "in_channels": 1, "out_channels": 2}},
    {"type": "BatchNorm2d", "args": {"num_features": 2}}, {"type": "LeakyReLU"}, {"type": "Dropout", "args": {"p": 0.25}},
    {"type": "MaxPool2d"}, {"type": "Flatten"}, {"type": "Linear", "args": {"in_features": "8", "out_features": 3.0}}])");
  EXPECT_EQ(
      model->config_json(),
      R"([{"type": "Conv2d", "args": {"in_channels": 1, "out_channels": 2, "kernel_size": 3, "stride": 1, "pad": 0, )"
      R"("bias": true, "dilation": 1, "groups": 1}}, {"type": "BatchNorm2d", "args": {"num_features": 2, "momentum": 0.1, )"
      R"("eps": 1e-05}}, {"type": "LeakyReLU", "args": {"negative_slope": 0.01}}, {"type": "Dropout", "args": {"p": 0.25, )"
      R"("seed": null}}, {"type": "MaxPool2d", "args": {"kernel_size": 2, "stride": 2}}, {"type": "Flatten", "args": {}}, )"
      R"({"type": "Linear", "args": {"in_features": 8, "out_features": 3, "bias": true}}])");
}

TEST(Sequential, TakesImagesWithChannelsSecondAndFlattensThemSo) {
  Lab lab;
  // A convolution that copies its input keeps two channels of 2 x 3; Flatten must give channel after channel.
  const auto model = built_model(R"([{"type": "Conv2d", "args": {"in_channels": 2, "out_channels": 2, "kernel_size": 1,
    "bias": false}}, {"type": "Flatten"}])");
  set(*model, "0.weight", {1, 0, 0, 1});
  const Tensor y = run(*model, lab, lab.tensor(counting(12), {1, 2, 2, 3}));
  EXPECT_EQ(y.dims(), (Dims{1, 12}));
  EXPECT_EQ(testing::values_of(y), counting(12));
}

TEST(Sequential, GivesImagesBackWithChannelsSecond) {
  Lab lab;
  const auto model =
      built_model(R"([{"type": "MaxPool2d", "args": {"kernel_size": 1, "stride": 1}}, {"type": "ReLU"}])");
  const Tensor y = run(*model, lab, lab.tensor(counting(24), {1, 4, 2, 3}));
  EXPECT_EQ(y.dims(), (Dims{1, 4, 2, 3}));
  EXPECT_EQ(testing::values_of(y), counting(24));
}

TEST(Sequential, LeavesFourDimensionsAloneWhereNoLayerIsForImages) {
  Lab lab;
  const auto model =
      built_model(R"([{"type": "Linear", "args": {"in_features": 3, "out_features": 1, "bias": false}}])");
  set(*model, "0.weight", {1, 0, 0});
  const Tensor y = run(*model, lab, lab.tensor(counting(12), {1, 2, 2, 3}));
  EXPECT_EQ(y.dims(), (Dims{1, 2, 2, 1}));
  EXPECT_THAT(testing::values_of(y), ElementsAre(1, 4, 7, 10));
}

TEST(Sequential, ComputesReluWithItsLinearMapAlsoForThreeDimensions) {
  Lab lab;
  const auto model =
      built_model(R"([{"type": "Linear", "args": {"in_features": 2, "out_features": 2}}, {"type": "ReLU"}])");
  set(*model, "0.weight", {1, -1, 1, -1});
  set(*model, "0.bias", {0, 1});
  const Tensor y = run(*model, lab, lab.tensor({1, 1, -2, 0, 0, 0}, {1, 3, 2}));
  EXPECT_EQ(y.dims(), (Dims{1, 3, 2}));
  EXPECT_THAT(testing::values_of(y), ElementsAre(2, 0, 0, 3, 0, 1));
}

TEST(Sequential, BeginsAlikeForOneSeedAndDifferentlyForAnother) {
  const std::string_view config = R"([{"type": "Linear", "args": {"in_features": 20, "out_features": 30}}])";
  const auto bytes = [&](uint64_t seed) {
    const auto model = built_model(config, {.seed = seed});
    const auto span = model->memory().bytes(0);
    return std::vector<std::byte>(span.begin(), span.end());
  };
  EXPECT_EQ(bytes(7), bytes(7));
  EXPECT_NE(bytes(7), bytes(8));
}

struct Spread {
  double mean, deviation, largest;
};
Spread spread_of(Sequential& model, std::string_view name) {
  const auto values = model.memory().values<float>(*model.memory().find(name));
  double sum = 0, squares = 0, largest = 0;
  for (const float value : values) {
    sum += value;
    squares += static_cast<double>(value) * value;
    largest = std::max(largest, std::abs(static_cast<double>(value)));
  }
  const auto n = static_cast<double>(values.size());
  return {sum / n, std::sqrt(squares / n - sum / n * sum / n), largest};
}

TEST(Sequential, DrawsItsFirstValuesFromNetclsDistributions) {
  const auto model = built_model(R"([{"type": "Linear", "args": {"in_features": 200, "out_features": 100}},
    {"type": "Conv2d", "args": {"in_channels": 8, "out_channels": 64, "kernel_size": 5, "groups": 2}},
    {"type": "Embedding", "args": {"num_embeddings": 200, "embedding_dim": 100}}])");
  const double linear = std::sqrt(6.0 / 300), bias = std::sqrt(6.0 / 100), conv = 1 / std::sqrt(4.0 * 25);
  const Spread weight = spread_of(*model, "0.weight"), conv_weight = spread_of(*model, "1.weight"),
               normal = spread_of(*model, "2.weight");
  EXPECT_LE(weight.largest, linear);
  EXPECT_NEAR(weight.largest, linear, 0.01 * linear);
  EXPECT_NEAR(weight.deviation, linear / std::sqrt(3.0), 0.02 * linear);
  EXPECT_NEAR(spread_of(*model, "0.bias").largest, bias, 0.1 * bias);
  EXPECT_LE(conv_weight.largest, conv);
  EXPECT_NEAR(conv_weight.deviation, conv / std::sqrt(3.0), 0.03 * conv);
  EXPECT_LE(spread_of(*model, "1.bias").largest, 1.0 / 8);
  EXPECT_NEAR(normal.mean, 0, 0.03);
  EXPECT_NEAR(normal.deviation, 1, 0.03);
}

TEST(Sequential, NormalisesWithTheStatisticsOfTheBatchAndRemembersThemWhileTraining) {
  Lab lab;
  const auto model =
      built_model(R"([{"type": "BatchNorm2d", "args": {"num_features": 1, "momentum": 0.25, "eps": 0.0}}])");
  const Tensor x = lab.tensor({1, 3, 5, 7}, {1, 1, 2, 2});
  model->train();
  const Tensor y = run(*model, lab, x);
  const double deviation = std::sqrt(5.0);
  const std::vector<double> values = testing::values_of(y);
  EXPECT_NEAR(values[0], -3 / deviation, 1e-6);
  EXPECT_NEAR(values[3], 3 / deviation, 1e-6);
  EXPECT_FLOAT_EQ(model->memory().values<float>(2)[0], 0.25F * 4);
  EXPECT_FLOAT_EQ(model->memory().values<float>(3)[0], 0.75F + 0.25F * 5);  // the biased variance, as in netcl
  model->eval();
  run(*model, lab, x);
  EXPECT_FLOAT_EQ(model->memory().values<float>(2)[0], 1);  // only training remembers
}

TEST(Sequential, DropsNothingOutsideTraining) {
  Lab lab;
  const auto model = built_model(R"([{"type": "Dropout", "args": {"p": 0.5}}])");
  const Tensor x = lab.tensor(counting(6), {2, 3});
  EXPECT_EQ(testing::values_of(run(*model, lab, x)), counting(6));
}

TEST(Sequential, HasLayersInsideLayers) {
  Lab lab;
  const auto model = built_model(R"([{"type": "Sequential", "args": {"layers": [
      {"type": "Linear", "args": {"in_features": 2, "out_features": 2, "bias": false}}, {"type": "ReLU"}]}},
    {"type": "Sequential", "args": {"layers": [{"type": "Identity"}]}}])");
  EXPECT_THAT(names_of(model->tensors()), ElementsAre("0.0.weight"));
  set(*model, "0.0.weight", {1, -1, 1, -1});
  EXPECT_THAT(testing::values_of(run(*model, lab, lab.tensor({1, 2}, {1, 2}))), ElementsAre(3, 0));
}

TEST(Sequential, TiesTheOutputToTheEmbedding) {
  Lab lab;
  const auto model = built_model(R"([{"type": "Embedding", "args": {"num_embeddings": 3, "embedding_dim": 2}},
    {"type": "TiedLinear", "args": {"embedding": 0}}])");
  EXPECT_THAT(names_of(model->tensors()), ElementsAre("0.weight"));
  set(*model, "0.weight", {1, 0, 0, 1, 1, 1});
  const Tensor y = run(*model, lab, lab.tensor({2, 0}, {2}));
  EXPECT_EQ(y.dims(), (Dims{2, 3}));
  EXPECT_THAT(testing::values_of(y), ElementsAre(1, 1, 2, 1, 0, 1));
  const auto wrong = build_sequential(R"([{"type": "ReLU"}, {"type": "TiedLinear", "args": {"embedding": 0}}])");
  ASSERT_FALSE(wrong);
  EXPECT_THAT(wrong.error().message, HasSubstr("layer 0, which is no Embedding"));
}

TEST(Sequential, SaysWhichLayerAnInputDoesNotFit) {
  Lab lab;
  const auto model =
      built_model(R"([{"type": "ReLU"}, {"type": "Linear", "args": {"in_features": 4, "out_features": 2}}])");
  const auto y = model->forward(lab.context, lab.tensor({1, 2, 3}, {1, 3}));
  ASSERT_FALSE(y);
  EXPECT_EQ(y.error().code, ErrorCode::kInvalidArgument);
  EXPECT_THAT(y.error().message, HasSubstr("layer 1 (Linear)"));
  EXPECT_THAT(y.error().message, HasSubstr("[1, 3]"));
  EXPECT_THAT(y.error().message, HasSubstr("4 values in its last dimension"));
}

TEST(Sequential, SaysWhatIsWrongWithAConfig) {
  const auto message = [](std::string_view config) {
    const auto model = build_sequential(config);
    EXPECT_FALSE(model) << config;
    if (model) return std::string();
    EXPECT_EQ(model.error().code, ErrorCode::kInvalidArgument);
    return model.error().message;
  };
  EXPECT_THAT(message(R"([{"type": "Linaer"}])"), HasSubstr("did you mean \"Linear\"?"));
  EXPECT_THAT(message(R"([{"type": "Linear", "args": {"in_features": 3}}])"), HasSubstr("\"out_features\" is missing"));
  EXPECT_THAT(message(R"([{"type": "Linear", "args": {"in_features": 3, "out_feature": 1, "out_features": 2}}])"),
              HasSubstr("no argument \"out_feature\"; did you mean \"out_features\"?"));
  EXPECT_THAT(message(R"([{"type": "Linear", "args": {"in_features": -3, "out_features": 2}}])"),
              HasSubstr("\"in_features\" is -3, where a whole number above 0 is needed"));
  EXPECT_THAT(message(R"([{"args": {}}])"), HasSubstr("without \"type\""));
  EXPECT_THAT(message(R"({"type": "ReLU"})"), HasSubstr("the model's layers"));
  EXPECT_THAT(message(R"([{"type": "Dropout", "args": {"p": 1.5}}])"), HasSubstr("below 1"));
  EXPECT_THAT(
      message(R"([{"type": "Conv2d", "args": {"in_channels": 3, "out_channels": 4, "kernel_size": 1, "groups": 2}}])"),
      HasSubstr("2 groups"));
  EXPECT_THAT(message(R"([{"type": "MultiheadAttention", "args": {"embed_dim": 5, "num_heads": 2}}])"),
              HasSubstr("2 heads"));
}

TEST(Sequential, IgnoresUnknownArgumentsWhereNetclDoes) {
  EXPECT_TRUE(build_sequential(R"([{"type": "ReLU", "args": {"inplace": true}}])"));
  EXPECT_TRUE(build_sequential(R"([{"type": "Dropout", "args": {"rate": 1}}])"));
  EXPECT_FALSE(build_sequential(R"([{"type": "BatchNorm2d", "args": {"num_features": 1, "affine": true}}])"));
}

class Doubled final : public Layer {
 public:
  static Result<LayerPtr> build(const LayerArgs&, const LayerTable&) { return LayerPtr(std::make_unique<Doubled>()); }
  Result<Value> forward(Pass& pass, const Value& x) const override {
    BALLAST_TRY(Tensor y, ops::add(pass.context, x.tensor, x.tensor));
    return Value{std::move(y), x.channels_last};
  }
};

TEST(LayerTable, TakesLayersOfAnOutsideProgramBesideTheBuiltInOnes) {
  LayerTable table;
  ASSERT_TRUE(table.register_layer({.name = "Doubled", .build = Doubled::build}));
  Lab lab;
  auto model = build_sequential(R"([{"type": "Doubled"}, {"type": "ReLU"}])", {}, table);
  ASSERT_TRUE(model) << model.error().message;
  EXPECT_THAT(testing::values_of(run(**model, lab, lab.tensor({-1, 2}, {1, 2}))), ElementsAre(0, 4));
  const auto again = table.register_layer({.name = "ReLU", .build = Doubled::build});
  ASSERT_FALSE(again);
  EXPECT_THAT(again.error().message, HasSubstr("there is a layer type \"ReLU\" already"));
}

TEST(Mlp, IsBuiltFromItsSizes) {
  const std::vector<uint64_t> sizes = {784, 128, 10};
  const auto model = build_mlp(sizes, {.activation = "Tanh", .dropout = 0.5});
  ASSERT_TRUE(model);
  EXPECT_EQ(
      (*model)->config_json(),
      R"([{"type": "Linear", "args": {"in_features": 784, "out_features": 128, "bias": true}}, {"type": "Tanh", "args": {}}, )"
      R"({"type": "Dropout", "args": {"p": 0.5, "seed": null}}, {"type": "Linear", "args": {"in_features": 128, )"
      R"("out_features": 10, "bias": true}}])");
  EXPECT_FALSE(build_mlp(std::span(sizes).first(1)));
}

TEST(Sequential, MovesToAnotherTypeAndBackend) {
  const auto model = built_model(R"([{"type": "Linear", "args": {"in_features": 2, "out_features": 1}}])");
  set(*model, "0.weight", {0.5, 2});
  set(*model, "0.bias", {1});
  ASSERT_TRUE(model->to(DType::kBF16));
  EXPECT_EQ(model->parameters()[0].dtype(), DType::kBF16);
  EXPECT_EQ(model->memory().bytes(0).size(), 4U);
  for (const std::string_view name : {"reference", "cpu"}) {
    const auto device = Execution::open(name, 1);
    ASSERT_TRUE(device);
    model->to(*device);
    const auto x = (*device)->from_host(std::vector<float>{4, 3}, {1, 2});
    ASSERT_TRUE(x);
    const auto y = model->run(*x);
    ASSERT_TRUE(y) << y.error().message;
    EXPECT_EQ(*Execution::to_host(*y), std::vector<float>{9}) << name;
  }
  const auto missing = Execution::open("metal");
  ASSERT_FALSE(missing);
  EXPECT_THAT(missing.error().message,
              HasSubstr("there is no backend \"metal\"; there are: cpu, cuda, opencl, reference"));
  const auto misfit = (*Execution::open())->from_host(std::vector<float>{1}, {2});
  EXPECT_FALSE(misfit);
}

}  // namespace
}  // namespace ballast::nn
