#include "ballast/text/tokenizer.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <random>

#include "ballast/base/json.h"
#include "ballast/base/utf8.h"
#include "ballast/io/file.h"
#include "ballast/text/tokenizer/text_pattern.h"
#include "ballast/text/tokenizer/tokenizer_file.h"
#include "ballast/text/tokenizer/word_split.h"
#include "tests/support/test_files.h"

namespace ballast::testing {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

std::string read_text(const std::string& name) {
  const auto source = open_file(test_file_path("tokenizers/" + name), FileAccess::kPositional);
  EXPECT_TRUE(source) << name;
  const auto bytes = read_bytes(**source, 0, (*source)->size());
  return std::string(as_text(*bytes));
}

Tokenizer make_tokenizer(const std::string& name) {
  auto description = parse_tokenizer_json(read_text(name), name);
  EXPECT_TRUE(description) << (description ? "" : description.error().message);
  auto tokenizer = Tokenizer::make(std::move(*description));
  EXPECT_TRUE(tokenizer);
  return std::move(*tokenizer);
}

// A vocabulary of the 256 bytes, in order, and what the merges make, in order.
Tokenizer tokenizer_of(const std::vector<std::pair<std::string, std::string>>& merges,
                       std::vector<AddedToken> added = {}) {
  TokenizerDescription description = gpt2_description();
  auto& vocabulary = std::get<BytePairVocabulary>(description.model);
  for (unsigned byte = 0; byte < 256; ++byte) {
    vocabulary.tokens.push_back({std::string(1, static_cast<char>(byte)), byte});
  }
  for (const auto& [left, right] : merges) {
    vocabulary.tokens.push_back({left + right, static_cast<TokenId>(vocabulary.tokens.size())});
    vocabulary.merges.push_back({left, right});
  }
  description.added = std::move(added);
  auto tokenizer = Tokenizer::make(std::move(description));
  EXPECT_TRUE(tokenizer);
  return std::move(*tokenizer);
}

std::vector<TokenId> encode(const Tokenizer& tokenizer, std::string_view text, const EncodeOptions& options = {}) {
  auto ids = tokenizer.encode(text, options);
  EXPECT_TRUE(ids) << (ids ? "" : ids.error().message);
  return std::move(*ids);
}

AddedToken added_token(std::string text, TokenId id, bool special) {
  AddedToken token;
  token.text = std::move(text);
  token.id = id;
  token.special = special;
  return token;
}

std::vector<std::string> pieces(std::string_view text) {
  std::vector<std::string> found;
  for (size_t at = 0; at < text.size();) {
    const size_t end = gpt2_piece_end(text, at);
    found.emplace_back(text.substr(at, end - at));
    at = end;
  }
  return found;
}

// ---------------------------------------------------------------- cutting

TEST(Gpt2Pieces, CutWordsWithTheSpaceBeforeThem) {
  EXPECT_THAT(pieces("The cat's 12 toys!!"), ElementsAre("The", " cat", "'s", " 12", " toys", "!!"));
  EXPECT_THAT(pieces("we'll I'm don't they've 'twas"),
              ElementsAre("we", "'ll", " I", "'m", " don", "'t", " they", "'ve", " '", "twas"));
}

TEST(Gpt2Pieces, LeaveTheLastOfSeveralSpacesToTheWordBehindThem) {
  EXPECT_THAT(pieces("a   b"), ElementsAre("a", "  ", " b"));
  EXPECT_THAT(pieces("a \n b"), ElementsAre("a", " \n", " b"));
  EXPECT_THAT(pieces("a\n\nb"), ElementsAre("a", "\n", "\n", "b"));
  EXPECT_THAT(pieces("a  "), ElementsAre("a", "  "));
}

TEST(Gpt2Pieces, KnowLettersNumbersAndSpacesOfAllScripts) {
  EXPECT_THAT(pieces("größe Ⅷ½"), ElementsAre("größe", " Ⅷ½"));
  EXPECT_THAT(pieces("日本語です"), ElementsAre("日本語です"));
  EXPECT_THAT(pieces("a\u00a0b\u3000c"), ElementsAre("a", "\u00a0", "b", "\u3000", "c"));
  EXPECT_THAT(pieces("e\u0301a"), ElementsAre("e", "\u0301", "a"));  // a combining mark is no letter
}

TEST(Gpt2Pieces, TakeBytesThatAreNoUtf8AsOtherCharacters) {
  EXPECT_THAT(pieces("ab\xff\xfe!c"), ElementsAre("ab", "\xff\xfe!", "c"));
  EXPECT_THAT(pieces("\xe4\xbd"), ElementsAre("\xe4\xbd"));
}

TEST(KnownPatterns, CutAsTheirExpressionsDo) {
  const std::string_view parts[] = {"a",
                                    "Ab",
                                    "1",
                                    "23",
                                    " ",
                                    "  ",
                                    "\t",
                                    "\n",
                                    "\r\n",
                                    "'",
                                    "'s",
                                    "'LL",
                                    "'Re",
                                    "'t",
                                    "\u017F",
                                    "'\u017F",
                                    "\u00e9",
                                    "\u65e5",
                                    "\u2167",
                                    "\u00a0",
                                    "\u3000",
                                    "e\u0301",
                                    "!",
                                    "...",
                                    "\xff",
                                    "\xe4\xbd",
                                    "\U0001F600",
                                    "_",
                                    "\u0085",
                                    "-",
                                    "\u00b2",
                                    "\u00bd",
                                    "\v",
                                    "\f",
                                    "\u2028",
                                    "\u180e",
                                    "\u212a",
                                    "'\u212a",
                                    "\xed\xa0\x80",
                                    "@",
                                    "[",
                                    "`",
                                    "{",
                                    "AZaz",
                                    "abcdefg",
                                    "ABCDEFGHIJKLMNOP"};
  std::mt19937 random(1);
  for (const std::string_view pattern : {kGpt2Words, kLlama3Words, kQwen2Words}) {
    const auto known = TextPattern::expression(std::string(pattern));
    const auto regular = TextPattern::expression("(?:" + std::string(pattern) + ")");
    ASSERT_TRUE(known && regular);
    ASSERT_NE(known->piece_end(), nullptr);
    ASSERT_EQ(regular->piece_end(), nullptr);
    for (int i = 0; i < 5000; ++i) {
      std::string text;
      for (size_t count = random() % 12 + 1; count > 0; --count) text += parts[random() % std::size(parts)];
      const auto found = known->find_all(text), wanted = regular->find_all(text);
      ASSERT_TRUE(found && wanted);
      ASSERT_EQ(*found, *wanted) << "\"" << text << "\" by " << pattern;
    }
  }
}

// Any piece ends in time that is bounded by the text.
TEST(KnownPatterns, AreLinear) {
  for (const char* unit : {" ", "\n", " \n", "'", "a", "1", "!", "\u3000", "'\u017F", "\r\n\r\n a"}) {
    std::string text;
    while (text.size() < (1 << 20)) text += unit;
    for (const std::string_view pattern : {kGpt2Words, kLlama3Words, kQwen2Words}) {
      const auto found = TextPattern::expression(std::string(pattern))->find_all(text);
      ASSERT_TRUE(found);
      EXPECT_EQ(found->front().begin, 0U);
      EXPECT_EQ(found->back().end, text.size());
    }
  }
}

// The ids that a tokenizer.json with these stages gives. Its vocabulary is that of the bytes of ASCII, as ByteLevel
// spells them: printable ones as themselves, others as characters from U+0100 on.
std::vector<TokenId> ids_of_stages(std::string split, std::string_view pattern, std::string_view bytes,
                                   std::string_view text) {
  split.replace(split.find("PATTERN"), 7, JsonWriter().string(pattern).take());
  JsonWriter vocabulary;
  vocabulary.begin_object();
  for (unsigned byte = 0; byte < 128; ++byte) {
    const bool is_printable = byte > 32 && byte < 127;
    std::string spelled;
    append_utf8(spelled, is_printable ? byte : 0x100 + (byte == 127 ? 33 : byte));
    vocabulary.key(spelled).number(byte);
  }
  const std::string json =
      fmt::format(R"({{"pre_tokenizer":{{"type":"Sequence","pretokenizers":[{},{}]}},"decoder":{{"type":"ByteLevel"}},)"
                  R"("model":{{"type":"BPE","vocab":{},"merges":[]}}}})",
                  split, bytes, vocabulary.end_object().take());
  auto description = parse_tokenizer_json(json, "tokenizer.json");
  EXPECT_TRUE(description) << (description ? "" : description.error().message);
  auto tokenizer = Tokenizer::make(std::move(*description));
  EXPECT_TRUE(tokenizer) << (tokenizer ? "" : tokenizer.error().message);
  return encode(*tokenizer, text);
}

// Stages that do something else with the pieces of a known pattern must not be taken for the usual ones.
TEST(KnownPatterns, GiveTheIdsOfTheirExpressionsWhateverHappensToThePieces) {
  const std::string_view text = "ab  12345 it's\n\n x!";
  const std::string unknown = fmt::format("(?:{})", kLlama3Words);
  for (const char* split : {R"({"type":"Split","pattern":{"Regex":PATTERN},"behavior":"Isolated","invert":false})",
                            R"({"type":"Split","pattern":{"Regex":PATTERN},"behavior":"Removed","invert":false})",
                            R"({"type":"Split","pattern":{"Regex":PATTERN},"behavior":"Removed","invert":true})"}) {
    for (const char* bytes : {R"({"type":"ByteLevel","add_prefix_space":false,"use_regex":false})",
                              R"({"type":"ByteLevel","add_prefix_space":true,"use_regex":false})",
                              R"({"type":"ByteLevel","add_prefix_space":false,"use_regex":true})"}) {
      EXPECT_EQ(ids_of_stages(split, kLlama3Words, bytes, text), ids_of_stages(split, unknown, bytes, text))
          << split << bytes;
    }
  }
}

// ---------------------------------------------------------------- merging

TEST(BytePairs, MergeTheLowestRankFirstAndTheLeftmostOfEquals) {
  EXPECT_THAT(encode(tokenizer_of({{"a", "a"}, {"aa", "a"}}), "aaaaa"), ElementsAre(256, 257));
  EXPECT_THAT(encode(tokenizer_of({{"b", "c"}, {"a", "b"}}), "abc"), ElementsAre('a', 256));
  EXPECT_THAT(encode(tokenizer_of({{"a", "b"}, {"b", "c"}}), "abc"), ElementsAre(256, 'c'));
}

TEST(BytePairs, GiveTheSameForLongPiecesAsForShortOnes) {
  const Tokenizer tokenizer = tokenizer_of({{"a", "b"}, {"b", "a"}, {"ab", "ab"}, {"a", "a"}, {"abab", "a"}});
  std::string text;
  for (int i = 0; i < 60; ++i) text += i % 7 < 4 ? 'a' : 'b';
  const auto expected = encode(tokenizer, text);
  // The same text behind a long run of something that never merges with it.
  const std::string padding(64, 'z');
  auto longer = encode(tokenizer, padding + text);
  longer.erase(longer.begin(), longer.begin() + 64);
  EXPECT_EQ(longer, expected);
}

// What is remembered of pieces, short ones, long ones and those too long for it, must not show.
TEST(BytePairs, GiveRememberedPiecesTheTokensThatTheyHaveAlone) {
  const Tokenizer tokenizer = tokenizer_of({{"a", "b"}, {"b", "a"}, {"ab", "ab"}, {" ", "c"}, {"abab", "a"}});
  std::mt19937 random(1);
  std::vector<std::string> words;
  for (size_t i = 0; i < 400; ++i) {
    std::string word = " ";
    for (size_t size = i % 80 + 1; size > 0; --size) word += static_cast<char>('a' + random() % 3);
    words.push_back(word);
  }
  for (const size_t count : {size_t{40}, size_t{4000}}) {  // with little memory and with much
    std::string text;
    std::vector<TokenId> expected;
    for (size_t i = 0; i < count; ++i) {
      const std::string& word = words[random() % words.size()];
      text += word;
      const auto ids = encode(tokenizer, word);
      expected.insert(expected.end(), ids.begin(), ids.end());
    }
    ASSERT_EQ(encode(tokenizer, text), expected);
  }
}

// A quadratic search would take minutes for any of these.
TEST(BytePairs, TakeAMebibyteWithoutASpaceInStride) {
  constexpr size_t kMebibyte = 1 << 20;
  std::vector<std::pair<std::string, std::string>> merges;
  for (const std::string start : {"a", "-", " "}) {
    for (std::string run = start; run.size() < 64; run += run) merges.emplace_back(run, run);
  }
  merges.emplace_back("x", "y");
  for (std::string run = "xy"; run.size() < 64; run += run) merges.emplace_back(run, run);
  const Tokenizer tokenizer = tokenizer_of(merges);
  for (const char c : {'a', '-', ' '}) {
    EXPECT_EQ(encode(tokenizer, std::string(kMebibyte, c)).size(), kMebibyte / 64) << c;
  }
  std::string alternating;
  while (alternating.size() < kMebibyte) alternating += "xy";
  EXPECT_EQ(encode(tokenizer, alternating).size(), kMebibyte / 64);
  // One that never merges, and one without a single piece of more than two bytes.
  EXPECT_EQ(encode(tokenizer, std::string(kMebibyte, 'z')).size(), kMebibyte);
  std::string mixed;
  while (mixed.size() < kMebibyte) mixed += "a-";
  EXPECT_EQ(encode(tokenizer, mixed).size(), kMebibyte);
}

TEST(BytePairs, GiveTheSameWhateverTheLengthOfAPiece) {
  // Tokens of every length up to 20, of which merges reach only every second one.
  std::vector<std::pair<std::string, std::string>> merges;
  for (size_t length = 1; length < 20; length += 2) {
    merges.emplace_back(std::string(length, 'q'), "q");
    merges.emplace_back(std::string(length + 1, 'q'), "q");
  }
  const Tokenizer tokenizer = tokenizer_of(merges);
  for (size_t length = 1; length < 20; ++length) {
    const std::string text(length, 'q');
    const auto ids = encode(tokenizer, text);
    EXPECT_EQ(*tokenizer.decode(ids), text);
    // Behind a run that never merges with it, which makes the piece a long one.
    auto longer = encode(tokenizer, std::string(64, 'z') + text);
    longer.erase(longer.begin(), longer.begin() + 64);
    EXPECT_EQ(longer, ids) << length;
  }
}

TEST(BytePairs, TakeATokenThatNoMergeMakesOnlyWhereWholePiecesComeFirst) {
  TokenizerDescription description = gpt2_description();
  auto& vocabulary = std::get<BytePairVocabulary>(description.model);
  const std::string longest = "abcdefghijklmnopqrst";
  for (TokenId byte = 0; byte < 256; ++byte) {
    vocabulary.tokens.push_back({std::string(1, static_cast<char>(byte)), byte});
  }
  vocabulary.tokens.insert(vocabulary.tokens.end(), {{"ab", 256}, {"abc", 257}, {longest, 258}});
  vocabulary.merges = {{"a", "b"}};
  const auto merging = Tokenizer::make(description);
  ASSERT_TRUE(merging);
  EXPECT_THAT(encode(*merging, "abc"), ElementsAre(256, 'c'));
  EXPECT_EQ(encode(*merging, longest).size(), longest.size() - 1);
  vocabulary.whole_pieces_first = true;
  const auto whole = Tokenizer::make(description);
  ASSERT_TRUE(whole);
  EXPECT_THAT(encode(*whole, "abc"), ElementsAre(257));
  EXPECT_THAT(encode(*whole, "abcd"), ElementsAre(256, 'c', 'd'));
  EXPECT_THAT(encode(*whole, longest), ElementsAre(258));
}

TEST(BytePairs, DropWhatNoTokenSpellsWhereNothingStandsForTheUnknown) {
  TokenizerDescription description = gpt2_description();
  auto& vocabulary = std::get<BytePairVocabulary>(description.model);
  vocabulary.tokens = {{"a", 0}, {"b", 1}, {"ab", 2}};
  vocabulary.merges = {{"a", "b"}};
  auto without = Tokenizer::make(description);
  ASSERT_TRUE(without);
  EXPECT_THAT(encode(*without, "axb"), ElementsAre(2));
  vocabulary.unknown = 7;
  auto with = Tokenizer::make(description);
  ASSERT_TRUE(with);
  EXPECT_THAT(encode(*with, "axb"), ElementsAre(0, 7, 1));
}

// ---------------------------------------------------------------- the whole

TEST(Tokenizer, BringsBackAnyBytes) {
  const Tokenizer tokenizer = tokenizer_of({{"t", "h"}, {"th", "e"}, {" ", "the"}});
  std::string text = "the other the\xff\x80 caf\u00e9 \U0001F600\n\n\t end";
  text += '\0';
  const auto ids = encode(tokenizer, text);
  const auto back = tokenizer.decode(ids);
  ASSERT_TRUE(back);
  EXPECT_EQ(*back, text);
}

TEST(Tokenizer, FindsAddedTokensLeftmostAndLongest) {
  const Tokenizer tokenizer =
      tokenizer_of({}, {added_token("<s>", 300, true), added_token("<s>>", 301, true), added_token("ham", 302, false)});
  EXPECT_THAT(encode(tokenizer, "a<s>>b<s>"), ElementsAre('a', 301, 'b', 300));
  EXPECT_THAT(encode(tokenizer, "ham<s>", {.special_tokens = false, .add_special_tokens = true, .fit_length = false}),
              ElementsAre(302, '<', 's', '>'));
  const std::vector<TokenId> ids = {'a', 300, 'b'};
  EXPECT_EQ(*tokenizer.decode(ids), "a<s>b");
  EXPECT_EQ(*tokenizer.decode(ids, {.skip_special_tokens = true}), "ab");
  EXPECT_EQ(tokenizer.find("<s>"), 300U);
}

TEST(Tokenizer, NamesATokenThatDoesNotExist) {
  const Tokenizer tokenizer = tokenizer_of({});
  const std::vector<TokenId> ids = {65, 70'000};
  const auto text = tokenizer.decode(ids);
  ASSERT_FALSE(text);
  EXPECT_THAT(text.error().message, HasSubstr("no token 70000"));
}

TEST(StreamDecoder, HoldsACharacterBackUntilItIsWhole) {
  const Tokenizer tokenizer = tokenizer_of({});
  StreamDecoder decoder(tokenizer);
  EXPECT_EQ(*decoder.next(0xF0), "");
  EXPECT_EQ(*decoder.next(0x9F), "");
  EXPECT_EQ(*decoder.next(0x98), "");
  EXPECT_EQ(*decoder.next(0x80), "\U0001F600");
  EXPECT_EQ(*decoder.next(0xE4), "");
  EXPECT_EQ(*decoder.next('x'), "\uFFFDx");
  EXPECT_EQ(*decoder.next(0xFF), "\uFFFD");
  EXPECT_EQ(*decoder.next(0xE4), "");
  EXPECT_EQ(decoder.finish(), "\uFFFD");
  EXPECT_EQ(decoder.finish(), "");
}

// ---------------------------------------------------------------- files

TEST(TokenizerFile, ReadsTheFlatFileOfGptRs) {
  const Tokenizer tokenizer = make_tokenizer("gptrs_flat.json");
  EXPECT_THAT(encode(tokenizer, "Hello world"), ElementsAre(316, 303, 304, 76, 68));
  EXPECT_THAT(encode(tokenizer, " Hello world"), ElementsAre(221, 316, 303, 304, 76, 68));
  ASSERT_TRUE(tokenizer.find("<|endoftext|>"));
  EXPECT_TRUE(tokenizer.is_special(*tokenizer.find("<|endoftext|>")));
}

TEST(TokenizerFile, ReadsVocabularyAndMergesOfGpt2) {
  auto description = parse_vocab_and_merges(R"({"a":0,"b":1,"\u0120":2,"ab":3,"\u0120ab":4,"<|endoftext|>":5})",
                                            "vocab.json", "#version: 0.2\na b\n\u0120 ab\r\n", "merges.txt");
  ASSERT_TRUE(description) << description.error().message;
  const auto tokenizer = Tokenizer::make(std::move(*description));
  ASSERT_TRUE(tokenizer);
  EXPECT_THAT(encode(*tokenizer, "ab ab<|endoftext|>a"), ElementsAre(3, 4, 5, 0));
}

TEST(TokenizerFile, SaysWhatItDoesNotUnderstand) {
  const auto message = [](const std::string& json) {
    const auto parsed = parse_tokenizer_json(json, "t.json");
    return parsed ? std::string("parsed") : parsed.error().message;
  };
  EXPECT_THAT(message(R"({"model":{"type":"Trigram","vocab":{}}})"), HasSubstr("its model is \"Trigram\""));
  EXPECT_THAT(message(R"({"normalizer":{"type":"Shout"},"model":{"vocab":{},"merges":[]}})"),
              HasSubstr("t.json: normalizer: normalizer \"Shout\" is not known"));
  EXPECT_THAT(
      message(R"({"pre_tokenizer":{"type":"Sequence","pretokenizers":[{"type":"Digits"},{"type":"Syllables"}]},)"
              R"("model":{"vocab":{}}})"),
      HasSubstr("pre-tokenizer \"Syllables\" is not known"));
  EXPECT_THAT(message(R"({"decoder":{"type":"Sing"},"model":{"vocab":{}}})"), HasSubstr("decoder \"Sing\""));
  EXPECT_THAT(message(R"({"post_processor":{"type":"Frame"},"model":{"vocab":{}}})"), HasSubstr("\"Frame\""));
  EXPECT_THAT(message(R"({"model":{"type":"BPE","vocab":{},"merges":[],"dropout":0.1}})"), HasSubstr("dropout of 0.1"));
  EXPECT_THAT(message(R"({"version":"1.0"})"), HasSubstr("no vocabulary"));
  EXPECT_THAT(message(R"({"vocab":{"a":4294967296},"merges":[]})"), HasSubstr("32 bits"));
  EXPECT_THAT(message(R"({"vocab":{"a":0},"merges":["ab"]})"), HasSubstr("has no space"));
}

TEST(TokenizerFile, TakesTemplatesThatAddNothingAndWholePieces) {
  const auto description =
      parse_tokenizer_json(R"({"pre_tokenizer":{"type":"ByteLevel","add_prefix_space":false},)"
                           R"("post_processor":{"type":"TemplateProcessing",)"
                           R"("single":[{"Sequence":{"id":"A","type_id":0}}],"special_tokens":{}},)"
                           R"("decoder":{"type":"ByteLevel"},)"
                           R"("model":{"type":"BPE","vocab":{"a":0,"b":1,"ab":2},"merges":[],"ignore_merges":true}})",
                           "t.json");
  ASSERT_TRUE(description) << description.error().message;
  const auto tokenizer = Tokenizer::make(*description);
  ASSERT_TRUE(tokenizer);
  EXPECT_THAT(encode(*tokenizer, "ab"), ElementsAre(2));
}

// ---------------------------------------------------------------- batches

// Words are remembered within a batch, those of many tokens too, and threads share the texts: none of it may show.
TEST(TokenizerBatch, GivesWhatEachTextGivesAlone) {
  const Tokenizer tokenizer = tokenizer_of({{"a", "b"}, {"ab", "c"}, {" ", "x"}});
  std::vector<std::string> texts = {"", "abcabcabcabcabc", std::string(40'000, 'z')};
  for (unsigned i = 0; i < 3000; ++i) {
    texts.push_back(fmt::format("abc {} xyzzyxyzzy {:x} abcdefgh ab {}", i, i * 2654435761U, i % 7));
    if (i % 100 == 0) texts.emplace_back();
  }
  const std::vector<std::string_view> views(texts.begin(), texts.end());
  for (const unsigned threads : {1U, 2U, 5U, 0U}) {
    const auto batch = tokenizer.encode_batch(views, {}, threads);
    ASSERT_TRUE(batch) << batch.error().message;
    ASSERT_EQ(batch->size(), texts.size());
    for (size_t i = 0; i < texts.size(); ++i) {
      ASSERT_EQ((*batch)[i].ids, encode(tokenizer, texts[i])) << texts[i] << ", " << threads << " threads";
    }
  }
  EXPECT_TRUE(tokenizer.encode_batch({}).value().empty());
}

TEST(TokenizerBatch, WordsForWhichThereIsNoMoreRoomAreEncodedAnew) {
  const Tokenizer tokenizer = tokenizer_of({});
  std::string text;
  for (unsigned i = 0; i < 14'000; ++i) text += fmt::format(" {:07}", i);
  for (unsigned i = 0; i < 14'000; i += 100) text += fmt::format(" {:07}", i);
  std::vector<TokenId> bytes;
  for (const char c : text) bytes.push_back(static_cast<unsigned char>(c));
  const std::string_view view = text;
  const auto batch = tokenizer.encode_batch({&view, 1});
  ASSERT_TRUE(batch) << batch.error().message;
  EXPECT_EQ((*batch)[0].ids, bytes);
}

}  // namespace
}  // namespace ballast::testing
