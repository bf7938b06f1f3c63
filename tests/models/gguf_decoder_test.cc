// GGUF files as models, against what llama.cpp computed with them.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>

#include "ballast/base/json.h"
#include "ballast/engine/generator.h"
#include "ballast/models/config/decoder_config.h"
#include "tests/support/json_path.h"
#include "tests/support/read_floats.h"
#include "tests/support/recorded_models.h"
#include "tests/support/test_files.h"

namespace ballast::testing {
namespace {

using ::testing::HasSubstr;

struct GgufModel {
  std::string name, type;
  // llama.cpp looks GELU up in a table of f16 values, which moves logits of GPT-2 by up to 0.012.
  double tolerance;
};

const std::vector<GgufModel>& gguf_models() {
  static const std::vector<GgufModel> all = {
      {"tiny_llama", "f32", 1e-4},  {"tiny_llama", "f16", 1e-4},  {"tiny_llama", "bf16", 1e-4},
      {"tiny_llama", "q4_0", 1e-4}, {"tiny_llama", "q5_0", 1e-4}, {"tiny_llama", "q8_0", 1e-4},
      {"tiny_qwen2", "f32", 1e-4},  {"tiny_qwen2", "q8_0", 1e-4}, {"tiny_gpt2", "f32", 0.02},
      {"tiny_gpt2", "q4_0", 0.02},  {"tiny_gpt2", "q8_0", 0.02}};
  return all;
}

bool is_quantised(const GgufModel& model) { return model.type.starts_with("q"); }

std::string gguf_path(const GgufModel& model) {
  return test_file_path(fmt::format("gguf/tiny/{}.{}.gguf", model.name, model.type));
}

class GgufDecoder : public ::testing::TestWithParam<GgufModel> {
 protected:
  std::unique_ptr<LoadedModel> load(Numerics numerics) const {
    LoadOptions options;
    options.numerics = numerics;
    return load_or_die(gguf_path(GetParam()), options);
  }
  RecordedTensor recorded_logits(size_t run, const std::string& suffix) const {
    return recorded_tensor(fmt::format("../gguf/tiny/{}.logits.npz", GetParam().name),
                           fmt::format("{}.{}.logits{}", GetParam().type, run, suffix));
  }
  // What is recorded of one run; of files that are not in f32, with f32 arithmetic on the same weights.
  std::string recorded(size_t run, const std::string& path) const {
    static std::map<std::string, std::string> texts;
    std::string& text = texts[GetParam().name];
    if (text.empty()) text = read_text_file(test_file_path(fmt::format("gguf/tiny/{}.json", GetParam().name)));
    const std::string file = fmt::format("files/{}.{}.gguf/runs/{}", GetParam().name, GetParam().type, run);
    return json_at(text, file + path);
  }
  std::vector<TokenId> ids(size_t run, const std::string& path) const {
    const std::string list = recorded(run, path);
    JsonReader reader(list, path);
    const auto numbers = reader.read_u64_array();
    EXPECT_TRUE(numbers) << path;
    return {numbers->begin(), numbers->end()};
  }
};

INSTANTIATE_TEST_SUITE_P(Every, GgufDecoder, ::testing::ValuesIn(gguf_models()),
                         [](const auto& model) { return model.param.name + "_" + model.param.type; });

TEST_P(GgufDecoder, LogitsAreThoseOfLlamaCpp) {
  const auto model = load(Numerics::kExact);
  EXPECT_THAT(model->report().unused, ::testing::IsEmpty());
  for (size_t run = 0; run < 6; ++run) {
    const auto logits = model->forward(TokenInput{ids(run, "/ids")});
    ASSERT_TRUE(logits) << logits.error().message;
    const std::string suffix = GetParam().type == "f32" ? "" : "_f32_same_weights";
    EXPECT_LE(largest_difference(*logits, recorded_logits(run, suffix)), GetParam().tolerance) << "run " << run;
  }
}

TEST_P(GgufDecoder, GreedyTextsAreThoseOfLlamaCpp) {
  const auto model = load(Numerics::kExact);
  const std::string place = GetParam().type == "f32" ? "/greedy" : "/f32_same_weights/greedy";
  for (size_t run = 0; run < 6; ++run) {
    const auto prompt = ids(run, "/ids"), expected = ids(run, place);
    for (const bool cached : {true, false}) {
      GenerateOptions options;
      options.max_tokens = expected.size();
      options.sampling.temperature = 0;
      options.kv_cache = cached;
      auto generator = Generator::start(*model->as_causal_lm(), model->context(), prompt, options);
      ASSERT_TRUE(generator) << generator.error().message;
      while (*generator->next()) continue;
      EXPECT_THAT(generator->tokens().subspan(prompt.size()), ::testing::ElementsAreArray(expected)) << "run " << run;
    }
  }
}

// llama.cpp rounds activations to 8 bits; the default here keeps 15.
TEST_P(GgufDecoder, FastNumericsStayNearerToF32ThanLlamaCpp) {
  if (!is_quantised(GetParam())) GTEST_SKIP() << "nothing is rounded";
  const auto exact = load(Numerics::kExact), fast = load(Numerics::kFast);
  for (size_t run = 0; run < 6; ++run) {
    const TokenInput input{ids(run, "/ids")};
    const auto precise = exact->forward(input), quick = fast->forward(input);
    ASSERT_TRUE(precise && quick);
    const std::vector<float> expected = read_floats(*precise), found = read_floats(*quick);
    ASSERT_EQ(found.size(), expected.size());
    double ours = 0;
    for (size_t i = 0; i < expected.size(); ++i)
      ours = std::max(ours, std::abs(double{expected[i]} - double{found[i]}));
    const double theirs = largest_difference(*precise, recorded_logits(run, ""));
    EXPECT_LT(ours, 0.2 * theirs) << "run " << run;
  }
}

TEST(GgufDecoders, TheEndOfATextIsInTheMetadata) {
  EXPECT_THAT(load_or_die(gguf_path(gguf_models()[0]))->stop_tokens(), ::testing::ElementsAre(2));
}

struct GgufLie {
  std::string file;
  std::string word;
};

class GgufModelLie : public ::testing::TestWithParam<GgufLie> {};
INSTANTIATE_TEST_SUITE_P(Every, GgufModelLie,
                         ::testing::Values(GgufLie{"model_arch_missing", "general.architecture"},
                                           GgufLie{"model_arch_unknown", "there is no architecture"},
                                           GgufLie{"model_arch_is_int", "general.architecture"},
                                           GgufLie{"model_tensor_missing", "there is no parameter"},
                                           GgufLie{"model_tensor_shape", "attn_q"},
                                           GgufLie{"model_heads_zero", "attention.head_count"},
                                           GgufLie{"model_blocks_huge", "4294967295"},
                                           GgufLie{"model_vocab_larger", "token_embd.weight"}),
                         [](const auto& lie) { return lie.param.file; });

TEST_P(GgufModelLie, IsAnErrorThatNamesIt) {
  const std::string message = load_failure(test_file_path(fmt::format("gguf/hostile/{}.gguf", GetParam().file)));
  EXPECT_THAT(message, HasSubstr(GetParam().word));
}

// ---------------------------------------------------------------- metadata without a file

DecoderDescription describe_metadata(const std::string& architecture, const std::string& more) {
  const auto key = [&](std::string_view name, int value) {
    return fmt::format(", \"{}.{}\": {}", architecture, name, value);
  };
  std::string text = fmt::format(R"({{"general.architecture": "{}")", architecture);
  text += key("block_count", 6) + key("context_length", 64) + key("embedding_length", 32) +
          key("feed_forward_length", 16) + key("attention.head_count", 4) +
          fmt::format(", \"{}.attention.layer_norm_rms_epsilon\": 1e-6", architecture) + more + "}";
  auto description = describe_gguf(text);
  EXPECT_TRUE(description) << description.error().message;
  return description ? *description : DecoderDescription{};
}

TEST(GgufConfig, RowsThatTheConverterReorderedTurnInPairs) {
  EXPECT_EQ(describe_metadata("llama", "").rope.layout, ops::RopeLayout::kPairs);
  EXPECT_EQ(describe_metadata("smollm3", "").rope.layout, ops::RopeLayout::kPairs);
  EXPECT_EQ(describe_metadata("qwen3", "").rope.layout, ops::RopeLayout::kHalves);
}

TEST(GgufConfig, GemmaHasItsOneAddedAlready) {
  const DecoderDescription d = describe_metadata("gemma3", R"(, "gemma3.attention.sliding_window": 5)");
  EXPECT_EQ(d.norm_shift, 0);
  EXPECT_EQ(d.layers[0].window, 5U);
  EXPECT_EQ(d.layers[0].rope, DecoderLayer::Rope::kLocal);
  EXPECT_EQ(d.layers[5].window, 0U);
  EXPECT_EQ(d.layers[5].rope, DecoderLayer::Rope::kMain);
}

std::vector<uint64_t> windows_of(const DecoderDescription& d) {
  std::vector<uint64_t> windows;
  for (const DecoderLayer& layer : d.layers) windows.push_back(layer.window);
  return windows;
}

TEST(GgufConfig, WithoutAWindowEveryLayerOfGemma3TurnsAlike) {
  const DecoderDescription d = describe_metadata("gemma3", "");
  EXPECT_THAT(windows_of(d), ::testing::Each(0));
  for (const DecoderLayer& layer : d.layers) EXPECT_EQ(layer.rope, DecoderLayer::Rope::kMain);
}

TEST(GgufConfig, TheFirstFilesOfGemma2SaidNeitherWindowNorCaps) {
  const DecoderDescription d = describe_metadata("gemma2", "");
  EXPECT_THAT(windows_of(d), ::testing::ElementsAre(4096, 0, 4096, 0, 4096, 0));
  EXPECT_EQ(d.soft_cap, 50);
  EXPECT_EQ(d.logit_cap, 30);
}

TEST(GgufConfig, OfAPatternsLayersTheLastSeesEverything) {
  const auto with_pattern = [](int pattern) {
    return windows_of(describe_metadata("gemma2", fmt::format(R"(, "gemma2.attention.sliding_window": 5,
        "gemma2.attention.sliding_window_pattern": {})",
                                                              pattern)));
  };
  EXPECT_THAT(with_pattern(3), ::testing::ElementsAre(5, 5, 0, 5, 5, 0));
  EXPECT_THAT(with_pattern(1), ::testing::Each(0));
  EXPECT_THAT(with_pattern(0), ::testing::Each(5));
}

TEST(GgufConfig, AWindowIsForArchitecturesThatHaveOne) {
  EXPECT_THAT(windows_of(describe_metadata("llama", R"(, "llama.attention.sliding_window": 5)")), ::testing::Each(5));
  EXPECT_THAT(windows_of(describe_metadata("qwen2", R"(, "qwen2.attention.sliding_window": 5)")), ::testing::Each(0));
}

TEST(GgufConfig, TheFirstFilesOfQwensExpertsDidNotSayHowWideTheyAre) {
  const auto with_experts = [](const std::string& architecture) {
    return describe_metadata(architecture,
                             fmt::format(R"(, "{0}.expert_count": 4, "{0}.expert_used_count": 2)", architecture))
        .experts;
  };
  EXPECT_EQ(with_experts("qwen2moe").hidden, 8U);
  EXPECT_EQ(with_experts("qwen2moe").shared_hidden, 16U);
  EXPECT_EQ(with_experts("qwen3moe").hidden, 8U);
  EXPECT_EQ(with_experts("qwen3moe").shared_hidden, 0U);
  EXPECT_EQ(with_experts("llama").hidden, 16U);
}

TEST(GgufConfig, WeightsOfExpertsAreMadeToAddUpWhereLlamaCppDoes) {
  for (const auto& [architecture, normalise] :
       std::map<std::string, bool>{{"llama", true}, {"mistral3", true}, {"qwen2moe", false}, {"qwen3moe", true}}) {
    const DecoderDescription d = describe_metadata(
        architecture, fmt::format(R"(, "{0}.expert_count": 4, "{0}.expert_used_count": 2)", architecture));
    EXPECT_EQ(d.experts.normalise, normalise) << architecture;
  }
}

TEST(GgufConfig, RopeIsStretchedByEitherKeyAndNotByZero) {
  using Kind = ops::RopeScaling::Kind;
  const auto scaling = [](const std::string& more) { return describe_metadata("llama", more).rope.scaling; };
  EXPECT_EQ(scaling(R"(, "llama.rope.scale_linear": 4)").kind, Kind::kLinear);
  EXPECT_EQ(scaling(R"(, "llama.rope.scale_linear": 4)").factor, 4);
  EXPECT_EQ(scaling(R"(, "llama.rope.scale_linear": 4, "llama.rope.scaling.factor": 2)").factor, 2);
  EXPECT_EQ(scaling(R"(, "llama.rope.scaling.factor": 0)").kind, Kind::kNone);
  EXPECT_EQ(scaling(R"(, "llama.rope.scaling.type": "none", "llama.rope.scaling.factor": 2)").kind, Kind::kNone);
}

TEST(GgufConfig, AListOfWindowsBeatsThePattern) {
  const DecoderDescription d = describe_metadata("gemma2", R"(, "gemma2.attention.sliding_window": 5,
      "gemma2.attention.sliding_window_pattern": [0, 0, 1, 1, 0, 0])");
  EXPECT_EQ(d.layers[0].window, 0U);
  EXPECT_EQ(d.layers[2].window, 5U);
}

TEST(GgufConfig, AListOfWindowsHasAnEntryForEachLayer) {
  const auto d =
      describe_gguf(R"({"general.architecture": "gemma3", "gemma3.block_count": 3, "gemma3.context_length": 8,
      "gemma3.embedding_length": 32, "gemma3.attention.head_count": 4, "gemma3.attention.layer_norm_rms_epsilon": 1e-6,
      "gemma3.attention.sliding_window": 5, "gemma3.attention.sliding_window_pattern": [1, 0]})");
  ASSERT_FALSE(d);
  EXPECT_THAT(d.error().message, HasSubstr("has 2 entries for 3 layers"));
}

TEST(GgufConfig, HeadsThatDifferBetweenLayersAreRefused) {
  const auto d = describe_gguf(R"({"general.architecture": "llama", "llama.block_count": 2, "llama.context_length": 8,
      "llama.embedding_length": 32, "llama.attention.head_count": [4, 2]})");
  ASSERT_FALSE(d);
  EXPECT_THAT(d.error().message, HasSubstr("llama.attention.head_count"));
}

}  // namespace
}  // namespace ballast::testing
