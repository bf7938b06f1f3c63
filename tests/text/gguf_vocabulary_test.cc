// Vocabularies as GGUF files hold them. Those of real models are compared with llama.cpp in tests/interop.
#include "ballast/text/tokenizer/gguf_vocabulary.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "ballast/text/tokenizer.h"
#include "ballast/text/tokenizer/text_pattern.h"
#include "tests/support/gguf_vocabularies.h"

namespace ballast::testing {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using Type = GgufVocabulary;

constexpr EncodeOptions kTypedText{.special_tokens = false, .add_special_tokens = false, .fit_length = false};

Tokenizer make(GgufVocabulary vocabulary) {
  auto description = describe_gguf_vocabulary(std::move(vocabulary), "m.gguf");
  EXPECT_TRUE(description) << (description ? "" : description.error().message);
  auto tokenizer = Tokenizer::make(std::move(*description));
  EXPECT_TRUE(tokenizer) << (tokenizer ? "" : tokenizer.error().message);
  return std::move(*tokenizer);
}

GgufVocabulary llama() {
  GgufVocabulary v;
  v.model = "llama";
  add(v, "<unk>", 0, Type::kUnknown);
  add(v, "<s>", 0, Type::kControl);
  add(v, "</s>", 0, Type::kControl);
  for (unsigned byte = 0; byte < 256; ++byte) {
    constexpr char kHex[] = "0123456789ABCDEF";
    add(v, std::string("<0x") + kHex[byte / 16] + kHex[byte % 16] + ">", 0, Type::kByte);
  }
  for (const char* text : {"\u2581", "a", "b", "<", "s", ">", "s>"}) add(v, text, -10, Type::kNormal);
  add(v, "ab", -1, Type::kNormal);
  add(v, "\u2581ab", -2, Type::kNormal);
  add(v, "<tool>", 0, Type::kUserDefined);
  return v;
}

TEST(GgufVocabulary, OfLlamaMergesByScoreAndSpellsTheUnknownInBytes) {
  const Tokenizer tokenizer = make(llama());
  EXPECT_THAT(*tokenizer.encode("ab"), ElementsAre(1, 267));  // a begin, then with the space that is put before
  EXPECT_THAT(*tokenizer.encode("ab\u00e9", kTypedText), ElementsAre(267, 3 + 0xC3, 3 + 0xA9));
  EXPECT_EQ(*tokenizer.decode(*tokenizer.encode("ab \u00e9 b", kTypedText)), "ab \u00e9 b");
  // Behind a token of its own the text begins anew.
  EXPECT_THAT(*tokenizer.encode("ab<tool>ab", kTypedText), ElementsAre(267, 268, 267));
}

// "<" and "s>" are tokens, and so is what they join to; but that is a mark.
TEST(GgufVocabulary, OfLlamaNeverMergesTextToAMark) {
  const Tokenizer tokenizer = make(llama());
  EXPECT_THAT(*tokenizer.encode("<s>", kTypedText), ElementsAre(259, 262, 265));
  EXPECT_THAT(*tokenizer.encode("<s>", {.special_tokens = true, .add_special_tokens = false, .fit_length = false}),
              ElementsAre(1));
}

GgufVocabulary gpt2(std::string pre) {
  GgufVocabulary v;
  v.model = "gpt2";
  v.pre = std::move(pre);
  for (const char* text : {"a", "b", "1", "\u0120", "ab", "\u0120ab", "11", "'", "s"}) add(v, text, 0, Type::kNormal);
  add(v, "<|im_end|>", 0, Type::kNormal);
  v.merges = {"a b", "\u0120 ab", "1 1", "a nowhere"};
  return v;
}

TEST(GgufVocabulary, OfBytePairsCutsAsItsNameSays) {
  EXPECT_THAT(*make(gpt2("gpt-2")).encode("ab ab11", kTypedText), ElementsAre(4, 5, 6));
  EXPECT_THAT(*make(gpt2("smollm")).encode("ab ab11", kTypedText), ElementsAre(4, 5, 2, 2));
  EXPECT_THAT(*make(gpt2("qwen2")).encode("11", kTypedText), ElementsAre(2, 2));
}

TEST(GgufVocabulary, WithAnUnknownNameSaysThatItGuesses) {
  const Tokenizer tokenizer = make(gpt2("made-up"));
  ASSERT_EQ(tokenizer.notes().size(), 1U);
  EXPECT_THAT(tokenizer.notes()[0], HasSubstr("\"made-up\""));
  EXPECT_TRUE(make(gpt2("default")).notes().empty());
}

TEST(GgufVocabulary, KnowsMarksOfTheEndOfATurnByTheirText) {
  const Tokenizer tokenizer = make(gpt2("qwen2"));
  EXPECT_TRUE(tokenizer.is_special(9));
  EXPECT_THAT(tokenizer.marks().stops, ElementsAre(9));
  EXPECT_THAT(*tokenizer.encode("ab<|im_end|>"), ElementsAre(4, 9));
}

TEST(GgufVocabulary, OfBertPutsWordsTogetherAndMarksAroundThem) {
  GgufVocabulary v;
  v.model = "bert";
  for (const char* text : {"[PAD]", "[UNK]", "[CLS]", "[SEP]"}) add(v, text, 0, Type::kControl);
  for (const char* text : {"\u2581wa", "ter", "\u2581!"}) add(v, text, 0, Type::kNormal);
  v.marks.unknown = 1;
  v.marks.begin = 2;
  v.marks.separator = 3;
  const Tokenizer tokenizer = make(std::move(v));
  EXPECT_THAT(*tokenizer.encode("W\u00e1ter!"), ElementsAre(2, 4, 5, 6, 3));
  EXPECT_THAT(*tokenizer.encode("ter"), ElementsAre(2, 1, 3));
  const auto pair = tokenizer.encode_pair("water", "!");
  EXPECT_THAT(pair->ids, ElementsAre(2, 4, 5, 3, 6, 3));
  EXPECT_THAT(pair->type_ids, ElementsAre(0, 0, 0, 0, 1, 1));
  EXPECT_EQ(*tokenizer.decode(std::vector<TokenId>{4, 5, 6}), "water !");
}

TEST(GgufVocabulary, OfT5TakesTheLikeliestWay) {
  GgufVocabulary v;
  v.model = "t5";
  add(v, "<pad>", 0, Type::kControl);
  add(v, "</s>", 0, Type::kControl);
  add(v, "<unk>", 0, Type::kUnknown);
  add(v, "\u2581a", -2, Type::kNormal);
  add(v, "\u2581", -1.5, Type::kNormal);
  add(v, "a", -1, Type::kNormal);
  add(v, "ab", -1.5, Type::kNormal);
  v.add_space_prefix = true;
  v.remove_extra_spaces = true;
  const Tokenizer tokenizer = make(std::move(v));
  EXPECT_THAT(*tokenizer.encode("  a   ab "), ElementsAre(3, 4, 6, 1));
  EXPECT_THAT(*tokenizer.encode("xyz"), ElementsAre(4, 2, 1));
}

TEST(GgufVocabulary, RefusesModelsByNameAndListsThatDoNotFit) {
  GgufVocabulary rwkv;
  rwkv.model = "rwkv";
  rwkv.tokens = {"a"};
  const auto described = describe_gguf_vocabulary(std::move(rwkv), "m.gguf");
  ASSERT_FALSE(described);
  EXPECT_EQ(described.error().code, ErrorCode::kUnsupported);
  EXPECT_THAT(described.error().message, HasSubstr("\"rwkv\""));

  Description description;
  EXPECT_EQ(read_gguf_vocabulary(description, "m.gguf").error().code, ErrorCode::kNotFound);
  const std::vector<std::string_view> tokens = {"a", "b"};
  const std::vector<float> scores = {1.0F};
  description.metadata = {{"tokenizer.ggml.model", std::string("llama")},
                          {"tokenizer.ggml.tokens", MetaArray::of_texts(tokens)},
                          {"tokenizer.ggml.scores", MetaArray::of(std::span<const float>(scores))}};
  const auto read = read_gguf_vocabulary(description, "m.gguf");
  ASSERT_FALSE(read);
  EXPECT_THAT(read.error().message, HasSubstr("2 tokens but 1 of tokenizer.ggml.scores"));
}

TEST(GgufVocabulary, OfBytesMayListNoMergesButMustHaveTheList) {
  const std::vector<std::string_view> tokens = {"a", "b"};
  Description description;
  description.metadata = {{"tokenizer.ggml.model", std::string("gpt2")},
                          {"tokenizer.ggml.pre", std::string("gpt-2")},
                          {"tokenizer.ggml.tokens", MetaArray::of_texts(tokens)}};
  const auto cut_short = read_gguf_vocabulary(description, "m.gguf");
  ASSERT_FALSE(cut_short);
  EXPECT_EQ(cut_short.error().message, "m.gguf: it has no tokenizer.ggml.merges");
  description.metadata.push_back({"tokenizer.ggml.merges", MetaArray::of_texts({})});
  auto read = read_gguf_vocabulary(description, "m.gguf");
  ASSERT_TRUE(read) << read.error().message;
  EXPECT_THAT(*make(std::move(*read)).encode("abba", kTypedText), ElementsAre(0, 1, 1, 0));
}

TEST(GgufVocabulary, ReadsTheKeysOfAFile) {
  const std::vector<std::string_view> tokens = {"<s>", "a"};
  const std::vector<int32_t> types = {3, 1};
  Description description;
  description.metadata = {{"tokenizer.ggml.model", std::string("llama")},
                          {"tokenizer.ggml.tokens", MetaArray::of_texts(tokens)},
                          {"tokenizer.ggml.token_type", MetaArray::of(std::span<const int32_t>(types))},
                          {"tokenizer.ggml.bos_token_id", uint64_t{0}},
                          {"tokenizer.ggml.eos_token_id", uint64_t{7}},
                          {"tokenizer.ggml.add_bos_token", false}};
  const auto read = read_gguf_vocabulary(description, "m.gguf");
  ASSERT_TRUE(read) << read.error().message;
  EXPECT_THAT(read->tokens, ElementsAre("<s>", "a"));
  EXPECT_EQ(read->marks.begin, 0U);
  EXPECT_EQ(read->marks.end, std::nullopt);  // beyond the vocabulary
  EXPECT_EQ(read->add_begin, false);
}

TEST(GgufPreTokenizers, AreExpressionsThatCompile) {
  for (const char* name :
       {"llama-bpe",    "qwen2",          "qwen35",      "gpt-4o",    "tekken", "gpt-2",  "starcoder", "falcon",
        "deepseek-llm", "deepseek-coder", "deepseek-v3", "command-r", "smollm", "refact", "bloom",     "viking",
        "tiny_aya",     "bailingmoe",     "seed-coder",  "minicpm5",  "gemma4", "default"}) {
    const GgufPreTokenizer pre = gguf_pre_tokenizer(name);
    EXPECT_TRUE(pre.known) << name;
    for (const std::string& expression : pre.expressions) {
      const auto compiled = TextPattern::expression(expression);
      EXPECT_TRUE(compiled) << name << ": " << (compiled ? "" : compiled.error().message);
    }
  }
}

}  // namespace
}  // namespace ballast::testing
