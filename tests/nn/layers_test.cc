#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "ballast/archive/open.h"
#include "ballast/nn/netcl_io.h"
#include "ballast/nn/sequential.h"
#include "ballast/ops/tape.h"
#include "tests/support/ops_testing.h"
#include "tests/support/recorded_netcl.h"

namespace ballast::nn {
namespace {

using testing::Lab;

std::unique_ptr<Sequential> built(const std::string& config) {
  auto model = build_sequential(config, {.seed = 11});
  EXPECT_TRUE(model) << (model ? "" : model.error().message);
  return model ? std::move(*model) : nullptr;
}

// y of one layer on [1, n] values.
std::vector<double> activation(const std::string& type, const std::string& args, const std::vector<double>& x) {
  Lab lab;
  const auto model = built("[{\"type\": \"" + type + "\", \"args\": " + args + "}]");
  const auto y = model->forward(lab.context, lab.tensor(x, {1, x.size()}));
  EXPECT_TRUE(y) << (y ? "" : y.error().message);
  return y ? testing::values_of(*y) : std::vector<double>();
}

TEST(Layers, ComputeTheirActivations) {
  const std::vector<double> x = {-3, -0.5, 0, 0.5, 3};
  const auto check = [&](const char* type, const char* args, double (*f)(double)) {
    const auto y = activation(type, args, x);
    ASSERT_EQ(y.size(), x.size()) << type;
    for (size_t i = 0; i < x.size(); ++i) EXPECT_NEAR(y[i], f(x[i]), 2e-6) << type << " of " << x[i];
  };
  const auto sigmoid = [](double v) { return 1 / (1 + std::exp(-v)); };
  check("ReLU", "{}", [](double v) { return std::max(v, 0.0); });
  check("LeakyReLU", R"({"negative_slope": 0.2})", [](double v) { return v > 0 ? v : 0.2 * v; });
  check("Sigmoid", "{}", sigmoid);
  check("Tanh", "{}", [](double v) { return std::tanh(v); });
  check("SiLU", "{}", [](double v) { return v / (1 + std::exp(-v)); });
  check("GELU", "{}", [](double v) { return 0.5 * v * (1 + std::tanh(0.79788456 * (v + 0.044715 * v * v * v))); });
  check("GELU", R"({"approximate": false})", [](double v) { return 0.5 * v * (1 + std::erf(v / std::sqrt(2.0))); });
  check("ELU", R"({"alpha": 0.5})", [](double v) { return v > 0 ? v : 0.5 * (std::exp(v) - 1); });
  check("Softplus", "{}", [](double v) { return std::log1p(std::exp(v)); });
  check("HardSigmoid", "{}", [](double v) { return std::clamp(0.2 * v + 0.5, 0.0, 1.0); });
  check("HardSwish", "{}", [](double v) { return v * std::clamp(0.2 * v + 0.5, 0.0, 1.0); });
  check("HardTanh", R"({"min_val": -1, "max_val": 2})", [](double v) { return std::clamp(v, -1.0, 2.0); });
  check("PReLU", R"({"num_parameters": 5})", [](double v) { return v > 0 ? v : 0.25 * v; });
  check("Identity", "{}", [](double v) { return v; });
  const auto shares = activation("Softmax", "{}", {0, std::log(3.0)});
  EXPECT_NEAR(shares[1], 0.75, 1e-6);
}

TEST(Layers, DoNotOverflowWhereNetclDoes) { EXPECT_NEAR(activation("Softplus", "{}", {200})[0], 200, 1e-4); }

struct Shaped {
  const char* layers;
  std::vector<uint64_t> in, out;
};

class LayerShape : public ::testing::TestWithParam<Shaped> {};

// Each layer that has parameters or dimensions of its own: the shape it gives, and that training reaches all of it.
TEST_P(LayerShape, IsAsDocumentedAndEveryParameterGetsAGradient) {
  Lab lab;
  const auto model = built(GetParam().layers);
  model->train();
  ParamGradients gradients(lab.workspace);
  model->track(gradients);
  Tape tape(gradients);
  lab.context.tape = &tape;
  RandomStream random{.seed = 1};
  lab.context.random = &random;
  const Dims in(GetParam().in);
  auto values = testing::random_values(3, in.count());
  if (std::string_view(GetParam().layers).find("\"Embedding\"") != std::string_view::npos) {
    for (size_t i = 0; i < values.size(); ++i) values[i] = static_cast<double>(i % 5);
  }
  const Tensor x = lab.tensor(values, in);
  const auto y = model->forward(lab.context, x);
  ASSERT_TRUE(y) << y.error().message;
  EXPECT_EQ(y->dims(), Dims(GetParam().out));
  const auto square = ops::unary(lab.context, UnaryOp::kSquare, *y);
  ASSERT_TRUE(square) << square.error().message;
  const auto loss = ops::sum_all(lab.context, *square);
  ASSERT_TRUE(loss) << loss.error().message;
  const auto done = tape.backward(lab.context, *loss);
  ASSERT_TRUE(done) << done.error().message;
  for (const Param& param : model->parameters()) {
    const Tensor* gradient = gradients.find(param);
    ASSERT_NE(gradient, nullptr) << param.name();
    double sum = 0;
    for (const double value : testing::values_of(*gradient)) sum += std::abs(value);
    EXPECT_GT(sum, 0) << param.name();
    EXPECT_TRUE(std::isfinite(sum)) << param.name();
  }
}

INSTANTIATE_TEST_SUITE_P(
    All, LayerShape,
    ::testing::Values(
        Shaped{
            R"([{"type": "Conv2d", "args": {"in_channels": 4, "out_channels": 6, "kernel_size": 3, "stride": 2, "pad": 1, "groups": 2}}])",
            {2, 4, 7, 5},
            {2, 6, 4, 3}},
        Shaped{
            R"([{"type": "Conv2d", "args": {"in_channels": 2, "out_channels": 3, "kernel_size": 3, "dilation": 2, "pad": 1}}, {"type": "ReLU"}])",
            {1, 2, 7, 6},
            {1, 3, 5, 4}},
        Shaped{R"([{"type": "DepthwiseConv2d", "args": {"channels": 3, "kernel_size": 3, "pad": 1}}])",
               {2, 3, 5, 4},
               {2, 3, 5, 4}},
        Shaped{
            R"([{"type": "ConvTranspose2d", "args": {"in_channels": 2, "out_channels": 3, "kernel_size": 3, "stride": 2, "pad": 1}}])",
            {1, 2, 4, 3},
            {1, 3, 7, 5}},
        Shaped{R"([{"type": "BatchNorm2d", "args": {"num_features": 3}}, {"type": "LeakyReLU"}])",
               {2, 3, 4, 5},
               {2, 3, 4, 5}},
        Shaped{R"([{"type": "GroupNorm", "args": {"num_groups": 2, "num_channels": 4}}, {"type": "Sigmoid"}])",
               {2, 4, 3, 3},
               {2, 4, 3, 3}},
        Shaped{R"([{"type": "PReLU", "args": {"num_parameters": 3}}])", {2, 3, 4, 5}, {2, 3, 4, 5}},
        Shaped{
            R"([{"type": "Conv2d", "args": {"in_channels": 1, "out_channels": 2, "kernel_size": 1}}, {"type": "MaxPool2d", "args": {"kernel_size": 3, "stride": 2}}])",
            {1, 1, 7, 7},
            {1, 2, 3, 3}},
        Shaped{
            R"([{"type": "Conv2d", "args": {"in_channels": 1, "out_channels": 2, "kernel_size": 1}}, {"type": "AvgPool2d", "args": {"kernel_size": 2}}])",
            {1, 1, 6, 4},
            {1, 2, 3, 2}},
        Shaped{
            R"([{"type": "Conv2d", "args": {"in_channels": 1, "out_channels": 2, "kernel_size": 1}}, {"type": "GlobalAvgPool2d"}, {"type": "Flatten"}])",
            {3, 1, 6, 4},
            {3, 2}},
        Shaped{
            R"([{"type": "Conv2d", "args": {"in_channels": 1, "out_channels": 2, "kernel_size": 1}}, {"type": "AdaptiveAvgPool2d"}])",
            {3, 1, 6, 4},
            {3, 2, 1, 1}},
        Shaped{
            R"([{"type": "Conv2d", "args": {"in_channels": 1, "out_channels": 2, "kernel_size": 1}}, {"type": "Upsample", "args": {"scale_factor": 2, "mode": "bilinear"}}])",
            {1, 1, 3, 2},
            {1, 2, 6, 4}},
        Shaped{R"([{"type": "LayerNorm", "args": {"normalized_shape": 6}}, {"type": "Tanh"}])", {2, 3, 6}, {2, 3, 6}},
        Shaped{R"([{"type": "RMSNorm", "args": {"dim": 6}}])", {2, 3, 6}, {2, 3, 6}},
        Shaped{
            R"([{"type": "Embedding", "args": {"num_embeddings": 5, "embedding_dim": 4}}, {"type": "PositionalEmbedding", "args": {"max_len": 6, "d_model": 4}}])",
            {2, 6},
            {2, 6, 4}},
        Shaped{R"([{"type": "MultiheadAttention", "args": {"embed_dim": 8, "num_heads": 2}}])", {2, 3, 8}, {2, 3, 8}},
        Shaped{R"([{"type": "CausalSelfAttention", "args": {"embed_dim": 8, "num_heads": 2, "dropout": 0.25}}])",
               {2, 3, 8},
               {2, 3, 8}},
        Shaped{R"([{"type": "RotaryAttention", "args": {"dim": 8, "n_head": 2}}])", {2, 3, 8}, {2, 3, 8}},
        Shaped{R"([{"type": "TransformerBlock", "args": {"d_model": 8, "num_heads": 2}}])", {2, 3, 8}, {2, 3, 8}},
        Shaped{
            R"([{"type": "TransformerEncoderLayer", "args": {"d_model": 8, "nhead": 2, "dim_feedforward": 5}}, {"type": "SiLU"}])",
            {2, 3, 8},
            {2, 3, 8}},
        Shaped{R"([{"type": "SwiGLU", "args": {"dim": 6}}])", {2, 3, 6}, {2, 3, 6}},
        Shaped{R"([{"type": "DecoderBlock", "args": {"dim": 8, "n_head": 2, "hidden": 12}}])", {2, 3, 8}, {2, 3, 8}},
        Shaped{
            R"([{"type": "Dropout", "args": {"p": 0.5, "seed": 3}}, {"type": "Linear", "args": {"in_features": 9, "out_features": 4}}, {"type": "ReLU"}])",
            {5, 9},
            {5, 4}}));

TEST(Layers, DropAnotherMaskInEveryStepAlsoWithASeedOfTheirOwn) {
  Lab lab;
  RandomStream random{.seed = 1};
  lab.context.random = &random;
  const auto model = built(R"([{"type": "Dropout", "args": {"p": 0.5, "seed": 3}}])");
  model->train();
  const Tensor x = lab.tensor(std::vector<double>(64, 1), {1, 64});
  const auto mask = [&](uint64_t seed, uint64_t step) {
    random = {.seed = seed, .step = step};
    return testing::values_of(*model->forward(lab.context, x));
  };
  EXPECT_NE(mask(1, 0), mask(1, 1));
  EXPECT_EQ(mask(1, 1), mask(1, 1));  // a step that is computed again after a resume drops the same
  EXPECT_EQ(mask(1, 1), mask(2, 1));  // the layer's own seed counts, not the run's
  for (const double value : mask(1, 2)) EXPECT_TRUE(value == 0 || value == 2);
}

TEST(Layers, DecoderBlockGivesTheOutputThatNetclGave) {
  const std::string expected = testing::netcl_expectation("decoder_block_flat");
  const auto model = built(R"([{"type": "DecoderBlock", "args": {"dim": 16, "n_head": 2, "hidden": 24}}])");
  const auto archive = open_archive(testing::netcl_path("decoder_block_flat.npz"));
  ASSERT_TRUE(archive);
  std::vector<Payload> payloads;
  StateDict state;
  for (size_t i = 0; i < archive->tensors().size(); ++i) payloads.push_back(std::move(*archive->payload(i)));
  for (size_t i = 0; i < payloads.size(); ++i) {
    TensorInfo info = archive->tensors()[i];
    info.name = "0." + info.name;  // the keys of the block itself, as netcl flattens them
    state.push_back({info, payloads[i].bytes()});
  }
  const auto report = model->load_state_dict(state);
  ASSERT_TRUE(report) << report.error().message;
  Lab lab;
  const auto input = testing::recorded_array(expected, "input"),
             output = testing::recorded_array(expected, "output_eval");
  const auto y = model->forward(lab.context, *lab.workspace.from(input.values, input.dims));
  ASSERT_TRUE(y) << y.error().message;
  const auto values = testing::values_of(*y);
  ASSERT_EQ(values.size(), output.values.size());
  for (size_t i = 0; i < values.size(); ++i) EXPECT_NEAR(values[i], output.values[i], 2e-6) << i;
}

}  // namespace
}  // namespace ballast::nn
