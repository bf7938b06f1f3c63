// SentencePiece models against what the sentencepiece package (0.2.2) did with them.
#include "ballast/text/tokenizer/sentencepiece_file.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "ballast/base/json_object.h"
#include "ballast/text/load_tokenizer.h"
#include "tests/support/temp_folder.h"
#include "tests/support/test_files.h"

namespace ballast::testing {
namespace {

using ::testing::HasSubstr;

constexpr EncodeOptions kAsTyped{.special_tokens = false, .add_special_tokens = false, .fit_length = false};

class RecordedSentencePiece : public ::testing::TestWithParam<const char*> {
 protected:
  static std::string path(const std::string& ending) {
    return test_file_path("sentencepiece/" + std::string(GetParam()) + ending);
  }
};

TEST_P(RecordedSentencePiece, GivesTheSameTokensAndTheSameTextBack) {
  const auto tokenizer = load_tokenizer(path(".model"));
  ASSERT_TRUE(tokenizer) << tokenizer.error().message;
  const std::string json = read_text_file(path(".expect.json"));
  const JsonObject recorded = *JsonObject::parse(json, GetParam(), kStrictRules);
  const auto rows = *recorded.elements("rows");
  ASSERT_EQ(rows.size(), 45U);
  for (const std::string_view row_json : rows) {
    const JsonObject row = *JsonObject::parse(row_json, GetParam(), kStrictRules);
    const std::string text = *row.text("text");
    const auto wanted = *JsonReader(*row.find("ids"), "ids").read_u64_array();
    const std::vector<TokenId> ids(wanted.begin(), wanted.end());
    const auto encoded = tokenizer->encode(text, kAsTyped);
    ASSERT_TRUE(encoded) << encoded.error().message;
    EXPECT_EQ(*encoded, ids) << text;
    // Unknown pieces are shown otherwise there, and marks of spaces that the text itself begins with are lost there.
    const bool unknown = std::ranges::find(ids, tokenizer->marks().unknown.value()) != ids.end();
    if (!unknown && !text.starts_with("\u2581")) {
      EXPECT_EQ(*tokenizer->decode(ids), *row.text("decoded"));
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Files, RecordedSentencePiece,
                         ::testing::Values("unigram_bytes", "unigram_rules", "bpe_bytes", "bpe_plain"));

TEST(SentencePieceFile, SurvivesDamage) {
  const std::string whole = read_text_file(test_file_path("sentencepiece/unigram_rules.model"));
  const auto try_it = [](std::string_view bytes) {
    auto description = parse_sentencepiece(bytes, "damaged.model");
    if (!description) return;
    const auto tokenizer = Tokenizer::make(std::move(*description));
    if (tokenizer) (void)tokenizer->encode("the river \uFB01 e\u0301 <s>", kAsTyped);
  };
  for (size_t length = 0; length < whole.size(); length += 7) try_it(std::string_view(whole).substr(0, length));
  for (size_t at = 0; at < whole.size(); ++at) {
    std::string damaged = whole;
    damaged[at] = static_cast<char>(damaged[at] ^ (1 << (at % 8)));
    try_it(damaged);
  }
}

TEST(SentencePieceFile, SaysWhatItDoesNotUnderstand) {
  // trainer_spec { model_type: 3 }, one piece "a"
  const auto words = parse_sentencepiece("\x0A\x03\x0A\x01\x61\x12\x02\x18\x03", "t.model");
  ASSERT_FALSE(words);
  EXPECT_THAT(words.error().message, HasSubstr("type 3"));
  const auto none = parse_sentencepiece("\x12\x02\x18\x01", "t.model");
  ASSERT_FALSE(none);
  EXPECT_THAT(none.error().message, HasSubstr("without pieces"));
  const auto cut = parse_sentencepiece("\x0A\x7F\x0A", "t.model");
  ASSERT_FALSE(cut);
  EXPECT_THAT(cut.error().message, HasSubstr("goes beyond the end"));
}

}  // namespace
}  // namespace ballast::testing
