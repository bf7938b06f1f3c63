#include "ballast/base/json.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

namespace ballast {
namespace {

using namespace std::string_literals;
using ::testing::HasSubstr;

Status skip_all(std::string_view text, JsonReader::Dialect dialect = JsonReader::Dialect::kStrict) {
  JsonReader json(text, "test", 0, dialect);
  BALLAST_CHECK(json.skip_value());
  return json.finish();
}

TEST(JsonReader, WalksObjectsInFileOrderAndShowsDuplicates) {
  JsonReader json(R"({"b": 1, "a": [2, 3], "b": "x"})", "test");
  ASSERT_TRUE(json.enter_object());
  std::vector<std::string> keys;
  std::string key;
  for (;;) {
    const auto more = json.next_key(key);
    ASSERT_TRUE(more);
    if (!*more) break;
    keys.push_back(key);
    ASSERT_TRUE(json.skip_value());
  }
  ASSERT_TRUE(json.finish());
  EXPECT_EQ(keys, (std::vector<std::string>{"b", "a", "b"}));
}

TEST(JsonReader, KeysAndElementsOutsideOfAnyContainerAreErrors) {
  for (const std::string_view text : {R"("a": 1})", R"(, "a": 1})", "}", "]", ", 1]", "1", ""}) {
    JsonReader json(text, "test");
    std::string key = "untouched";
    const auto more = json.next_key(key);
    ASSERT_FALSE(more) << text;
    EXPECT_THAT(more.error().message, HasSubstr("no JSON object is open"));
    EXPECT_EQ(key, "untouched");
    const auto element = json.next_element();
    ASSERT_FALSE(element) << text;
    EXPECT_THAT(element.error().message, HasSubstr("no JSON array is open"));
    EXPECT_EQ(json.offset(), 0U);
  }
}

TEST(JsonReader, NothingIsReadBehindTheEndOfTheOutermostContainer) {
  JsonReader json(R"({"a": 1}})", "test");
  ASSERT_TRUE(json.enter_object());
  std::string key;
  ASSERT_TRUE(json.next_key(key).value());
  ASSERT_TRUE(json.skip_value());
  EXPECT_FALSE(json.next_key(key).value());
  EXPECT_FALSE(json.next_key(key)) << "the brace that is left closes nothing";
}

TEST(JsonReader, DecodesEscapesAndSurrogatePairs) {
  JsonReader json(R"("a\"\\\/\b\f\n\r\t\u0041\ud83d\ude00")", "test");
  const auto text = json.read_string();
  ASSERT_TRUE(text);
  EXPECT_EQ(*text, "a\"\\/\b\f\n\r\tA\xF0\x9F\x98\x80");
}

TEST(JsonReader, StringsAreViewsOfTheTextUnlessTheyHaveEscapes) {
  const std::string_view text = R"(["plain and long enough", "es\u0063aped \"", "\u00e9", ""])";
  JsonReader json(text, "test");
  ASSERT_TRUE(json.enter_array());
  const auto next = [&] {
    EXPECT_TRUE(json.next_element().value());
    return json.read_string_view().value();
  };
  const std::string_view plain = next();
  EXPECT_EQ(plain, "plain and long enough");
  EXPECT_EQ(plain.data(), text.data() + 2);
  EXPECT_EQ(next(), "escaped \"");
  EXPECT_EQ(next(), "\xC3\xA9");
  EXPECT_EQ(next(), "");
  EXPECT_FALSE(json.next_element().value());
}

// The reader looks at eight bytes at once: what ends a run must be seen at each of the eight places and in the rest.
TEST(JsonReader, SeesWhatEndsAStringWhereverItStands) {
  for (size_t before = 0; before < 24; ++before) {
    for (size_t behind = 0; behind < 10; ++behind) {
      const std::string head(before, 'x'), tail(behind, 'y');
      const auto read = [&](const std::string& middle) {
        return JsonReader('"' + head + middle + tail + '"', "test").read_string();
      };
      EXPECT_EQ(*read(""), head + tail);
      EXPECT_EQ(*read("\\n"), head + "\n" + tail);
      EXPECT_EQ(*read("\x7F \xC3\xA9"), head + "\x7F \xC3\xA9" + tail);
      EXPECT_FALSE(read("\x1F"));
      EXPECT_FALSE(read("\xC3"));
      EXPECT_FALSE(read("\x80"));
      const std::string quoted = '"' + head + '"' + tail;
      JsonReader json(quoted, "test");
      EXPECT_EQ(json.read_string().value(), head);
      EXPECT_EQ(json.offset(), before + 2);
    }
  }
}

TEST(JsonReader, RefusesWhatIsNotJson) {
  for (const char* text : {"",
                           "{",
                           "[1,]",
                           "{\"a\"}",
                           "{\"a\":}",
                           "{,}",
                           "[1 2]",
                           "01",
                           "1.",
                           "1e",
                           "-",
                           "+1",
                           "nul",
                           "\"\\x\"",
                           "\"\\u12\"",
                           "\"\\ud800\"",
                           "\"\\udc00\"",
                           "\"a\nb\"",
                           "\"abc",
                           "1 2",
                           "NaN",
                           "Infinity",
                           "\"\xC0\x80\"",
                           "\"\xED\xA0\x80\"",
                           "\"\xF4\x90\x80\x80\"",
                           "\"\xFF\"",
                           "{1:2}",
                           "\xEF\xBB\xBF{}"}) {
    EXPECT_FALSE(skip_all(text)) << text;
  }
}

TEST(JsonReader, TakesPythonsNumbersOnlyWhenAsked) {
  EXPECT_FALSE(skip_all("[NaN, Infinity, -Infinity]"));
  EXPECT_TRUE(skip_all("[NaN, Infinity, -Infinity]", JsonReader::Dialect::kPython));
  JsonReader json("[NaN, -Infinity, 1e400, 0.1]", "test", 0, JsonReader::Dialect::kPython);
  ASSERT_TRUE(json.enter_array());
  ASSERT_TRUE(*json.next_element());
  EXPECT_TRUE(std::isnan(*json.read_double()));
  ASSERT_TRUE(*json.next_element());
  EXPECT_EQ(*json.read_double(), -HUGE_VAL);
  ASSERT_TRUE(*json.next_element());
  EXPECT_EQ(*json.read_double(), HUGE_VAL);
  ASSERT_TRUE(*json.next_element());
  EXPECT_EQ(*json.read_double(), 0.1);
}

TEST(JsonReader, ANumberTooLargeForADoubleIsRefusedByName) {
  const std::string many(400, '9');
  for (const std::string& text :
       {"1e999"s, "-1e999"s, "1E+400"s, many, many + ".5e-3", "0.001e400"s, "1e99999999999999999999"s}) {
    const auto value = JsonReader(text, "t").read_double();
    ASSERT_FALSE(value) << text << " became " << *value;
    EXPECT_THAT(value.error().message, HasSubstr(text.substr(0, 40)));
  }
  EXPECT_EQ(*JsonReader("-1e999", "t", 0, JsonReader::Dialect::kPython).read_double(), -HUGE_VAL);
}

TEST(JsonReader, ANumberTooSmallForADoubleIsZero) {
  const std::string small = "0." + std::string(400, '0') + "1";
  for (const std::string& text : {"1e-999"s, small, small + "e50", "123.4e-500"s, "1e-99999999999999999999"s, "0e999"s})
    EXPECT_EQ(*JsonReader(text, "t").read_double(), 0) << text;
  EXPECT_TRUE(std::signbit(*JsonReader("-1e-999", "t").read_double()));
  EXPECT_EQ(*JsonReader("4e-320", "t").read_double(), 4e-320);
}

TEST(JsonReader, ReadsWholeNumbersExactlyOrNotAtAll) {
  EXPECT_EQ(*JsonReader("18446744073709551615", "t").read_u64(), UINT64_MAX);
  EXPECT_EQ(*JsonReader("-9223372036854775808", "t").read_i64(), INT64_MIN);
  EXPECT_EQ(*JsonReader("9999999999999999999", "t").read_u64(), 9'999'999'999'999'999'999U);
  EXPECT_EQ(*JsonReader(" 0 ", "t").read_u64(), 0U);
  for (const char* text : {"18446744073709551616", "99999999999999999999", "100000000000000000000", "-1", "1.0", "1e3",
                           "1E3", "00", "01", "", "\"1\"", "true"}) {
    EXPECT_FALSE(JsonReader(text, "t").read_u64()) << text;
  }
}

TEST(JsonReader, SurvivesAHundredThousandOpenBrackets) {
  const auto status = skip_all(std::string(100'000, '['));
  ASSERT_FALSE(status);
  EXPECT_NE(status.error().message.find("deeply"), std::string::npos);
}

TEST(JsonReader, ErrorsNameTheTextAndTheByte) {
  JsonReader json("{\"a\": tru}", "model.json: header", 8);
  const auto status = json.skip_value();
  ASSERT_FALSE(status);
  EXPECT_EQ(status.error().message, "model.json: header: byte 14: not a JSON value");
}

TEST(JsonReader, RawValuesKeepTheirSpelling) {
  JsonReader json(R"({"a": {"x": 1.50, "y":[ ]} })", "test");
  ASSERT_TRUE(json.enter_object());
  std::string key;
  ASSERT_TRUE(*json.next_key(key));
  EXPECT_EQ(*json.read_raw(), R"({"x": 1.50, "y":[ ]})");
}

TEST(JsonWriter, WritesCompactAndPrettyText) {
  const auto fill = [](JsonWriter json) {
    json.begin_object().key("n").number(1).key("l").begin_array().string("a\n\x01\"").real(0.1).end_array();
    json.key("e").begin_object().end_object().key("z").null().key("s").numbers(std::vector<uint64_t>{2, 3});
    json.end_object();
    return json.take();
  };
  EXPECT_EQ(fill(JsonWriter()), R"({"n":1,"l":["a\n\u0001\"",0.1],"e":{},"z":null,"s":[2,3]})");
  EXPECT_EQ(fill(JsonWriter(true)),
            "{\n  \"n\": 1,\n  \"l\": [\n    \"a\\n\\u0001\\\"\",\n    0.1\n  ],\n  \"e\": {},\n  \"z\": null,\n"
            "  \"s\": [2, 3]\n}");
}

TEST(JsonWriter, GivesDoublesBackBitForBit) {
  for (const double value : {0.1, -0.0, 5e-324, 1.7976931348623157e308, 1.0 / 3}) {
    JsonWriter json;
    json.real(value);
    const std::string text = json.take();
    EXPECT_EQ(*JsonReader(text, "t").read_double(), value) << text;
  }
}

TEST(JsonWriter, WritesNumbersAsPythonDoes) {
  EXPECT_EQ(python_real(0.1), "0.1");
  EXPECT_EQ(python_real(0), "0.0");
  EXPECT_EQ(python_real(1e6), "1000000.0");
  EXPECT_EQ(python_real(1e-5), "1e-05");
  EXPECT_EQ(python_real(1e16), "1e+16");
  EXPECT_EQ(python_real(123456789.5), "123456789.5");
  EXPECT_EQ(python_real(std::nan("")), "NaN");
  EXPECT_EQ(python_real(-HUGE_VAL), "-Infinity");
}

}  // namespace
}  // namespace ballast
