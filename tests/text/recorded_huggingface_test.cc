// Every tokenizer of the recordings against what Hugging Face's package did with the same file.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>

#include "ballast/base/json.h"
#include "ballast/base/json_object.h"
#include "ballast/base/utf8.h"
#include "ballast/text/load_tokenizer.h"
#include "ballast/text/tokenizer/tokenizer_file.h"
#include "tests/support/temp_folder.h"
#include "tests/support/test_files.h"

namespace ballast::testing {
namespace {

std::vector<TokenId> read_ids(std::string_view json) {
  const auto ids = JsonReader(json, "ids").read_u64_array();
  EXPECT_TRUE(ids);
  return {ids->begin(), ids->end()};
}

// As the package shows bytes: one U+FFFD for each part that is no UTF-8.
std::string shown(std::string_view bytes) {
  std::string text;
  for (size_t at = 0; at < bytes.size();) {
    const size_t length = utf8_sequence_length(bytes, at);
    if (length > 0) text.append(bytes, at, length);
    else text += "\uFFFD";
    at += std::max<size_t>(length, 1);
    // The rest of a character that was cut belongs to the same part.
    while (length == 0 && at < bytes.size() && (bytes[at] & 0xC0) == 0x80 && (bytes[at - 1] & 0xC0) == 0xC0) ++at;
  }
  return text;
}

std::vector<std::string> recorded_texts() {
  static const std::string json = read_text_file(test_file_path("tokenizers/texts.json"));
  std::vector<std::string> texts;
  const auto elements = json_elements(json, "texts.json");
  for (const std::string_view element : *elements) texts.push_back(*JsonReader(element, "texts.json").read_string());
  return texts;
}

class RecordedHuggingFace : public ::testing::TestWithParam<std::string> {
 protected:
  RecordedHuggingFace()
      : json_(read_text_file(test_file_path("tokenizers/" + GetParam() + ".expect.json"))),
        recorded_(*JsonObject::parse(json_, GetParam(), kStrictRules)) {}

  Tokenizer open() const {
    auto tokenizer = load_tokenizer(test_file_path("tokenizers/" + GetParam() + ".json"));
    EXPECT_TRUE(tokenizer) << tokenizer.error().message;
    return std::move(*tokenizer);
  }

  static void expect_ids(const Result<Encoding>& encoding, const JsonObject& row, const std::string& text) {
    ASSERT_TRUE(encoding) << encoding.error().message;
    EXPECT_EQ(encoding->ids, read_ids(*row.find("ids"))) << text;
    if (const auto types = row.find("type_ids")) {
      EXPECT_EQ(encoding->type_ids, read_ids(*types)) << text;
    }
    if (const auto mask = row.find("special_mask")) {
      const std::vector<TokenId> seen(encoding->special.begin(), encoding->special.end());
      EXPECT_EQ(seen, read_ids(*mask)) << text;
    }
  }

  std::string json_;
  JsonObject recorded_;
};

TEST_P(RecordedHuggingFace, GivesTheSameTokensAndTheSameTextBack) {
  const Tokenizer tokenizer = open();
  const std::vector<std::string> texts = recorded_texts();
  const auto rows = *recorded_.elements("rows");
  EXPECT_GE(rows.size(), 20U);
  for (const std::string_view json : rows) {
    const JsonObject row = *JsonObject::parse(json, GetParam(), kStrictRules);
    const std::string& text = texts[*row.count("text")];
    const EncodeOptions fitting{.special_tokens = true, .add_special_tokens = true, .fit_length = true};
    expect_ids(tokenizer.encode_full(text, fitting), row, text);
    if (const auto plain = row.find("ids_plain")) {
      const auto ids =
          tokenizer.encode(text, {.special_tokens = true, .add_special_tokens = false, .fit_length = true});
      ASSERT_TRUE(ids);
      EXPECT_EQ(*ids, read_ids(*plain)) << text;
    }
    const std::vector<TokenId> ids = read_ids(*row.find("ids"));
    const std::string decoded = *row.text("decoded");
    const auto skipping = tokenizer.decode(ids, {.skip_special_tokens = true});
    ASSERT_TRUE(skipping);
    EXPECT_EQ(shown(*skipping), decoded);
    const auto with_special = tokenizer.decode(ids);
    ASSERT_TRUE(with_special);
    EXPECT_EQ(shown(*with_special), *row.text_or("decoded_with_special", decoded));
  }
}

std::vector<TextSpan> read_spans(std::string_view json) {
  const std::vector<TokenId> numbers = read_ids(json);
  std::vector<TextSpan> spans;
  for (size_t i = 0; i + 1 < numbers.size(); i += 2) spans.push_back({numbers[i], numbers[i + 1]});
  return spans;
}

std::string spans_text(const std::vector<TextSpan>& spans) {
  std::string text;
  for (const TextSpan& span : spans) text += fmt::format("{}-{} ", span.begin, span.end);
  return text;
}

TEST_P(RecordedHuggingFace, SaysOfTheSameCharactersWhichTokensStandForThem) {
  const Tokenizer tokenizer = open();
  const std::vector<std::string> texts = recorded_texts();
  const auto rows = *recorded_.elements("rows");
  for (const std::string_view json : rows) {
    const JsonObject row = *JsonObject::parse(json, GetParam(), kStrictRules);
    const auto recorded = row.find("offsets");
    if (!recorded) continue;
    const std::string& text = texts[*row.count("text")];
    EncodeOptions options;
    options.fit_length = true;
    options.offsets = true;
    const auto encoding = tokenizer.encode_full(text, options);
    expect_ids(encoding, row, text);
    EXPECT_EQ(spans_text(to_character_spans(text, encoding->offsets)), spans_text(read_spans(*recorded))) << text;
  }
}

TEST_P(RecordedHuggingFace, ManyTextsOnThreadsBecomeWhatEachBecomesAlone) {
  const Tokenizer tokenizer = open();
  const std::vector<std::string> texts = recorded_texts();
  const std::vector<std::string_view> views(texts.begin(), texts.end());
  const auto encodings = tokenizer.encode_batch(views, {}, 4);
  ASSERT_TRUE(encodings) << encodings.error().message;
  ASSERT_EQ(encodings->size(), texts.size());
  for (size_t i = 0; i < texts.size(); ++i) EXPECT_EQ((*encodings)[i].ids, tokenizer.encode(texts[i]).value()) << i;
}

TEST_P(RecordedHuggingFace, GivesTheSameForPairsOfTexts) {
  const Tokenizer tokenizer = open();
  const auto pairs = *recorded_.elements("pairs");
  if (pairs.empty()) GTEST_SKIP() << "no pairs were recorded";
  for (const std::string_view json : pairs) {
    const JsonObject row = *JsonObject::parse(json, GetParam(), kStrictRules);
    const auto texts = *row.elements("pair");
    const std::string first = *JsonReader(texts[0], "pair").read_string();
    const std::string second = *JsonReader(texts[1], "pair").read_string();
    expect_ids(
        tokenizer.encode_pair(first, second, {.special_tokens = true, .add_special_tokens = true, .fit_length = true}),
        row, first);
  }
}

// Piece by piece the same text comes as at once, whatever the decoder does at the beginning.
TEST_P(RecordedHuggingFace, DecodesAStreamAsItDecodesTheWhole) {
  const Tokenizer tokenizer = open();
  for (const std::string& text : recorded_texts()) {
    const auto ids = tokenizer.encode(text);
    ASSERT_TRUE(ids);
    StreamDecoder stream(tokenizer);
    std::string streamed;
    for (const TokenId id : *ids) streamed += *stream.next(id);
    streamed += stream.finish();
    EXPECT_EQ(streamed, shown(*tokenizer.decode(*ids))) << text;
  }
}

// What users type never ends a turn: no special token comes of any text, except the one for the unknown.
TEST_P(RecordedHuggingFace, NoTextBecomesASpecialTokenUnlessAsked) {
  const Tokenizer tokenizer = open();
  const std::string json = read_text_file(test_file_path("tokenizers/" + GetParam() + ".json"));
  const auto description = parse_tokenizer_json(json, GetParam());
  ASSERT_TRUE(description);
  std::string all;
  for (const AddedToken& token : description->added) all += fmt::format("{} {}x{}", token.text, token.text, token.text);
  std::vector<std::string> texts = recorded_texts();
  texts.push_back(all);
  for (const AddedToken& token : description->added) texts.push_back(token.text);
  for (const std::string& text : texts) {
    const auto ids =
        tokenizer.encode(text, {.special_tokens = false, .add_special_tokens = false, .fit_length = false});
    ASSERT_TRUE(ids);
    for (const TokenId id : *ids) {
      const std::string bytes(*tokenizer.bytes_of(id));
      EXPECT_TRUE(!tokenizer.is_special(id) || bytes == "<unk>" || bytes == "[UNK]") << text << ": " << bytes;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Files, RecordedHuggingFace,
                         ::testing::Values("bpe_cl100k_trunc_pad", "bpe_clip", "bpe_deepseek3", "bpe_falcon",
                                           "bpe_gpt2", "bpe_llama2", "bpe_llama3", "bpe_prefix_fuse", "bpe_qwen2",
                                           "bpe_roberta", "bpe_starcoder", "unigram_bytes", "unigram_precompiled",
                                           "unigram_t5", "wordlevel", "wordpiece_bert_uncased"),
                         [](const auto& parameter) { return parameter.param; });

}  // namespace
}  // namespace ballast::testing
