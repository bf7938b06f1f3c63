#include "ballast/archive/model_summary.h"

#include <gtest/gtest.h>

#include "ballast/formats/drivers.h"
#include "tests/support/format_testing.h"
#include "tests/support/test_files.h"

namespace ballast::testing {
namespace {

Description tiny_model(const std::string& name) {
  return open_or_die(kGgufDriver, read_test_data("gguf/tiny/" + name)).description();
}

TEST(ModelSummary, TellsWhatAGgufModelIs) {
  const auto model = summarise_model(tiny_model("tiny_llama.q4_0.gguf"));
  ASSERT_TRUE(model);
  EXPECT_EQ(model->architecture, "llama");
  EXPECT_EQ(model->layers, 2U);
  EXPECT_EQ(model->context, 128U);
  EXPECT_EQ(model->width, 64U);
  EXPECT_EQ(model->heads, 4U);
  EXPECT_EQ(model->kv_heads, 2U);
  EXPECT_EQ(model->vocabulary, 64U);
  EXPECT_EQ(model->tokenizer, "llama");
  EXPECT_FALSE(model->has_chat_template);
  ASSERT_FALSE(model->types.empty());
  EXPECT_EQ(model->types.front().dtype, DType::kQ4_0);
}

TEST(ModelSummary, TellsTheMemoryThatRunningTakes) {
  const auto model = summarise_model(tiny_model("tiny_llama.q4_0.gguf"));
  ASSERT_TRUE(model);
  EXPECT_EQ(model->weight_bytes, 46080U + 1280U);
  EXPECT_EQ(model->cache_bytes_per_token, 2U * 2 * (16 + 16) * 4);  // layers, heads, a key and a value, f32
}

TEST(ModelSummary, CountsTheElementsOfEveryTensorOnce) {
  const Description description = tiny_model("tiny_gpt2.q8_0.gguf");
  const auto model = summarise_model(description);
  ASSERT_TRUE(model);
  uint64_t elements = 0;
  uint64_t tensors = 0;
  for (const TensorInfo& tensor : description.tensors) elements += *tensor.shape.element_count();
  for (const TypeShare& share : model->types) tensors += share.tensors;
  EXPECT_EQ(model->parameters, elements);
  EXPECT_EQ(tensors, description.tensors.size());
}

TEST(ModelSummary, TellsWhatAConfigJsonSays) {
  Description description;
  description.config = ModelConfig{"huggingface", R"({"model_type": "gemma3", "architectures": ["x"], "text_config":
      {"hidden_size": 32, "num_attention_heads": 4, "num_key_value_heads": 2, "num_hidden_layers": 3,
       "max_position_embeddings": 128, "vocab_size": 64, "num_experts": null}})"};
  const auto model = summarise_model(description);
  ASSERT_TRUE(model);
  EXPECT_EQ(model->architecture, "gemma3");
  EXPECT_EQ(model->layers, 3U);
  EXPECT_EQ(model->context, 128U);
  EXPECT_EQ(model->kv_heads, 2U);
  EXPECT_EQ(model->experts, std::nullopt);
  description.config->text = R"({"model_type": "gpt2", "n_layer": "many", "n_embd": -1, "n_head": 1e3})";
  const auto odd = summarise_model(description);
  ASSERT_TRUE(odd);
  EXPECT_EQ(odd->layers, std::nullopt);
  EXPECT_EQ(odd->width, std::nullopt);
  for (const char* damaged : {"[", R"({"model_type": "gpt2", "n_layer": 3)"}) {
    description.config->text = damaged;
    EXPECT_FALSE(summarise_model(description)) << damaged;
  }
}

TEST(ModelSummary, TakesTheLargestOfNumbersPerLayer) {
  Description description;
  const std::vector<int32_t> heads = {4, 8, 0};
  description.metadata = {{"general.architecture", std::string("x")},
                          {"x.attention.head_count", MetaArray::of(std::span(heads))},
                          {"general.file_type", uint64_t{15}}};
  const auto model = summarise_model(description);
  ASSERT_TRUE(model);
  EXPECT_EQ(model->heads, 8U);
  EXPECT_EQ(model->file_type, "Q4_K_M");
  EXPECT_EQ(model->context, std::nullopt);
}

TEST(ModelSummary, SaysNothingOfFilesWithoutAnArchitecture) {
  EXPECT_FALSE(summarise_model({}));
  Description description;
  description.metadata = {{"general.architecture", uint64_t{7}}};
  EXPECT_FALSE(summarise_model(description));
}

}  // namespace
}  // namespace ballast::testing
