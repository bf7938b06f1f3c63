#include "ballast/exchange/gguf_model_id.h"

#include <gtest/gtest.h>

namespace ballast::testing {
namespace {

struct IdCase {
  std::string_view id;
  double params;
  GgufModelId says;  // as gguf-py takes it apart
};

TEST(GgufModelId, TakesNamesApartAsLlamaCppsConverterDoes) {
  const IdCase cases[] = {
      {"SmolLM2-135M-Instruct", 1.35e8, {"SmolLM2 135M Instruct", "", "SmolLM2", "Instruct", "", "135M"}},
      {"HuggingFaceTB/SmolLM2-1.7B", 1.7e9, {"SmolLM2 1.7B", "HuggingFaceTB", "SmolLM2", "", "", "1.7B"}},
      {"Meta-Llama-3.1-8B-Instruct", 8e9, {"Meta Llama 3.1 8B Instruct", "", "Meta-Llama-3.1", "Instruct", "", "8B"}},
      {"Mixtral-8x7B-Instruct-v0.1", 4.6e10, {"Mixtral 8x7B Instruct v0.1", "", "Mixtral", "Instruct", "v0.1", "8x7B"}},
      {"mistralai/Mistral-7B-v0.3", 7.2e9, {"Mistral 7B v0.3", "Mistralai", "Mistral", "", "v0.3", "7B"}},
      {"Phi-3-mini-4k-instruct", 3.8e9, {"Phi 3 Mini 4k Instruct", "", "Phi-3", "4k-instruct", "", "mini"}},
      {"Qwen3-30B-A3B", 3e10, {"Qwen3 30B A3B", "", "Qwen3", "", "", "30B-A3B"}},
      {"bloom-7b1", 7.1e9, {"Bloom 7b1", "", "bloom", "", "", "7.1B"}},
      {"gpt2-medium", 3.55e8, {"Gpt2 Medium", "", "gpt2", "", "", "medium"}},
      {"qwen3", 52'000, {"Qwen3", "", "", "", "", ""}},
      {"my model", 5, {"My Model", "", "", "", "", ""}},
      {"./x", 1, {"X", "", "", "", "", ""}},
      {"", 1, {}},
      {"-", 1, {}},
  };
  for (const IdCase& each : cases) {
    const auto found = parse_gguf_model_id(each.id, each.params);
    ASSERT_TRUE(found) << each.id;
    EXPECT_EQ(found->name, each.says.name) << each.id;
    EXPECT_EQ(found->organization, each.says.organization) << each.id;
    EXPECT_EQ(found->basename, each.says.basename) << each.id;
    EXPECT_EQ(found->finetune, each.says.finetune) << each.id;
    EXPECT_EQ(found->version, each.says.version) << each.id;
    EXPECT_EQ(found->size_label, each.says.size_label) << each.id;
  }
}

}  // namespace
}  // namespace ballast::testing
