// Tokenizer files that lie, and texts that take long: an error or a result, within bounds.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>

#include "ballast/text/load_tokenizer.h"
#include "ballast/text/tokenizer/tokenizer_file.h"
#include "tests/support/temp_folder.h"
#include "tests/support/test_files.h"

namespace ballast::testing {
namespace {

using ::testing::HasSubstr;

std::vector<std::string> attack_files() {
  std::vector<std::string> names;
  for (const auto& entry : std::filesystem::directory_iterator(test_file_path("tokenizers/attacks"))) {
    names.push_back(entry.path().stem().string());
  }
  std::ranges::sort(names);
  return names;
}

class TokenizerAttack : public ::testing::TestWithParam<std::string> {};

// Those that Hugging Face's package takes and that mean something.
bool is_taken(const std::string& name) {
  static const std::vector<std::string> kTaken = {"tok_added_id_clash",      "tok_added_id_far", "tok_id_duplicate",
                                                  "tok_regex_empty",         "tok_regex_redos",  "tok_replace_empty",
                                                  "tok_unigram_empty_piece", "tok_unk_missing"};
  return std::ranges::find(kTaken, name) != kTaken.end();
}

TEST_P(TokenizerAttack, IsRefusedOrBounded) {
  const auto tokenizer = load_tokenizer(test_file_path("tokenizers/attacks/" + GetParam() + ".json"));
  EXPECT_EQ(tokenizer.has_value(), is_taken(GetParam())) << (tokenizer ? "taken" : tokenizer.error().message);
  if (!tokenizer) {
    EXPECT_THAT(tokenizer.error().message, HasSubstr(GetParam())) << "names the file";
    return;
  }
  const std::string text = "Hello the water " + std::string(40, 'a') + "c <|end|> \xff\x80";
  for (const bool fit : {false, true}) {
    const auto encoded =
        tokenizer->encode_full(text, {.special_tokens = true, .add_special_tokens = true, .fit_length = fit});
    if (!encoded) {
      EXPECT_FALSE(encoded.error().message.empty());
      continue;
    }
    EXPECT_LE(encoded->ids.size(), 4 * text.size());
    EXPECT_TRUE(tokenizer->decode(encoded->ids));
  }
}

INSTANTIATE_TEST_SUITE_P(Files, TokenizerAttack, ::testing::ValuesIn(attack_files()),
                         [](const auto& parameter) { return parameter.param; });

Result<Tokenizer> tokenizer_from(const std::string& json) {
  auto description = parse_tokenizer_json(json, "t.json");
  if (!description) return std::move(description).error();
  return Tokenizer::make(std::move(*description));
}

std::string tokenizer_refusal(const std::string& json) {
  const auto tokenizer = tokenizer_from(json);
  return tokenizer ? "taken" : tokenizer.error().message;
}

std::string with_normalizers(const std::string& normalizers) {
  return fmt::format(R"({{"normalizer":{{"type":"Sequence","normalizers":[{}]}},)"
                     R"("model":{{"type":"WordLevel","vocab":{{"[UNK]":0}},"unk_token":"[UNK]"}}}})",
                     normalizers);
}

TEST(TokenizerBounds, AChainOfReplacementsMayNotGrowATextWithoutEnd) {
  std::string chain;
  for (int i = 0; i < 9; ++i) {
    chain += R"({"type":"Replace","pattern":{"String":"a"},"content":"aaaaaaaaaa"},)";
  }
  chain.pop_back();
  const auto tokenizer = tokenizer_from(with_normalizers(chain));
  ASSERT_TRUE(tokenizer) << tokenizer.error().message;
  const auto encoded = tokenizer->encode(std::string(1000, 'a'));
  ASSERT_FALSE(encoded);
  EXPECT_THAT(encoded.error().message, HasSubstr("would make more than"));
}

// What is kept for each token may not be much more than the file holds of it.
TEST(TokenizerBounds, WhatIsKeptOfATokenMayNotGrowMuch) {
  const std::string many(60'000, 'b');
  const std::string grow = R"({"type":"Replace","pattern":{"String":"a"},"content":")" + many + R"("})";
  const std::string again = R"({"type":"Replace","pattern":{"String":"b"},"content":"bbbbbbbbbbbbbbbbbbbbbbbb"})";
  const std::string model = R"("model":{"type":"WordLevel","vocab":{"[UNK]":0,"a":1},"unk_token":"[UNK]"}})";
  EXPECT_THAT(tokenizer_refusal(R"({"decoder":{"type":"Sequence","decoders":[)" + grow + "," + again + "," + again +
                                "," + again + "]}," + model),
              HasSubstr("decoding a token of 1 bytes"));
  std::string added;
  for (int i = 0; i < 200; ++i) {
    added += (i == 0 ? "" : ",") + std::string(R"({"id":)") + std::to_string(i + 2) + R"(,"content":"a)" +
             std::to_string(i) + R"(","normalized":true})";
  }
  EXPECT_THAT(tokenizer_refusal(R"({"added_tokens":[)" + added + R"(],"normalizer":)" + grow + "," + model),
              HasSubstr("bytes of added tokens makes"));
}

TEST(TokenizerBounds, ATemplateMayNotAddWithoutEnd) {
  std::string ids = "1", parts = R"({"Sequence":{"id":"A","type_id":0}})";
  for (int i = 0; i < 1000; ++i) {
    ids += ",1";
    parts += R"(,{"SpecialToken":{"id":"x","type_id":0}})";
  }
  EXPECT_THAT(tokenizer_refusal(R"({"post_processor":{"type":"TemplateProcessing","single":[)" + parts +
                                R"(],"special_tokens":{"x":{"id":"x","ids":[)" + ids + R"(],"tokens":[]}}},)" +
                                R"("model":{"type":"WordLevel","vocab":{"[UNK]":0,"a":1},"unk_token":"[UNK]"}})"),
              HasSubstr("adds more than 65536 tokens"));
}

TEST(TokenizerBounds, AnExpressionThatTakesTooLongIsAnErrorAndNoHang) {
  for (const char* expression : {"(a+)+$", "(a|a)*b", "a*b|a", "(?:a|aa)+c"}) {
    const auto tokenizer = tokenizer_from(
        fmt::format(R"({{"pre_tokenizer":{{"type":"Split","pattern":{{"Regex":"{}"}},"behavior":"Isolated"}},)"
                    R"("model":{{"type":"WordLevel","vocab":{{"[UNK]":0}},"unk_token":"[UNK]"}}}})",
                    expression));
    ASSERT_TRUE(tokenizer) << tokenizer.error().message;
    const auto encoded = tokenizer->encode(std::string(300'000, 'a') + "!");
    if (!encoded) {
      EXPECT_THAT(encoded.error().message, HasSubstr("gave up"));
    }
  }
}

// Quadratic ways through any of these would take minutes.
TEST(TokenizerBounds, LongTextsWithoutASpaceTakeLinearTime) {
  constexpr size_t kLength = 200'000;
  std::string marks = "e";
  while (marks.size() < kLength) marks += "\u0301\u0316";
  const std::vector<std::string> texts = {std::string(kLength, 'a'),       std::string(kLength, ' '),
                                          std::string(kLength, ' ') + "x", std::string(kLength, '\n'),
                                          std::string(kLength, '<'),       marks,
                                          std::string(kLength, '\xff')};
  for (const char* name : {"bpe_llama2", "bpe_llama3", "bpe_deepseek3", "bpe_clip", "unigram_t5", "unigram_precompiled",
                           "wordpiece_bert_uncased", "bpe_prefix_fuse"}) {
    const auto tokenizer = load_tokenizer(test_file_path(fmt::format("tokenizers/{}.json", name)));
    ASSERT_TRUE(tokenizer);
    for (const std::string& text : texts) EXPECT_TRUE(tokenizer->encode(text)) << name;
  }
}

TEST(TokenizerBounds, TokensThatShareALongBeginningAreFoundInLinearTime) {
  TokenizerDescription description = gpt2_description();
  auto& vocabulary = std::get<BytePairVocabulary>(description.model);
  for (TokenId byte = 0; byte < 256; ++byte)
    vocabulary.tokens.push_back({std::string(1, static_cast<char>(byte)), byte});
  for (size_t length = 1000; length < 1100; ++length) {
    AddedToken token;
    token.text = std::string(length, 'a') + "b";
    token.id = static_cast<TokenId>(length);
    description.added.push_back(std::move(token));
  }
  const auto tokenizer = Tokenizer::make(std::move(description));
  ASSERT_TRUE(tokenizer);
  EXPECT_EQ(tokenizer->encode(std::string(300'000, 'a'))->size(), 300'000U);
  EXPECT_EQ(tokenizer->encode(std::string(1050, 'a') + "b")->size(), 1U);
}

}  // namespace
}  // namespace ballast::testing
