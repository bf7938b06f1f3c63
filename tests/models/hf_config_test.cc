// config.json that lies, or says what we do not do: errors with names and numbers, before anything large is asked for.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "ballast/models/config/decoder_config.h"
#include "tests/support/recorded_decoders.h"
#include "tests/support/test_files.h"

namespace ballast::testing {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

struct Lie {
  std::string name;
  std::string decoder;
  std::string field;
  std::string value;               // JSON
  std::vector<std::string> words;  // of the error
};

// `config.json` with one field added: of two with the same name the last counts.
std::string with_field(const std::string& decoder, const std::string& field, const std::string& value) {
  std::string text = read_text_file(recorded_decoder(decoder).path + "/config.json");
  text.resize(text.find_last_of('}'));
  return fmt::format("{}, \"{}\": {}}}", text, field, value);
}

const std::vector<Lie>& lies() {
  static const std::vector<Lie> all = {
      {"wider", "llama_plain", "hidden_size", "64", {"model.embed_tokens.weight", "[128, 48]", "[128, 64]"}},
      {"wordier", "llama_plain", "vocab_size", "100000000000", {"model.embed_tokens.weight", "[128, 48]"}},
      {"deeper", "llama_plain", "num_hidden_layers", "3", {"model.layers.2.self_attn.q_proj.weight"}},
      {"bottomless", "llama_plain", "num_hidden_layers", "1000000000", {"num_hidden_layers", "1000000000"}},
      {"no_layers", "llama_plain", "num_hidden_layers", "0", {"num_hidden_layers", "0"}},
      {"no_heads", "llama_plain", "num_attention_heads", "0", {"num_attention_heads", "is 0"}},
      {"heads_do_not_divide", "llama_plain", "num_key_value_heads", "3", {"num_key_value_heads", "3", "4"}},
      {"no_key_heads", "llama_plain", "num_key_value_heads", "0", {"num_key_value_heads", "0"}},
      {"heads_of_nothing", "llama_plain", "head_dim", "0", {"4 heads of 0"}},
      {"heads_that_overflow", "llama_plain", "head_dim", "9223372036854775808", {"9223372036854775808"}},
      {"odd_rope", "llama_plain", "head_dim", "13", {"13 cannot be turned"}},
      {"fewer_heads", "llama_plain", "num_attention_heads", "8", {"q_proj.weight", "[48, 48]", "[96, 48]"}},
      {"eps_of_two", "llama_plain", "rms_norm_eps", "2", {"epsilon", "2"}},
      {"eps_text", "llama_plain", "rms_norm_eps", "\"tiny\"", {"rms_norm_eps", "not a number"}},
      {"theta_below_0", "llama_plain", "rope_theta", "-1", {"theta", "-1"}},
      {"feed_overflows", "llama_plain", "intermediate_size", "18446744073709551615", {"18446744073709551615"}},
      {"other_activation", "llama_plain", "hidden_act", "\"mish\"", {"hidden_act", "mish", "silu"}},
      {"other_rope", "llama_plain", "rope_scaling", R"({"rope_type": "mrope"})", {"mrope", "longrope"}},
      {"rope_without_factor", "llama_plain", "rope_scaling", R"({"type": "linear"})", {"factor", "missing"}},
      {"rope_factor_0", "llama_plain", "rope_scaling", R"({"type": "linear", "factor": 0})", {"factor is 0"}},
      {"llama3_upside_down",
       "llama_plain",
       "rope_scaling",
       R"({"rope_type": "llama3", "factor": 8, "low_freq_factor": 4, "high_freq_factor": 1})",
       {"low frequency", "4", "1"}},
      {"longrope_too_short",
       "phi3_longrope",
       "rope_scaling",
       R"({"type": "longrope", "short_factor": [1, 1], "long_factor": [1, 1]})",
       {"2 short factors", "12 rotary channels"}},
      {"longrope_zero",
       "phi3_longrope",
       "rope_scaling",
       R"({"type": "longrope", "short_factor": [1, 1, 0, 1, 1, 1], "long_factor": [1, 1, 1, 1, 1, 1]})",
       {"short factor is 0"}},
      {"bias_that_is_missing", "llama_plain", "attention_bias", "true", {"q_proj.bias"}},
      {"untied_without_a_head", "smollm2", "tie_word_embeddings", "false", {"lm_head.weight"}},
      {"more_used_than_there_are", "mixtral", "num_experts_per_tok", "5", {"5 of 4 experts"}},
      {"none_used", "mixtral", "num_experts_per_tok", "0", {"0 of 4 experts"}},
      {"more_experts", "mixtral", "num_local_experts", "1000000000", {"block_sparse_moe.gate.weight", "[4, 32]"}},
      {"experts_of_nothing", "qwen3_moe", "moe_intermediate_size", "0", {"6 experts of width 0"}},
      {"types_for_other_layers", "gemma3", "layer_types", R"(["full_attention"])", {"layer_types", "1 entries", "4"}},
      {"other_types",
       "ministral_mixed",
       "layer_types",
       R"(["chunked_attention", "full_attention", "full_attention"])",
       {"chunked_attention", "layer 0"}},
      {"both_ways", "gemma3", "use_bidirectional_attention", "true", {"use_bidirectional_attention"}},
      {"not_causal", "llama_plain", "is_causal", "false", {"is_causal"}},
      {"quantised", "llama_plain", "quantization_config", R"({"quant_method": "fp8"})", {"quantization_config", "fp8"}},
      {"layers_that_differ", "llama_plain", "per_layer_config", R"({"0": {"rms_norm_eps": 1}})", {"per_layer_config"}},
      {"partly_turned", "llama_plain", "partial_rotary_factor", "0.5", {"partial_rotary_factor", "0.5"}},
      {"types_that_llama_has_not",
       "llama_plain",
       "layer_types",
       R"(["sliding_attention", "full_attention"])",
       {"layer_types", "layer 0", "llama"}},
      {"types_without_a_window",
       "qwen2",
       "layer_types",
       R"(["full_attention", "sliding_attention"])",
       {"layer_types", "layer 1", "use_sliding_window"}},
      {"ropes_for_kinds_of_layers",
       "llama_plain",
       "rope_parameters",
       R"({"full_attention": {"rope_theta": 5}})",
       {"rope_parameters", "alike"}},
      {"one_rope_for_gemma3",
       "gemma3",
       "rope_parameters",
       R"({"rope_theta": 5})",
       {"rope_parameters", "full_attention"}},
      {"two_ropes_for_gemma3", "gemma3", "rope_scaling", R"({"factor": 2, "type": "linear"})", {"rope_scaling"}},
      {"heads_of_gpt2", "gpt2", "n_head", "7", {"n_head", "7", "40"}},
      {"positions_of_gpt2", "gpt2", "n_positions", "65", {"transformer.wpe.weight", "[64, 40]", "[65, 40]"}},
      {"another_family", "llama_plain", "model_type", "\"mamba\"", {"mamba", "llama", "gemma3_text"}},
  };
  return all;
}

class HfConfigLie : public ::testing::TestWithParam<Lie> {};
INSTANTIATE_TEST_SUITE_P(Every, HfConfigLie, ::testing::ValuesIn(lies()),
                         [](const auto& lie) { return lie.param.name; });

TEST_P(HfConfigLie, IsAnErrorThatNamesIt) {
  const Lie& lie = GetParam();
  LoadOptions options;
  options.config_text = with_field(lie.decoder, lie.field, lie.value);
  const std::string message = load_failure(recorded_decoder(lie.decoder).path, options);
  for (const std::string& word : lie.words) EXPECT_THAT(message, HasSubstr(word));
}

TEST(HfConfig, ATensorThatIsMissingIsNamedWithItsFile) {
  LoadOptions options;
  options.config_text = read_text_file(recorded_decoder("qwen3").path + "/config.json");
  EXPECT_THAT(load_failure(recorded_decoder("mistral_swa").path, options),
              AllOf(HasSubstr("mistral_swa"), HasSubstr("model.layers.0.self_attn.q_norm.weight")));
}

DecoderDescription describe_hf(const std::string& config) {
  auto description = describe_huggingface(config);
  EXPECT_TRUE(description) << description.error().message;
  return description ? *description : DecoderDescription{};
}

std::string llama_like(const std::string& type, const std::string& more) {
  return fmt::format(R"({{"model_type": "{}", "vocab_size": 8, "hidden_size": 32, "intermediate_size": 16,
      "num_hidden_layers": 6, "num_attention_heads": 4, "num_key_value_heads": 4{}}})",
                     type, more);
}

std::vector<uint64_t> windows(const std::string& type, const std::string& more) {
  std::vector<uint64_t> windows;
  for (const DecoderLayer& layer : describe_hf(llama_like(type, more)).layers) windows.push_back(layer.window);
  return windows;
}

using Windows = std::vector<uint64_t>;

TEST(HfConfig, EachFamilyHasItsOwnRuleForWindows) {
  EXPECT_EQ(windows("llama", R"(, "sliding_window": 5)"), Windows(6, 0));
  EXPECT_EQ(windows("mistral", ""), Windows(6, 4096));
  EXPECT_EQ(windows("mistral", R"(, "sliding_window": null)"), Windows(6, 0));
  EXPECT_EQ(windows("qwen2", R"(, "sliding_window": 5, "max_window_layers": 4)"), Windows(6, 0));
  EXPECT_EQ(windows("qwen2", R"(, "sliding_window": 5, "max_window_layers": 4, "use_sliding_window": true)"),
            (Windows{0, 0, 0, 0, 5, 5}));
  EXPECT_EQ(windows("gemma2", R"(, "sliding_window": 5)"), (Windows{5, 0, 5, 0, 5, 0}));
  EXPECT_EQ(windows("gemma3_text", R"(, "sliding_window": 5, "sliding_window_pattern": 3)"),
            (Windows{5, 5, 0, 5, 5, 0}));
  EXPECT_EQ(windows("smollm3", R"(, "sliding_window": 5, "use_sliding_window": true)"), (Windows{0, 0, 0, 5, 0, 0}));
}

TEST(HfConfig, AListOfLayersWithoutRopeMayBeLongerThanTheModel) {
  std::vector<bool> turns;
  for (const DecoderLayer& layer :
       describe_hf(llama_like("smollm3", R"(, "no_rope_layers": [0,1,1,1,0,1,0,0])")).layers) {
    turns.push_back(layer.rope == DecoderLayer::Rope::kMain);
  }
  EXPECT_EQ(turns, (std::vector{false, true, true, true, false, true}));
}

TEST(HfConfig, WhatTheFileDoesNotSayIsTheFamilysOwn) {
  EXPECT_EQ(describe_hf(llama_like("qwen3", "")).head_dim, 128U);
  EXPECT_EQ(describe_hf(llama_like("llama", "")).head_dim, 8U);
  EXPECT_EQ(describe_hf(llama_like("gemma2", "")).head_dim, 256U);
  EXPECT_EQ(describe_hf(llama_like("smollm3", "")).rope.theta, 2e6);
  EXPECT_TRUE(describe_hf(llama_like("smollm3", "")).tied);
  EXPECT_EQ(describe_hf(llama_like("phi3", "")).eps, 1e-5F);
  EXPECT_EQ(describe_hf(llama_like("gemma2", "")).soft_cap, 50);
  EXPECT_EQ(describe_hf(llama_like("gemma2", R"(, "attn_logit_softcapping": null)")).soft_cap, 0);
}

// As gemma-3-4b-it was published.
TEST(HfConfig, SizesThatTheFileDoesNotSayAreTheFamilysOwn) {
  const DecoderDescription d = describe_hf(R"({"model_type": "gemma3", "text_config": {"model_type": "gemma3_text",
      "hidden_size": 2560, "intermediate_size": 10240, "num_hidden_layers": 34, "sliding_window": 1024,
      "rope_scaling": {"factor": 8.0, "rope_type": "linear"}}})");
  EXPECT_EQ(d.vocab, 262'208U);
  EXPECT_EQ(d.q_heads, 8U);
  EXPECT_EQ(d.kv_heads, 4U);
  EXPECT_EQ(d.head_dim, 256U);
  EXPECT_EQ(d.context, 131'072U);
  const DecoderDescription gpt2 = describe_hf(R"({"model_type": "gpt2", "hidden_size": 96, "num_hidden_layers": 3})");
  EXPECT_EQ(gpt2.width, 96U);
  EXPECT_EQ(gpt2.hidden, 384U);
  EXPECT_EQ(gpt2.layers.size(), 3U);
  EXPECT_EQ(gpt2.q_heads, 12U);
  EXPECT_EQ(gpt2.context, 1024U);
}

TEST(HfConfig, OnlyFamiliesThatKnowABiasHaveIt) {
  for (const char* type : {"qwen3", "gemma2", "gemma3_text"}) {
    const DecoderDescription d = describe_hf(llama_like(type, R"(, "attention_bias": true, "mlp_bias": true)"));
    EXPECT_EQ(d.output_bias, Presence::kRequired) << type;
    EXPECT_EQ(d.feed_bias, Presence::kAbsent) << type;
  }
  EXPECT_EQ(describe_hf(llama_like("smollm3", R"(, "mlp_bias": true)")).feed_bias, Presence::kRequired);
  EXPECT_EQ(describe_hf(llama_like("mistral", R"(, "attention_bias": true)")).qkv_bias, Presence::kAbsent);
}

DecoderDescription describe_wrapped(const std::string& type, const std::string& inner, const std::string& more = "") {
  return describe_hf(fmt::format(R"({{"model_type": "{}", "text_config": {}{}}})", type, inner, more));
}

TEST(HfConfig, AModelThatAlsoSeesHasItsReaderInside) {
  EXPECT_EQ(describe_wrapped("gemma3", llama_like("gemma3_text", "")).family, "gemma3_text");
  EXPECT_EQ(describe_wrapped("mistral3", R"({"hidden_size": 64})").family, "mistral");
}

TEST(HfConfig, AModelThatAlsoSeesSaysItselfWhetherItsMatrixIsTied) {
  const std::string inner = llama_like("mistral", R"(, "tie_word_embeddings": false)");
  EXPECT_TRUE(describe_wrapped("mistral3", inner).tied);
  EXPECT_FALSE(describe_wrapped("mistral3", inner, R"(, "tie_word_embeddings": false)").tied);
  EXPECT_FALSE(describe_wrapped("llava", inner).tied);
}

TEST(HfConfig, AModelThatSeesInAnotherWayIsRefused) {
  for (const auto& [type, more] : {std::pair("paligemma", ""), std::pair("gemma3", R"(, "quantization_config": {})")}) {
    const std::string config =
        fmt::format(R"({{"model_type": "{}", "text_config": {}{}}})", type, llama_like("gemma2", ""), more);
    EXPECT_FALSE(describe_huggingface(config)) << type;
  }
}

TEST(HfConfig, BothSpellingsOfRopeMeanTheSame) {
  const auto old_one = describe_hf(llama_like("phi3", R"(, "rope_theta": 5e5, "max_position_embeddings": 64,
      "rope_scaling": {"type": "linear", "factor": 2}, "partial_rotary_factor": 0.5)"));
  const auto new_one = describe_hf(llama_like("phi3", R"(, "max_position_embeddings": 64, "rope_parameters":
      {"rope_type": "linear", "factor": 2, "rope_theta": 5e5, "partial_rotary_factor": 0.5})"));
  for (const DecoderDescription& d : {old_one, new_one}) {
    EXPECT_EQ(d.rope.theta, 5e5);
    EXPECT_EQ(d.rope.rotary_dim, 4U);
    EXPECT_EQ(d.rope.scaling.kind, ops::RopeScaling::Kind::kLinear);
    EXPECT_EQ(d.rope.scaling.factor, 2);
  }
}

TEST(HfConfig, OfBothSpellingsTheOldOneCounts) {
  const auto d =
      describe_hf(llama_like("llama", R"(, "rope_theta": 5e4, "rope_scaling": {"type": "linear", "factor": 3},
      "rope_parameters": {"rope_type": "yarn", "rope_theta": 7, "factor": 4})"));
  EXPECT_EQ(d.rope.theta, 5e4);
  EXPECT_EQ(d.rope.scaling.kind, ops::RopeScaling::Kind::kLinear);
  EXPECT_EQ(
      describe_hf(llama_like("llama", R"(, "rope_scaling": {}, "rope_parameters": {"rope_theta": 7})")).rope.theta, 7);
}

TEST(HfConfig, LayersWithAWindowHaveAThetaOfTheirOwn) {
  const auto thetas = [](const std::string& more) {
    const auto d = describe_hf(llama_like("gemma3_text", more));
    return std::pair(d.rope.theta, d.local_rope.theta);
  };
  EXPECT_EQ(thetas(""), std::pair(1e6, 1e4));
  EXPECT_EQ(thetas(R"(, "rope_theta": 5, "rope_local_base_freq": 6)"), std::pair(5.0, 6.0));
  EXPECT_EQ(thetas(R"(, "rope_parameters": {"full_attention": {"rope_type": "default"}, "sliding_attention": {}})"),
            std::pair(1e6, 1e4));
  EXPECT_EQ(thetas(R"(, "rope_theta": 5, "rope_local_base_freq": 6, "rope_parameters": {"full_attention":
      {"rope_theta": 7}})"),
            std::pair(7.0, 6.0));
}

TEST(HfConfig, Ministral3HasARopeOfItsOwnWhereTheFileHasNone) {
  const auto unsaid = describe_hf(llama_like("ministral3", ""));
  EXPECT_EQ(unsaid.rope.scaling.kind, ops::RopeScaling::Kind::kYarn);
  EXPECT_EQ(unsaid.rope.theta, 1e6);
  EXPECT_EQ(unsaid.temperature, static_cast<double>(0.1F));
  EXPECT_EQ(unsaid.temperature_every, 16'384U);
  const auto old_one = describe_hf(llama_like("ministral3", R"(, "rope_scaling": {"type": "yarn", "factor": 4,
      "llama_4_scaling_beta": 0.5, "original_max_position_embeddings": 16})"));
  EXPECT_EQ(old_one.temperature, 0.5);
  EXPECT_EQ(old_one.temperature_every, 16U);
}

// Phi-3 has a number of its own at the top, which counts.
TEST(HfConfig, TheOriginalContextIsTakenFromTheTopFirst) {
  const std::string inside = R"(, "rope_scaling": {"type": "longrope", "short_factor": [1, 1, 1, 1],
      "long_factor": [2, 2, 2, 2], "original_max_position_embeddings": 16})";
  const auto original = [](const std::string& type, const std::string& more) {
    return describe_hf(llama_like(type, more)).rope.scaling.original_context;
  };
  EXPECT_EQ(original("llama", inside), 16U);
  EXPECT_EQ(original("phi3", inside), 4096U);
  EXPECT_EQ(original("phi3", inside + R"(, "original_max_position_embeddings": 32)"), 32U);
}

TEST(HfConfig, YarnStretchesTheContext) {
  const std::string yarn = R"(, "max_position_embeddings": 64, "rope_scaling": {"type": "yarn", "factor": 4,
      "original_max_position_embeddings": 32})";
  EXPECT_EQ(describe_hf(llama_like("qwen2", yarn)).context, 128U);
}

}  // namespace
}  // namespace ballast::testing
