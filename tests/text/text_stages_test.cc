// The stages between text and model, each alone.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "ballast/text/tokenizer/normalizer.h"
#include "ballast/text/tokenizer/phrase_finder.h"
#include "ballast/text/tokenizer/post_processor.h"
#include "ballast/text/tokenizer/pre_tokenizer.h"
#include "ballast/text/tokenizer/token_decoder.h"

namespace ballast::testing {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

std::string normal(const Normalizer& normalizer, std::string_view text) {
  const auto result = normalize({normalizer}, text);
  EXPECT_TRUE(result) << (result ? "" : result.error().message);
  return *result;
}

std::vector<std::string> cut(const PreTokenizer& how, std::string_view text, bool first = true) {
  PieceList list(text, first);
  const Status status = list.apply(how);
  EXPECT_TRUE(status) << (status ? "" : status.error().message);
  std::vector<std::string> pieces;
  for (const auto& piece : list.pieces()) pieces.emplace_back(piece.text);
  return pieces;
}

TextPattern expression(const std::string& text) {
  auto pattern = TextPattern::expression(text);
  EXPECT_TRUE(pattern) << (pattern ? "" : pattern.error().message);
  return std::move(*pattern);
}

// ---------------------------------------------------------------- phrases

TEST(PhraseFinder, KnowsAllPhrasesThatEndAtAPlaceTheLongestFirst) {
  const std::vector<PhraseFinder::Phrase> phrases = {{"he", 1}, {"she", 2}, {"hers", 3}, {"e", 4}, {"", 5}};
  const PhraseFinder finder(phrases, PhraseFinder::Reading::kForward);
  PhraseFinder::State state = PhraseFinder::kStart;
  for (const char c : std::string_view("ushe")) state = finder.next(state, c);
  std::vector<uint32_t> found;
  for (auto match = finder.longest(state); match != PhraseFinder::kStart; match = finder.shorter(match)) {
    found.push_back(finder.value(match));
  }
  EXPECT_THAT(found, ElementsAre(2, 1, 4));
}

// ---------------------------------------------------------------- normalizers

TEST(Normalizers, ChangeCharactersAsHuggingFaceDoes) {
  EXPECT_EQ(normal(NormalForm::kNfc, "e\u0301"), "\u00e9");
  EXPECT_EQ(normal(NormalForm::kNfd, "\uD55C\u00e9"), "\u1112\u1161\u11abe\u0301");
  EXPECT_EQ(normal(NormalForm::kNfkc, "\uFB01\u00bd"), "fi1\u20442");
  EXPECT_EQ(normal(NormalForm::kNfc, "a\u0316\u0301"), normal(NormalForm::kNfc, "a\u0301\u0316"));
  EXPECT_EQ(normal(LowerCase{}, "\u0391\u03A3 \u0130"), "\u03b1\u03c3 i\u0307");
  EXPECT_EQ(normal(StripAccents{}, "e\u0301 \u00e9"), "e \u00e9");
  EXPECT_EQ(normal(StripSpaces{}, " \u3000a b\n"), "a b");
  EXPECT_EQ(normal(PrependText{"x"}, ""), "");
  EXPECT_EQ(normal(CleanForTranslation{}, "a\u200bb\u0001c"), "a bc");
  EXPECT_EQ(normal(SpellBytes{}, " \n\u00e9"), "\u0120\u010a\u00c3\u00a9");
}

TEST(Normalizers, KeepBytesThatAreNoUtf8) {
  EXPECT_EQ(normal(NormalForm::kNfc, "e\xff\u0301"), "e\xff\u0301");
  EXPECT_EQ(normal(LowerCase{}, "A\x80Z"), "a\x80z");
}

TEST(Normalizers, OfSentencePieceHandleSpacesAsTheModelSays) {
  SentencePieceText how;
  EXPECT_EQ(normal(how, "  a  b "), "\u2581a\u2581b");
  EXPECT_EQ(normal(how, "   "), "");
  how.remove_extra_spaces = false;
  EXPECT_EQ(normal(how, " a  "), "\u2581\u2581a\u2581\u2581");
  how.add_prefix = false;
  EXPECT_EQ(normal(how, "a b"), "a\u2581b");
}

// ---------------------------------------------------------------- expressions

TEST(TextPattern, ReadsExpressionsAsTheFilesMeanThem) {
  using Matches = std::vector<TextPattern::Match>;
  EXPECT_EQ(*expression(R"(\s)").find_all("a\u180eb\u0085c"), (Matches{{5, 7}}));  // U+180E is no white space
  EXPECT_EQ(*expression(R"(\w+)").find_all("e\u0301_9"), (Matches{{0, 5}}));
  EXPECT_EQ(*expression(R"(\h+)").find_all("xyfF0"), (Matches{{2, 5}}));
  EXPECT_EQ(*expression(R"([\p{L}&&[^\p{Han}]]+)").find_all("ab\u4e2dc"), (Matches{{0, 2}, {5, 6}}));
  EXPECT_EQ(*expression("x*").find_all("axb"), (Matches{{0, 0}, {1, 2}, {3, 3}}));
  EXPECT_EQ(*TextPattern::exact("").find_all("ab"), Matches());
  for (const char* unknown : {"[a[b]]", "[^a&&[b]]", "[a&&b]"}) {
    const auto refused = TextPattern::expression(unknown);
    ASSERT_FALSE(refused) << unknown;
    EXPECT_EQ(refused.error().code, ErrorCode::kUnsupported);
  }
}

TEST(TextPattern, TakesAByteThatIsNoUtf8ForACharacterOfItsOwn) {
  using Matches = std::vector<TextPattern::Match>;
  EXPECT_EQ(*expression(R"(\p{L}+)").find_all("a\xff\u00e9z"), (Matches{{0, 1}, {2, 5}}));
  EXPECT_EQ(*expression(R"([^\s\p{L}]+)").find_all("a\xff\xfe!b"), (Matches{{1, 4}}));
}

// ---------------------------------------------------------------- pre-tokenizers

TEST(PreTokenizers, TreatMatchesAsTheirBehaviourSays) {
  const auto with = [](SplitBehavior behavior) {
    return cut(SplitAtPattern{TextPattern::exact("-"), behavior, false}, "the-final--countdown-");
  };
  EXPECT_THAT(with(SplitBehavior::kRemoved), ElementsAre("the", "final", "countdown"));
  EXPECT_THAT(with(SplitBehavior::kIsolated), ElementsAre("the", "-", "final", "-", "-", "countdown", "-"));
  EXPECT_THAT(with(SplitBehavior::kMergedWithPrevious), ElementsAre("the-", "final-", "-", "countdown-"));
  EXPECT_THAT(with(SplitBehavior::kMergedWithNext), ElementsAre("the", "-final", "-", "-countdown", "-"));
  EXPECT_THAT(with(SplitBehavior::kContiguous), ElementsAre("the", "-", "final", "--", "countdown", "-"));
  EXPECT_THAT(cut(SplitAtPattern{expression("[a-z]+"), SplitBehavior::kRemoved, true}, "ab, cd"),
              ElementsAre("ab", "cd"));
}

TEST(PreTokenizers, CutByKindsOfCharacters) {
  EXPECT_THAT(cut(SplitDigits{}, "a\u00bd2b"), ElementsAre("a", "\u00bd2", "b"));
  EXPECT_THAT(cut(SplitDigits{true}, "a12"), ElementsAre("a", "1", "2"));
  EXPECT_THAT(cut(SplitPunctuation{}, "a$\u00a9!"), ElementsAre("a", "$", "\u00a9", "!"));
  EXPECT_THAT(cut(SplitWords{}, "don't \U0001F600!"), ElementsAre("don", "'", "t", "\U0001F600!"));
  EXPECT_THAT(cut(SplitWhiteSpace{}, " a\u3000b "), ElementsAre("a", "b"));
  EXPECT_THAT(cut(SplitBert{}, "a, b"), ElementsAre("a", ",", "b"));
  EXPECT_THAT(cut(SplitAtCharacter{'-'}, "a--b"), ElementsAre("a", "b"));
  EXPECT_THAT(cut(SplitFixedLength{2}, "a\u00e9bcd"), ElementsAre("a\u00e9", "bc", "d"));
}

TEST(PreTokenizers, OfMetaspacePutAMarkWhereTheSchemeWantsIt) {
  using Prepend = SplitMetaspace::Prepend;
  EXPECT_THAT(cut(SplitMetaspace{}, "a b"), ElementsAre("\u2581a", "\u2581b"));
  EXPECT_THAT(cut(SplitMetaspace{.mark = "_", .prepend = Prepend::kFirst, .cut = true}, "a b", true),
              ElementsAre("_a", "_b"));
  EXPECT_THAT(cut(SplitMetaspace{.mark = "_", .prepend = Prepend::kFirst, .cut = true}, "a b", false),
              ElementsAre("a", "_b"));
  EXPECT_THAT(cut(SplitMetaspace{.mark = "_", .prepend = Prepend::kNever, .cut = false}, "a b"), ElementsAre("a_b"));
}

TEST(PreTokenizers, CutWhereTheScriptChanges) {
  PieceList list("\u6771\u4eac\u306f abc \u0434\u0430.", true);
  const Status status = list.apply(SplitScripts{});
  if (!status) GTEST_SKIP() << status.error().message;
  std::vector<std::string> pieces;
  for (const auto& piece : list.pieces()) pieces.emplace_back(piece.text);
  EXPECT_THAT(pieces, ElementsAre("\u6771\u4eac\u306f ", "abc ", "\u0434\u0430", "."));
}

// ---------------------------------------------------------------- lengths and decoders

TEST(Truncation, CutsTheLongerTextFirst) {
  std::vector<TokenId> first = {1, 2, 3, 4, 5, 6};
  std::vector<TokenId> second = {7, 8};
  ASSERT_TRUE(truncate({.max_length = 7, .strategy = Truncation::Strategy::kLongestFirst, .from_left = false}, 2, first,
                       &second));
  EXPECT_THAT(first, ElementsAre(1, 2, 3));
  EXPECT_THAT(second, ElementsAre(7, 8));
  const auto only =
      truncate({.max_length = 1, .strategy = Truncation::Strategy::kOnlySecond, .from_left = false}, 0, first, &second);
  ASSERT_FALSE(only);
  EXPECT_THAT(only.error().message, HasSubstr("only the second text"));
}

TEST(TokenDecoders, PutTokensTogetherAgain) {
  const auto decode = [](std::vector<TokenDecoder> decoders, std::vector<std::string> texts) {
    return *decode_tokens(decoders, std::move(texts));
  };
  EXPECT_EQ(decode({DecodeWordPiece{}}, {"it", "is", "n't", "wa", "##ter", "!"}), "it isn't water!");
  EXPECT_EQ(decode({DecodeMetaspace{}}, {"\u2581a", "b", "\u2581c"}), "ab c");
  EXPECT_EQ(decode({DecodeSuffix{}}, {"a</w>", "b", "c</w>"}), "a bc");
  EXPECT_EQ(decode({DecodeCtc{}}, {"h", "h", "<pad>", "i", "|", "|", "a"}), "hi a");
  EXPECT_EQ(decode({DecodeByteTokens{}, DecodeFuse{}}, {"<0xC3>", "<0xA9>", "x"}), "\u00e9x");
  EXPECT_EQ(decode({DecodeFuse{}, DecodeStrip{" ", 1, 0}}, {" a", " b"}), "a b");
  EXPECT_EQ(decode({DecodeJoin{}}, {"a", "b"}), "a b");
}

}  // namespace
}  // namespace ballast::testing
