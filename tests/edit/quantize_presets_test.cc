#include "ballast/edit/quantize_presets.h"

#include <gmock/gmock.h>

#include <map>

namespace ballast::testing {
namespace {

using ::testing::AllOf;
using ::testing::Each;
using ::testing::HasSubstr;

constexpr uint64_t kLayers = 16;

struct Naming {
  std::string layer, value, key, attention_output, up, down, embedding, output;
};
const Naming kGguf = {"blk.",           ".attn_v.weight",   ".attn_k.weight",    ".attn_output.weight",
                      ".ffn_up.weight", ".ffn_down.weight", "token_embd.weight", "output.weight"};
const Naming kHuggingFace = {
    "model.layers.",       ".self_attn.v_proj.weight", ".self_attn.k_proj.weight",  ".self_attn.o_proj.weight",
    ".mlp.up_proj.weight", ".mlp.down_proj.weight",    "model.embed_tokens.weight", "lm_head.weight"};
const Naming kGptrs = {"blocks.",
                       ".attention.w_qkv",
                       ".attention.w_k",
                       ".attention.w_out",
                       ".feed_forward.w_in",
                       ".feed_forward.w_out",
                       "tok_embeddings.weight",
                       "lm_head"};

TensorInfo matrix(std::string name, const Shape& shape) {
  TensorInfo info;
  info.name = std::move(name);
  info.shape = shape;
  return info;
}

// `heads_per_key` query heads to a key.
Description model_of(const Naming& naming, uint64_t heads_per_key = 1, bool has_output = true) {
  Description model;
  model.tensors.push_back(matrix(naming.embedding, {100, 256}));
  for (uint64_t i = 0; i < kLayers; ++i) {
    const std::string layer = naming.layer + std::to_string(i);
    for (const std::string& part : {naming.value, naming.key}) {
      model.tensors.push_back(matrix(layer + part, {256 / heads_per_key, 256}));
    }
    for (const std::string& part : {naming.attention_output, naming.up, naming.down}) {
      model.tensors.push_back(matrix(layer + part, {256, 256}));
    }
  }
  if (has_output) model.tensors.push_back(matrix(naming.output, {100, 256}));
  return model;
}

DType type_in(const Description& model, std::string_view preset, const std::string& name, bool calibrated = false) {
  const auto mixture = QuantizationMixture::make(**find_quantization_preset(preset), model, calibrated);
  EXPECT_TRUE(mixture) << mixture.error().message;
  const auto type = mixture->type_of(name);
  EXPECT_TRUE(type) << type.error().message;
  return *type;
}

// The type of a part in each layer, as a letter: its bits.
std::string bits_of(const Description& model, std::string_view preset, const Naming& naming, const std::string& part) {
  std::string bits;
  for (uint64_t i = 0; i < kLayers; ++i) {
    bits += dtype_name(type_in(model, preset, naming.layer + std::to_string(i) + part)).at(1);
  }
  return bits;
}

TEST(QuantizationPresets, MixturesAreThoseOfLlamaCppWhateverTheNamesOfTheModel) {
  struct Row {
    std::string_view preset;
    std::string value, attention_output, down, up;
    DType output;
  };
  const std::string all2(kLayers, '2'), all3(kLayers, '3'), all4(kLayers, '4'), all5(kLayers, '5'), all6(kLayers, '6');
  const std::string all8(kLayers, '8');
  // What llama.cpp's rules give for 16 layers without shared keys: the first two, the last two, and every third
  // between.
  const std::string four_or_six = "6644644644644666", five_or_six = "6655655655655666";
  const Row rows[] = {
      {"q2_k", all3, all3, all3, all2, DType::kQ6K},
      {"q3_k_s", all3, all3, all3, all3, DType::kQ6K},
      {"q3_k_m", "5544444444444444", all4, "5444444444444444", all3, DType::kQ6K},
      {"q3_k_l", all5, all5, all5, all3, DType::kQ6K},
      {"q4_0", all4, all4, all4, all4, DType::kQ6K},
      {"q4_k_s", "5555444444444444", all4, "5544444444444444", all4, DType::kQ6K},
      {"q4_k_m", four_or_six, all4, four_or_six, all4, DType::kQ6K},
      {"q5_k_s", all5, all5, all5, all5, DType::kQ6K},
      {"q5_k_m", five_or_six, all5, five_or_six, all5, DType::kQ6K},
      {"q6_k", all6, all6, all6, all6, DType::kQ6K},
      {"q8_0", all8, all8, all8, all8, DType::kQ8_0},
  };
  for (const Naming& naming : {kGguf, kHuggingFace, kGptrs}) {
    const Description model = model_of(naming);
    for (const Row& row : rows) {
      SCOPED_TRACE(std::string(row.preset) + " " + naming.embedding);
      EXPECT_EQ(bits_of(model, row.preset, naming, naming.value), row.value);
      EXPECT_EQ(bits_of(model, row.preset, naming, naming.attention_output), row.attention_output);
      EXPECT_EQ(bits_of(model, row.preset, naming, naming.down), row.down);
      EXPECT_EQ(bits_of(model, row.preset, naming, naming.up), row.up);
      EXPECT_EQ(type_in(model, row.preset, naming.output), row.output);
      EXPECT_EQ(type_in(model, row.preset, naming.embedding), (*find_quantization_preset(row.preset))->base);
    }
  }
}

TEST(QuantizationPresets, AModelWithoutAnOutputMatrixGetsItsTypeInTheEmbedding) {
  for (const Naming& naming : {kGguf, kHuggingFace}) {
    EXPECT_EQ(type_in(model_of(naming, 1, false), "q4_k_m", naming.embedding), DType::kQ6K);
  }
}

TEST(QuantizationPresets, SharedKeysGetMoreBitsInQ2K) {
  EXPECT_EQ(type_in(model_of(kGguf, 4), "q2_k", "blk.3.attn_v.weight"), DType::kQ4K);
  EXPECT_EQ(type_in(model_of(kHuggingFace, 2), "q2_k", "model.layers.3.self_attn.v_proj.weight"), DType::kQ3K);
}

TEST(QuantizationPresets, EightExpertsGetAFinerAttention) {
  Description model = model_of(kGguf);
  model.tensors.push_back(matrix("blk.0.ffn_down_exps.weight", {8, 256, 256}));
  EXPECT_EQ(type_in(model, "q4_k_m", "blk.3.attn_k.weight"), DType::kQ8_0);
  EXPECT_EQ(type_in(model, "q4_k_m", "blk.3.attn_v.weight"), DType::kQ8_0);
  EXPECT_EQ(type_in(model, "q4_k_m", "blk.3.attn_output.weight"), DType::kQ5K);
  Description folder = model_of(kHuggingFace);
  folder.tensors.push_back(matrix("model.layers.0.block_sparse_moe.experts.7.w2.weight", {256, 256}));
  EXPECT_EQ(type_in(folder, "q4_k_m", "model.layers.3.self_attn.k_proj.weight"), DType::kQ8_0);
}

TEST(QuantizationPresets, CalibratedFourBitsGuardTheFirstFeedForwardOutputs) {
  const Description model = model_of(kGguf);
  EXPECT_EQ(type_in(model, "q4_0", "blk.1.ffn_down.weight", true), DType::kQ4_1);
  EXPECT_EQ(type_in(model, "q4_0", "blk.2.ffn_down.weight", true), DType::kQ4_0);
  EXPECT_EQ(type_in(model, "q5_0", "blk.1.ffn_down.weight", true), DType::kQ5_1);
}

TEST(QuantizationPresets, NamesAreTakenInAnyCaseAndUnknownOnesNameTheNearest) {
  EXPECT_EQ((*find_quantization_preset("Q5_K_m"))->name, "q5_k_m");
  EXPECT_EQ((*find_quantization_preset("Q3_K"))->name, "q3_k_m");
  const auto unknown = find_quantization_preset("q6_km");
  ASSERT_FALSE(unknown);
  EXPECT_THAT(unknown.error().message,
              AllOf(HasSubstr("unknown type \"q6_km\", did you mean q6_k?"), HasSubstr("q2_k, q3_k_s")));
}

TEST(QuantizationPresets, FloatingPresetsAreOneTypeThroughout) {
  const Description model = model_of(kGguf);
  EXPECT_EQ(type_in(model, "bf16", "output.weight"), DType::kBF16);
  EXPECT_THAT(bits_of(model, "f16", kGguf, kGguf.value), Each('1'));
}

}  // namespace
}  // namespace ballast::testing
