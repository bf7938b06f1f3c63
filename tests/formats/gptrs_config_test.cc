#include "ballast/formats/gptrs/gptrs_config.h"

#include <gtest/gtest.h>

#include "ballast/base/json.h"

namespace ballast {
namespace {

GptrsConfig parse(const std::string& text) {
  auto config = parse_gptrs_config(text, "config");
  EXPECT_TRUE(config.has_value()) << text << ": " << config.error().message;
  return config ? *config : GptrsConfig{};
}

constexpr const char* kConfigTexts[] = {
    "{}",
    "{ }",
    " \n{\t}\r\n ",
    R"({"kind":"gpt","config":{}})",
    "{\"kind\": \"gpt\"}\n",
    "{\n  \"kind\": \"gpt\",\n  \"config\": {\"a\": [1, {}]}\n}\n\n",
    "{\"kind\":\"gpt\" ,\n \"note\" : \"}\" } ",
    "{\"ballast.origin\":5,\"kind\":\"gpt\"}",
    "{\"ballast.origin\" : \"spelled otherwise\"}",
    "{\"kind\":\"gpt\",\"ballast.origin\":\"x\",\"config\":{}}",
    "{\"kind\":\"gpt\",\"config\":{\"ballast.origin\":\"x\"}}",
    "{\"note\":\"gr\xC3\xB6\xC3\x9F\x65\"}",
};

constexpr const char* kOrigins[] = {"",      "x", R"({"a":"b \\ \"c\""})", "line\nline\ttab\x01\x1F", "\xE2\x82\xAC",
                                    "}\"},{"};

TEST(GptrsConfig, GivesBackTheTextItWasSplicedInto) {
  for (const char* text : kConfigTexts) {
    for (const char* origin : kOrigins) {
      const std::string spliced = splice_gptrs_origin(text, origin);
      const GptrsConfig config = parse(spliced);
      EXPECT_EQ(config.text, text) << spliced;
      EXPECT_EQ(config.origin, origin) << spliced;
    }
  }
}

TEST(GptrsConfig, LeavesTextWithoutAnOriginAlone) {
  for (const char* text : kConfigTexts) {
    const GptrsConfig config = parse(text);
    EXPECT_EQ(config.text, text);
    EXPECT_FALSE(config.origin.has_value()) << text;
  }
}

TEST(GptrsConfig, SplicesTheOriginAsTheLastKey) {
  EXPECT_EQ(splice_gptrs_origin("{}", "x"), R"({"ballast.origin":"x"})");
  EXPECT_EQ(splice_gptrs_origin("{ }\n", "x"), "{ \"ballast.origin\":\"x\"}\n");
  EXPECT_EQ(splice_gptrs_origin("{\"kind\":\"gpt\"\n}", "a\"b"), "{\"kind\":\"gpt\"\n,\"ballast.origin\":\"a\\\"b\"}");
}

TEST(GptrsConfig, TakesTheSpelledOriginOnly) {
  for (const char* text : {
           R"({"kind":"gpt", "ballast.origin":"x"})",          // a space before the key
           R"({"kind":"gpt","ballast.origin": "x"})",          // a space before the value
           R"({"kind":"gpt","ballast.origin":"x" })",          // a space behind it
           R"({"kind":"gpt","ballast.origin":"\u0078"})",      // an escape that need not be
           R"({"kind":"gpt","ballast\u002eorigin":"x"})",      // in the key too
           R"({"kind":"gpt","ballast.origin":["x"]})",         // not a string
           R"({"kind":"gpt","ballast.origin":"x","last":1})",  // not the last key
       }) {
    const GptrsConfig config = parse(text);
    EXPECT_EQ(config.text, text);
    EXPECT_FALSE(config.origin.has_value()) << text;
  }
}

TEST(GptrsConfig, TellsTaggedFromUntagged) {
  EXPECT_TRUE(parse(R"({"kind":"gpt"})").tagged);
  EXPECT_TRUE(parse(R"({"kind":5,"kind":"gpt"})").tagged);  // the last counts
  EXPECT_FALSE(parse(R"({"vocab_size":19})").tagged);
  EXPECT_FALSE(parse(R"({"config":{"kind":"gpt"}})").tagged);
}

TEST(GptrsConfig, RefusesWhatIsNoConfig) {
  for (const std::string text : {"", " ", "[]", "null", "\"kind\"", "{", "{}}", "{} x", "{\"a\":}", "{\"a\":1,}",
                                 "{a:1}", "{\"kind\":5}", "{\"kind\":null}", "{\"kind\":\"gpt\",\"kind\":5}",
                                 "{\"a\":NaN}", "{\"a\":\"\xFF\"}", "{\"a\":\"\\ud800\"}", "\xEF\xBB\xBF{}"}) {
    const auto config = parse_gptrs_config(text, "config");
    ASSERT_FALSE(config.has_value()) << text;
    EXPECT_EQ(config.error().code, ErrorCode::kCorrupt) << text;
    EXPECT_TRUE(config.error().message.starts_with("config: ")) << config.error().message;
  }
}

TEST(GptrsConfig, RefusesBottomlessNesting) {
  std::string text = "{\"a\":";
  text += std::string(100'000, '[');
  EXPECT_FALSE(parse_gptrs_config(text, "config").has_value());
}

}  // namespace
}  // namespace ballast
