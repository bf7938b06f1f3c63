// Offsets of tokens where the recordings of the tokenizers package do not reach; see recorded_huggingface_test.cc.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "ballast/text/load_tokenizer.h"
#include "ballast/text/tokenizer/token_spans.h"
#include "ballast/text/tokenizer/traced_text.h"
#include "tests/support/test_files.h"

namespace ballast::testing {
namespace {

using ::testing::ElementsAre;

TextSpan span(size_t begin, size_t end) { return {begin, end}; }

TEST(TokenSpans, FollowTheSpellingOfTheTokens) {
  const std::vector<TokenSpelling> tokens = {{"un"}, {"##able"}, {"##s"}};
  EXPECT_THAT(find_token_spans("unables", tokens, {.continuing_prefix = "##"}),
              ElementsAre(span(0, 2), span(2, 6), span(6, 7)));
  const std::vector<TokenSpelling> ended = {{"lo"}, {"w</w>"}};
  EXPECT_THAT(find_token_spans("low", ended, {.ending = "</w>"}), ElementsAre(span(0, 2), span(2, 3)));
  const std::vector<TokenSpelling> bytes = {{"<0xC3>", 0xC3}, {"<0xA9>", 0xA9}, {"t"}};
  EXPECT_THAT(find_token_spans("\u00e9t", bytes, {}), ElementsAre(span(0, 1), span(1, 2), span(2, 3)));
}

TEST(TokenSpans, WhatIsUnknownReachesToTheNextThatIsKnown) {
  const std::vector<TokenSpelling> tokens = {{"a"}, {"<unk>"}, {"b"}};
  EXPECT_THAT(find_token_spans("a\u00e9\u00e9b", tokens, {}), ElementsAre(span(0, 1), span(1, 5), span(5, 6)));
  const std::vector<TokenSpelling> last = {{"a"}, {"<unk>"}};
  EXPECT_THAT(find_token_spans("axyz", last, {}), ElementsAre(span(0, 1), span(1, 4)));
  const std::vector<TokenSpelling> several = {{"<unk>"}, {"<unk>"}};
  EXPECT_THAT(find_token_spans("xyz", several, {}), ElementsAre(span(0, 1), span(1, 3)));
  const std::vector<TokenSpelling> too_many = {{"a"}, {"b"}};
  EXPECT_THAT(find_token_spans("a", too_many, {}), ElementsAre(span(0, 1), span(1, 1)));
}

std::vector<TextSpan> origins_after(const Normalizer& normalizer, std::string_view text) {
  const auto traced = normalize_traced({normalizer}, trace_text(text, false));
  EXPECT_TRUE(traced) << traced.error().message;
  EXPECT_EQ(traced->text, normalize({normalizer}, text).value()) << "the same text as without tracing";
  EXPECT_EQ(traced->text.size(), traced->origin.size());
  return traced->origin;
}

TEST(TracedText, KnowsWhereEveryByteOfANormalizedTextCameFrom) {
  EXPECT_THAT(origins_after(StripSpaces{}, " a "), ElementsAre(span(1, 2)));
  EXPECT_THAT(origins_after(PrependText{"_"}, "ab"), ElementsAre(span(0, 1), span(0, 1), span(1, 2)));
  EXPECT_THAT(origins_after(ReplaceText{TextPattern::exact("  "), "-"}, "a  b"),
              ElementsAre(span(0, 1), span(2, 3), span(3, 4)));
  // An accent that goes, one that is taken apart, and two characters that become one.
  EXPECT_THAT(origins_after(NormalForm::kNfd, "\u00e9"), ElementsAre(span(0, 2), span(0, 2), span(0, 2)));
  EXPECT_THAT(origins_after(NormalForm::kNfc, "e\u0301x"), ElementsAre(span(0, 1), span(0, 1), span(3, 4)));
  EXPECT_THAT(origins_after(LowerCase{}, "\u0130"), ::testing::Each(span(0, 2)));
}

TEST(TracedText, FollowsWhatSentencePieceDoesToSpaces) {
  SentencePieceText how;
  how.escape_spaces = false;
  EXPECT_THAT(origins_after(how, "a  b "), ElementsAre(span(0, 1), span(0, 1), span(2, 3), span(3, 4)));
}

TEST(TracedText, BrokenBytesAreReplacedInPlace) {
  const TracedText traced = trace_text(
      "a\xff"
      "b",
      true);
  EXPECT_EQ(traced.text,
            "a\uFFFD"
            "b");
  EXPECT_EQ(traced.span(1, 4), span(1, 2));
  EXPECT_EQ(traced.span(4, 5), span(2, 3));
}

TEST(TokenOffsets, CoverTheTextOfAGgufVocabulary) {
  const auto tokenizer = load_tokenizer(test_file_path("gguf/tiny/tiny_llama.f32.gguf"));
  ASSERT_TRUE(tokenizer) << tokenizer.error().message;
  EncodeOptions options;
  options.offsets = true;
  for (const std::string text : {"1 2 3", "", " x", "h\u00e9llo  w\u00f6rld", "\xff", "<s>a</s>"}) {
    const auto encoding = tokenizer->encode_full(text, options);
    ASSERT_TRUE(encoding) << encoding.error().message;
    EXPECT_EQ(encoding->ids, tokenizer->encode(text).value()) << text;
    ASSERT_EQ(encoding->offsets.size(), encoding->ids.size());
    size_t reached = 0;
    for (size_t i = 0; i < encoding->ids.size(); ++i) {
      const TextSpan& at = encoding->offsets[i];
      EXPECT_LE(at.begin, at.end);
      EXPECT_LE(at.end, text.size());
      if (!encoding->special[i]) reached = std::max(reached, at.end);
    }
    EXPECT_EQ(reached, text.size()) << text;
  }
}

TEST(TokenOffsets, CountCharactersWhereAsked) {
  const std::vector<TextSpan> bytes = {{0, 1}, {1, 3}, {3, 6}, {0, 0}};
  EXPECT_THAT(to_character_spans("a\u00e9\u65e5", bytes), ElementsAre(span(0, 1), span(1, 2), span(2, 3), span(0, 0)));
}

}  // namespace
}  // namespace ballast::testing
