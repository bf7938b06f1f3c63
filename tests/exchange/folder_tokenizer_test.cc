// Vocabularies of GGUF files as tokenizer.json: the same tokens for every text. Those of real models are compared in
// tests/interop.
#include "ballast/exchange/folder_tokenizer.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "ballast/text/find_chat_template.h"
#include "ballast/text/load_tokenizer.h"
#include "ballast/text/tokenizer.h"
#include "ballast/text/tokenizer/tokenizer_file.h"
#include "tests/support/gguf_vocabularies.h"
#include "tests/support/temp_folder.h"
#include "tests/support/test_files.h"
#include "tests/support/written_folder.h"

namespace ballast::testing {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;
using Type = GgufVocabulary;

constexpr const char* kTexts[] = {
    "",          "ab",           " ab ab",        "ab  ab\n\nab",      "aab abab bba", "<s>ab</s>ab", "\u00e9\u4e2d",
    "11 111 1a", "a's b'S 'ab ", "ab<tool>ab  a", "\u2581ab \u2581 b", "AB Ab\u0301",  "a\tb\r\n",    "\U0001F600 ab!?",
};

GgufVocabulary scored() {
  GgufVocabulary v;
  v.model = "llama";
  add(v, "<unk>", 0, Type::kUnknown);
  add(v, "<s>", 0, Type::kControl);
  add(v, "</s>", 0, Type::kControl);
  for (unsigned byte = 0; byte < 256; ++byte) add(v, fmt::format("<0x{:02X}>", byte), 0, Type::kByte);
  for (const char* text : {"\u2581", "a", "b", "<", "s", ">", "s>", "1"}) add(v, text, -100);
  add(v, "ab", -1);
  add(v, "\u2581ab", -2);
  add(v, "ba", -3);
  add(v, "aab", -4);
  add(v, "abab", -5);
  add(v, "\u2581\u2581", -6);
  add(v, "<tool>", 0, Type::kUserDefined);
  return v;
}

GgufVocabulary byte_level(std::string pre) {
  GgufVocabulary v;
  v.model = "gpt2";
  v.pre = std::move(pre);
  for (const char* text : {"a", "b", "1", "\u0120", "ab", "\u0120ab", "11", "'", "s", "A", "B", "\u010a", "111"}) {
    add(v, text);
  }
  add(v, "<|im_start|>", 0, Type::kControl);
  add(v, "<|im_end|>", 0, Type::kControl);
  add(v, "<tool>", 0, Type::kUserDefined);
  add(v, "[PAD16]", 0, Type::kUnused);
  v.merges = {"a b", "\u0120 ab", "1 1", "11 1", "a nowhere"};
  v.marks.begin = 13;
  v.marks.end = 14;
  return v;
}

GgufVocabulary word_piece() {
  GgufVocabulary v;
  v.model = "bert";
  for (const char* text : {"[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"}) add(v, text, 0, Type::kControl);
  for (const char* text : {"\u2581a", "\u2581ab", "b", "ab", "\u2581b", "\u2581!", "\u2581'", "s", "\u2581s", "1"}) {
    add(v, text);
  }
  v.marks.padding = 0;
  v.marks.unknown = 1;
  v.marks.classification = 2;
  v.marks.separator = 3;
  v.marks.mask = 4;
  return v;
}

struct Written {
  TempFolder folder;
  Description file;

  std::string json(const GgufVocabulary& v) const {
    const auto description = describe_gguf_vocabulary(v, "m.gguf");
    EXPECT_TRUE(description) << (description ? "" : description.error().message);
    const std::string where = "m.gguf";
    const FolderTokenizer tokenizer{v, *description, file, where};
    const auto json = folder_tokenizer_json(tokenizer);
    if (!json) return json.error().message;
    folder.write("tokenizer.json", *json);
    folder.write("tokenizer_config.json", folder_tokenizer_config(tokenizer, 128));
    return *json;
  }
};

void expect_same_tokens(const GgufVocabulary& v) {
  const Written written;
  const std::string json = written.json(v);
  const auto description = describe_gguf_vocabulary(v, "m.gguf");
  const auto expected = Tokenizer::make(*description);
  const auto got = load_tokenizer(written.folder.path("tokenizer.json"));
  ASSERT_TRUE(expected && got) << (got ? "" : got.error().message) << json;
  for (const char* text : kTexts) {
    for (const bool special : {false, true}) {
      const EncodeOptions options{.special_tokens = special, .add_special_tokens = special};
      const auto ids = got->encode(text, options), wanted = expected->encode(text, options);
      ASSERT_TRUE(ids && wanted);
      EXPECT_EQ(*ids, *wanted) << v.model << " " << v.pre << ": \"" << text << "\"";
      // Each says in its own way where words begin.
      if (v.model == "bert") continue;
      EXPECT_EQ(*got->decode(*ids), *expected->decode(*wanted));
    }
  }
}

TEST(FolderTokenizer, OfScoresMergesInTheirOrder) {
  expect_same_tokens(scored());
  GgufVocabulary without_prefix = scored();
  without_prefix.add_space_prefix = false;
  without_prefix.add_end = true;
  expect_same_tokens(without_prefix);
}

TEST(FolderTokenizer, OfBytePairsCutsAsItsNameSays) {
  for (const char* pre : {"gpt-2", "llama-bpe", "qwen2", "smollm", "tekken", "gpt-4o", "deepseek-v3", "default", ""}) {
    expect_same_tokens(byte_level(pre));
  }
}

TEST(FolderTokenizer, OfWordPiecesMarksWhatGoesOn) {
  const Written written;
  const std::string json = written.json(word_piece());
  EXPECT_THAT(json, AllOf(HasSubstr(R"("ab":6)"), HasSubstr(R"("##ab":8)"), HasSubstr(R"("[CLS]":2)")));
  expect_same_tokens(word_piece());
}

// What fills the rows that the model has too many of is no token of its tokenizer.
TEST(FolderTokenizer, LeavesFillersOut) {
  const Written written;
  EXPECT_THAT(written.json(byte_level("qwen2")), Not(HasSubstr("[PAD16]")));
}

TEST(FolderTokenizer, OfATokenThatIsNoTextIsRefused) {
  GgufVocabulary broken = scored();
  add(broken, "\xff", -9);
  EXPECT_THAT(Written().json(broken), HasSubstr("token 274 is no UTF-8"));
  GgufVocabulary endless = scored();
  add(endless, std::string(5000, 'a'), -9);
  EXPECT_THAT(Written().json(endless), HasSubstr("5000 bytes"));
}

TEST(FolderTokenizer, ConfigHoldsMarksAndEveryChatTemplate) {
  Written written;
  written.file.metadata = {{"tokenizer.chat_template", std::string("{{ messages }}")}};
  written.json(byte_level("qwen2"));
  const auto one = find_chat_template(written.folder.path());
  ASSERT_TRUE(one && *one);
  EXPECT_EQ((*one)->text, "{{ messages }}");
  EXPECT_EQ((*one)->bos_token, "<|im_start|>");
  EXPECT_EQ((*one)->eos_token, "<|im_end|>");
  written.file.metadata.push_back({"tokenizer.chat_template.tool_use", std::string("tools")});
  written.json(byte_level("qwen2"));
  const auto default_one = find_chat_template(written.folder.path());
  ASSERT_TRUE(default_one && *default_one);
  EXPECT_EQ((*default_one)->text, "{{ messages }}");
  EXPECT_THAT(read_text_file(written.folder.path("tokenizer_config.json")), HasSubstr("tool_use"));
}

TEST(FolderTokenizer, GenerationConfigNamesEveryEndAndHowToSample) {
  TokenMarks marks;
  marks.begin = 1;
  marks.end = 2;
  marks.stops = {2, 7};
  Description file;
  file.metadata = {{"general.sampling.temp", 0.5}, {"general.sampling.top_k", uint64_t{20}}};
  EXPECT_EQ(folder_generation_config(marks, file), R"({
  "bos_token_id": 1,
  "eos_token_id": [
    2,
    7
  ],
  "do_sample": true,
  "temperature": 0.5,
  "top_k": 20
}
)");
  marks.stops = {2};
  EXPECT_THAT(folder_generation_config(marks, {}), AllOf(HasSubstr("\"eos_token_id\": 2"), Not(HasSubstr("sample"))));
}

// ---------------------------------------------------------------- a whole file

TEST(FolderTokenizer, OfAWholeFileGivesItsTokens) {
  for (const char* name : {"tiny_llama", "tiny_gpt2", "tiny_qwen2"}) {
    const TempFolder folder;
    const std::string source = test_file_path(fmt::format("gguf/tiny/{}.f32.gguf", name));
    const Status written = write_as_folder(source, folder.path("out"));
    ASSERT_TRUE(written) << written.error().message;
    const auto got = load_tokenizer(folder.path("out")), expected = load_tokenizer(source);
    ASSERT_TRUE(got && expected) << (got ? "" : got.error().message);
    for (const char* text : kTexts) EXPECT_EQ(*got->encode(text), *expected->encode(text)) << name << ": " << text;
  }
}

}  // namespace
}  // namespace ballast::testing
