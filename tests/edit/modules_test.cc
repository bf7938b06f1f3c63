#include "ballast/edit/modules.h"

#include <gmock/gmock.h>

#include "tests/edit/plans.h"

namespace ballast::testing {
namespace {

struct Case {
  std::string name;
  Shape shape;
};

// The guess for the first tensor.
ModuleGuess guess(const std::vector<Case>& tensors, LinearLayout layout = LinearLayout::kOutIn,
                  const ModuleHints& hints = {}) {
  Description description;
  for (const Case& tensor : tensors) {
    description.tensors.push_back(make_info(tensor.name, DType::kF32, tensor.shape));
  }
  const auto guesses = classify_modules(description, layout, hints);
  EXPECT_TRUE(guesses);
  return guesses ? guesses->front() : ModuleGuess{};
}

void expect_kind(const std::vector<Case>& tensors, ModuleKind kind, LinearLayout layout = LinearLayout::kOutIn) {
  const ModuleGuess found = guess(tensors, layout);
  EXPECT_EQ(module_kind_name(found.kind), module_kind_name(kind)) << tensors.front().name;
  EXPECT_FALSE(found.alternative) << tensors.front().name << ": " << found.reason;
}

TEST(Modules, NamesTellLinearFromEmbedding) {
  for (const char* name : {"layers.3.self_attn.q_proj.weight", "lm_head.weight", "mlp.fc1.weight", "w2.weight",
                           "classifier.6.weight", "embed_out.weight", "attention.wo.weight", "lora_A.weight"}) {
    expect_kind({{name, {8, 4}}}, ModuleKind::kLinear);
  }
  for (const char* name :
       {"model.embed_tokens.weight", "wte.weight", "tok_embeddings.weight", "emb.weight",
        "bert.embeddings.word_embeddings.weight", "positionEmbedding.weight", "embeddings.0.weight"}) {
    expect_kind({{name, {8, 4}}}, ModuleKind::kEmbedding);
  }
}

TEST(Modules, ABiasOfTheOutputLengthMakesAMatrixLinear) {
  expect_kind({{"0.weight", {8, 4}}, {"0.bias", {8}}}, ModuleKind::kLinear);
  expect_kind({{"time_embed.weight", {8, 4}}, {"time_embed.bias", {8}}}, ModuleKind::kLinear);
  expect_kind({{"0.weight", {4, 8}}, {"0.bias", {8}}}, ModuleKind::kLinear, LinearLayout::kInOut);
  expect_kind({{"0.weight", {4, 8}}, {"0.bias", {8}}}, ModuleKind::kLinear, LinearLayout::kUnknown);
}

TEST(Modules, AMatrixWithoutBiasAndTellingNameIsAmbiguous) {
  for (const char* name : {"0.weight", "weight", "thing.weight"}) {
    const ModuleGuess found = guess({{name, {8, 4}}});
    EXPECT_EQ(found.kind, ModuleKind::kLinear);
    EXPECT_EQ(found.alternative, ModuleKind::kEmbedding) << name;
  }
}

TEST(Modules, ABiasOfTheOtherLengthMakesSquareMatricesDoubtfulToo) {
  const Case gpt2 = {"h.0.attn.c_attn.weight", {4, 12}};
  const Case gpt2_bias = {"h.0.attn.c_attn.bias", {12}};
  const Case square = {"h.0.attn.c_proj.weight", {4, 4}};
  const Case square_bias = {"h.0.attn.c_proj.bias", {4}};
  EXPECT_TRUE(guess({gpt2, gpt2_bias, square, square_bias}).alternative);
  EXPECT_TRUE(guess({square, square_bias, gpt2, gpt2_bias}).alternative);
  EXPECT_FALSE(guess({square, square_bias}).alternative);
}

TEST(Modules, NormsAreToldByNameStatisticsOrGamma) {
  expect_kind({{"ln_f.weight", {4}}, {"ln_f.bias", {4}}}, ModuleKind::kLayerNorm);
  expect_kind({{"input_layernorm.weight", {4}}}, ModuleKind::kRmsNorm);
  expect_kind({{"x.GroupNorm_0.weight", {4}}, {"x.GroupNorm_0.bias", {4}}}, ModuleKind::kGroupNorm);
  expect_kind({{"1.weight", {4}}, {"1.bias", {4}}, {"1.running_mean", {4}}}, ModuleKind::kBatchNorm);
  expect_kind({{"1.weight", {4}}, {"1.bias", {4}}}, ModuleKind::kLayerNorm);
  expect_kind({{"any.gamma", {4}}, {"any.beta", {4}}}, ModuleKind::kLayerNorm, LinearLayout::kInOut);
  expect_kind({{"any.gamma", {4}}}, ModuleKind::kRmsNorm, LinearLayout::kInOut);
  expect_kind({{"norm.weight", {4, 4}}, {"norm.bias", {4, 4}}}, ModuleKind::kLayerNorm);
  EXPECT_EQ(guess({{"1.weight", {4}}}).alternative, ModuleKind::kOther);
}

TEST(Modules, ConvolutionsActivationsAndTheRest) {
  expect_kind({{"0.weight", {8, 4, 3, 3}}, {"0.bias", {8}}}, ModuleKind::kConv);
  expect_kind({{"act.prelu.weight", {8}}}, ModuleKind::kPRelu);
  expect_kind({{"act.alpha", {8}}}, ModuleKind::kPRelu);
  expect_kind({{"cls_token", {1, 1, 8}}}, ModuleKind::kOther);
  expect_kind({{"attn.in_proj_weight", {24, 8}}}, ModuleKind::kOther);
}

TEST(Modules, HintsDecideBeforeEverythingElse) {
  ModuleHints hints;
  hints.linear = {"^a\\."};
  hints.not_linear = {"^b\\."};
  hints.norm = {"^c\\."};
  EXPECT_EQ(guess({{"a.weight", {2, 3}}}, LinearLayout::kOutIn, hints).kind, ModuleKind::kLinear);
  EXPECT_EQ(guess({{"b.weight", {2, 3}}, {"b.bias", {2}}}, LinearLayout::kOutIn, hints).kind, ModuleKind::kOther);
  EXPECT_TRUE(is_norm(guess({{"c.weight", {2}}}, LinearLayout::kOutIn, hints).kind));
  hints.linear = {"("};
  Description empty;
  EXPECT_FALSE(classify_modules(empty, LinearLayout::kOutIn, hints));
}

TEST(Modules, ANetclConfigNamesTheLayers) {
  Description description;
  description.config = ModelConfig{
      "netcl",
      R"({"type": "Sequential", "config": [{"type": "ReLU", "args": {}}, {"type": "Linear", "args": {"in_features": 2, "out_features": 3, "bias": false}}], "version": 2, "format": "netcl.single-file"})"};
  description.tensors = {make_info("1:weight", DType::kF32, {2, 3})};
  const auto guesses = classify_modules(description, LinearLayout::kInOut);
  ASSERT_TRUE(guesses) << guesses.error().message;
  EXPECT_EQ((*guesses)[0].kind, ModuleKind::kLinear);
  EXPECT_FALSE((*guesses)[0].alternative);
}

TEST(Modules, KindsAreReadAsFrameworksSpellThem) {
  EXPECT_EQ(parse_module_kind("Conv2d"), ModuleKind::kConv);
  EXPECT_EQ(parse_module_kind("ConvTranspose1d"), ModuleKind::kConv);
  EXPECT_EQ(parse_module_kind("BatchNorm2d"), ModuleKind::kBatchNorm);
  EXPECT_EQ(parse_module_kind("RMSNorm"), ModuleKind::kRmsNorm);
  EXPECT_EQ(parse_module_kind("prelu"), ModuleKind::kPRelu);
  EXPECT_EQ(parse_module_kind("Gizmo"), std::nullopt);
}

}  // namespace
}  // namespace ballast::testing
