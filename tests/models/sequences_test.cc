// Several sequences at once, as training computes them: what each gives alone.
#include <gtest/gtest.h>

#include "ballast/models/model.h"
#include "tests/support/read_floats.h"
#include "tests/support/recorded_models.h"
#include "tests/support/test_files.h"

namespace ballast::testing {
namespace {

struct TextFixture {
  const char* name;
  const char* path;
};

class Sequences : public ::testing::TestWithParam<TextFixture> {};
INSTANTIATE_TEST_SUITE_P(EveryTextModel, Sequences,
                         ::testing::Values(TextFixture{"gpt", "gptrs/gpt_micro/model.gptrs"},
                                           TextFixture{"ministral_linear", "gptrs/ministral_linear/model.gptrs"},
                                           TextFixture{"ministral_yarn", "gptrs/ministral_yarn/model.gptrs"},
                                           TextFixture{"decoder", "hf/llama_plain"}),
                         [](const auto& test) { return std::string(test.param.name); });

TEST_P(Sequences, AreWhatEachOfThemGivesAlone) {
  const auto loaded = load_or_die(test_file_path(GetParam().path));
  const CausalLm& model = *loaded->as_causal_lm();
  const std::vector<TokenId> all{1, 2, 3, 4, 5, 3, 3, 2, 1, 0, 4, 1};
  for (const uint64_t sequences : {1, 2, 3}) {
    const auto together = model.forward_sequences(loaded->context(), all, sequences);
    ASSERT_TRUE(together) << sequences << ": " << together.error().message;
    const uint64_t length = all.size() / sequences, width = model.vocab_size();
    const std::vector<float> found = read_floats(*together);
    ASSERT_EQ(found.size(), all.size() * width);
    for (uint64_t i = 0; i < sequences; ++i) {
      const auto alone =
          model.forward_tokens(loaded->context(), std::span(all).subspan(i * length, length), LogitRows::kAll);
      ASSERT_TRUE(alone) << alone.error().message;
      const std::vector<float> expected = read_floats(*alone);
      ASSERT_EQ(expected.size(), length * width);
      for (uint64_t k = 0; k < length * width; ++k)
        ASSERT_NEAR(found[i * length * width + k], expected[k], 1e-5) << sequences << " " << i << " " << k;
    }
  }
}

TEST(Sequences, OfDifferentLengthsAreRefused) {
  const auto loaded = load_or_die(test_file_path("gptrs/ministral_yarn/model.gptrs"));
  const auto result = loaded->as_causal_lm()->forward_sequences(loaded->context(), std::vector<TokenId>{1, 2, 3}, 2);
  ASSERT_FALSE(result);
  EXPECT_EQ(result.error().message, "3 tokens are not 2 sequences of one length");
}

}  // namespace
}  // namespace ballast::testing
