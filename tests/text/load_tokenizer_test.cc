#include "ballast/text/load_tokenizer.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/support/gguf_builder.h"
#include "tests/support/temp_folder.h"
#include "tests/support/test_files.h"

namespace ballast::testing {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

constexpr std::string_view kSmall =
    R"({"added_tokens":[{"id":2,"content":"<s>","special":true},{"id":3,"content":"</s>","special":true}],)"
    R"("pre_tokenizer":{"type":"Whitespace"},"model":{"type":"WordLevel","vocab":{"[UNK]":0,"a":1},"unk_token":"[UNK]"}})";

std::string array_of(MetaType element, uint64_t count, const std::string& elements) {
  return GgufBuilder::number(static_cast<uint32_t>(element)) + GgufBuilder::number(count) + elements;
}

std::string gguf_file() {
  GgufBuilder builder;
  std::string tokens;
  for (const char* token : {"a", "b", "ab", "<|im_end|>"}) tokens += GgufBuilder::text(token);
  builder.pair("general.architecture", MetaType::kText, GgufBuilder::text("llama"))
      .pair("tokenizer.ggml.model", MetaType::kText, GgufBuilder::text("gpt2"))
      .pair("tokenizer.ggml.pre", MetaType::kText, GgufBuilder::text("qwen2"))
      .pair("tokenizer.ggml.tokens", MetaType::kArray, array_of(MetaType::kText, 4, tokens))
      .pair("tokenizer.ggml.merges", MetaType::kArray, array_of(MetaType::kText, 1, GgufBuilder::text("a b")))
      .pair("tokenizer.ggml.eos_token_id", 3U);
  return builder.build();
}

TEST(LoadTokenizer, TakesTheFirstFileOfAFolderThatIsOne) {
  const TempFolder folder;
  const auto nothing = load_tokenizer(folder.path());
  ASSERT_FALSE(nothing);
  EXPECT_EQ(nothing.error().code, ErrorCode::kNotFound);
  EXPECT_THAT(nothing.error().message, HasSubstr("none of tokenizer.json, tokenizer.model and vocab.json"));
  folder.write("tokenizer.model", read_text_file(test_file_path("sentencepiece/bpe_plain.model")));
  EXPECT_EQ(load_tokenizer(folder.path())->size(), 200U);
  folder.write("tokenizer.json", kSmall);
  EXPECT_EQ(load_tokenizer(folder.path())->size(), 4U);
}

TEST(LoadTokenizer, TakesMarksFromTheConfigBesideIt) {
  const TempFolder folder;
  folder.write("tokenizer.json", kSmall);
  folder.write(
      "tokenizer_config.json",
      R"({"add_bos_token":true,"bos_token":"<s>","eos_token":{"content":"</s>","lstrip":false},"unk_token":null})");
  const auto tokenizer = load_tokenizer(folder.path());
  ASSERT_TRUE(tokenizer) << tokenizer.error().message;
  EXPECT_EQ(tokenizer->marks().begin, 2U);
  EXPECT_EQ(tokenizer->marks().end, 3U);
  EXPECT_THAT(tokenizer->marks().stops, ElementsAre(3));
  EXPECT_THAT(*tokenizer->encode("a"), ElementsAre(2, 1));
  EXPECT_THAT(*tokenizer->encode("a", {.special_tokens = true, .add_special_tokens = false, .fit_length = false}),
              ElementsAre(1));
}

TEST(LoadTokenizer, FindsTheVocabularyInsideAGgufFile) {
  const TempFolder folder;
  const std::string path = folder.write("model.gguf", gguf_file());
  EXPECT_EQ(find_tokenizer_beside(path), path);
  const auto tokenizer = load_tokenizer(path);
  ASSERT_TRUE(tokenizer) << tokenizer.error().message;
  EXPECT_THAT(*tokenizer->encode("ab<|im_end|>"), ElementsAre(2, 3));
  EXPECT_THAT(tokenizer->marks().stops, ElementsAre(3));
  GgufBuilder empty;
  empty.pair("general.architecture", MetaType::kText, GgufBuilder::text("llama"));
  const auto none = load_tokenizer(folder.write("none.gguf", empty.build()));
  ASSERT_FALSE(none);
  EXPECT_THAT(none.error().message, HasSubstr("holds no tokenizer"));
}

TEST(LoadTokenizer, AFolderWithOneGgufFileHasTheVocabularyOfThat) {
  const TempFolder folder;
  folder.write("model.gguf", gguf_file());
  EXPECT_EQ(find_tokenizer_beside(folder.path()), folder.path("model.gguf"));
  folder.write("other.gguf", gguf_file());
  EXPECT_EQ(find_tokenizer_beside(folder.path()), std::nullopt);
  folder.write("tokenizer.json", kSmall);
  EXPECT_EQ(find_tokenizer_beside(folder.path()), folder.path("tokenizer.json"));
}

TEST(LoadTokenizer, SaysWhatItFound) {
  const TempFolder folder;
  const auto other = load_tokenizer(folder.write("tokenizer.json", "hello"));
  ASSERT_FALSE(other);
  EXPECT_EQ(other.error().code, ErrorCode::kUnknownFormat);
  EXPECT_THAT(other.error().message, HasSubstr("neither a tokenizer.json nor a SentencePiece model nor a GGUF file"));
}

}  // namespace
}  // namespace ballast::testing
