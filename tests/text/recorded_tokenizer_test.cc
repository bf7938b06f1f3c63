// The tokenizer against what gpt.rs encoded and decoded with the same files.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>

#include "ballast/base/json.h"
#include "ballast/base/utf8.h"
#include "ballast/text/load_tokenizer.h"
#include "tests/support/temp_folder.h"
#include "tests/support/test_files.h"

namespace ballast::testing {
namespace {

struct Recorded {
  std::string text;
  std::vector<TokenId> ids;
  std::string decoded;
  std::vector<std::string> pieces;  // of each id alone; "" where that is no whole character
};

Status read_texts(JsonReader& json, std::vector<std::string>& texts) {
  BALLAST_CHECK(json.enter_array());
  for (;;) {
    BALLAST_TRY(const bool more, json.next_element());
    if (!more) return {};
    BALLAST_TRY(std::string text, json.read_string());
    texts.push_back(std::move(text));
  }
}

Status read_case(JsonReader& json, Recorded& recorded) {
  BALLAST_CHECK(json.enter_object());
  std::string key;
  for (;;) {
    BALLAST_TRY(const bool more, json.next_key(key));
    if (!more) return {};
    if (key == "text") {
      BALLAST_TRY(recorded.text, json.read_string());
    } else if (key == "decoded") {
      BALLAST_TRY(recorded.decoded, json.read_string());
    } else if (key == "ids") {
      BALLAST_TRY(const auto ids, json.read_u64_array());
      recorded.ids.assign(ids.begin(), ids.end());
    } else if (key == "pieces") {
      BALLAST_CHECK(read_texts(json, recorded.pieces));
    } else {
      BALLAST_CHECK(json.skip_value());
    }
  }
}

Status read_cases(JsonReader& json, const std::string& file, std::vector<Recorded>& cases) {
  const std::vector<std::string> path = {"files", file, "cases"};
  std::string key;
  for (const std::string& step : path) {
    BALLAST_CHECK(json.enter_object());
    do {
      BALLAST_TRY(const bool more, json.next_key(key));
      if (!more) return make_error(ErrorCode::kNotFound, step);
      if (key != step) BALLAST_CHECK(json.skip_value());
    } while (key != step);
  }
  BALLAST_CHECK(json.enter_array());
  for (;;) {
    BALLAST_TRY(const bool more, json.next_element());
    if (!more) return {};
    Recorded recorded;
    BALLAST_CHECK(read_case(json, recorded));
    cases.push_back(std::move(recorded));
  }
}

std::vector<Recorded> recorded_cases(const std::string& file) {
  const std::string text = read_text_file(test_file_path("gptrs/tokenizer_expected.json"));
  JsonReader json(text, "tokenizer_expected.json");
  std::vector<Recorded> cases;
  const Status status = read_cases(json, file, cases);
  EXPECT_TRUE(status) << status.error().message;
  EXPECT_EQ(cases.size(), 15U);
  return cases;
}

Tokenizer open_tokenizer(const std::string& path) {
  auto tokenizer = load_tokenizer(test_file_path(path));
  EXPECT_TRUE(tokenizer) << tokenizer.error().message;
  return std::move(*tokenizer);
}

// Where gpt.rs, which has no look-ahead, gives the last of several spaces to the spaces instead of to the word.
using Corrected = std::map<std::string, std::vector<TokenId>>;

void expect_as_recorded(const std::string& file, const Tokenizer& tokenizer, const Corrected& corrected) {
  for (const Recorded& recorded : recorded_cases(file)) {
    const auto ids =
        *tokenizer.encode(recorded.text, {.special_tokens = false, .add_special_tokens = true, .fit_length = false});
    const auto found = corrected.find(recorded.text);
    EXPECT_EQ(ids, found == corrected.end() ? recorded.ids : found->second) << recorded.text;
    const auto decoded = tokenizer.decode(recorded.ids);
    ASSERT_TRUE(decoded);
    EXPECT_EQ(*decoded, recorded.decoded);
    // Piece by piece nothing is lost, and whole characters are the same as there.
    StreamDecoder stream(tokenizer);
    std::string text;
    for (size_t i = 0; i < recorded.ids.size(); ++i) {
      const auto piece = stream.next(recorded.ids[i]);
      ASSERT_TRUE(piece);
      EXPECT_TRUE(is_valid_utf8(*piece));
      text += *piece;
    }
    EXPECT_EQ(text + stream.finish(), recorded.text);
  }
}

TEST(RecordedTokenizer, TheFlatFileEncodesAsGptRsDoesButForSpacesBeforeWords) {
  expect_as_recorded(
      "gpt_base/tokenizer.json", open_tokenizer("tokenizers/gptrs_flat.json"),
      {{"a  b", {65, 221, 274}}, {"a   b  ", {65, 300, 274, 300}}, {"\n\n  x\ty", {199, 199, 221, 221, 88, 198, 89}}});
}

TEST(RecordedTokenizer, TheHuggingFaceFileEncodesAsGptRsDoesButForSpacesBeforeWords) {
  expect_as_recorded(
      "ministral_yarn/tokenizer.json", open_tokenizer("gptrs/ministral_yarn/tokenizer.json"),
      {{"a  b", {67, 223, 276}}, {"a   b  ", {67, 302, 276, 302}}, {"\n\n  x\ty", {201, 201, 223, 223, 90, 200, 91}}});
}

TEST(RecordedTokenizer, SpecialTokensAreOneTokenUnlessToldOtherwise) {
  EXPECT_THAT(open_tokenizer("tokenizers/gptrs_flat.json").encode("<|endoftext|>")->size(), 1U);
  EXPECT_THAT(*open_tokenizer("gptrs/ministral_yarn/tokenizer.json").encode("<s> the</s>"),
              ::testing::ElementsAre(1, 262, 2));
}

}  // namespace
}  // namespace ballast::testing
