#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "ballast/text/constraint.h"
#include "tests/support/json_path.h"
#include "tests/support/service_rig.h"
#include "tests/support/tool_models.h"

namespace ballast::testing {
namespace {

using ::testing::HasSubstr;
using ::testing::MatchesRegex;

constexpr std::string_view kStructuredChat = "/v1/chat/completions";

constexpr std::string_view kSchema =
    R"({"type":"object","properties":{"ok":{"type":"boolean"},"of":{"$ref":"#/$defs/kind"},"n":{"type":"integer",)"
    R"("minimum":0,"maximum":99}},"required":["ok","of","n"],"additionalProperties":false,)"
    R"("$defs":{"kind":{"enum":["a","b\n"]}}})";

class StructuredTest : public ::testing::Test {
 protected:
  static void SetUpTestSuite() {
    folder_ = std::make_unique<TempFolder>();
    auto options = rig_options();
    options.most_tokens = 100;
    options.models.push_back({.name = "dice", .path = write_tool_model(*folder_, "dice", tool_template("", "A"))});
    options.models.push_back(
        {.name = "brooder", .path = write_tool_model(*folder_, "brooder", tool_template("</think>", "A<think>\n"))});
    rig_ = std::make_unique<ServiceRig>(std::move(options));
  }
  static void TearDownTestSuite() {
    rig_.reset();
    folder_.reset();
  }
  serve::HttpAnswer ask(std::string_view model, std::string_view more, uint64_t seed = 1) {
    return rig_->post(kStructuredChat,
                      fmt::format(R"({{"model":"{}","messages":[{{"role":"user","content":"Hi"}}],"seed":{},)"
                                  R"("temperature":1{}}})",
                                  model, seed, more));
  }
  static std::unique_ptr<TempFolder> folder_;
  static std::unique_ptr<ServiceRig> rig_;
};
std::unique_ptr<TempFolder> StructuredTest::folder_;
std::unique_ptr<ServiceRig> StructuredTest::rig_;

std::string schema_format(std::string_view schema) {
  return fmt::format(
      R"(,"response_format":{{"type":"json_schema","json_schema":{{"name":"r","strict":true,"schema":{}}}}})", schema);
}

std::string finish_reason(const serve::HttpAnswer& answer) {
  return json_string(json_at(answer.body, "choices/0/finish_reason"));
}

TEST_F(StructuredTest, AnswersFollowTheSchemaWhateverTheModelWouldRatherSay) {
  const auto constraint = Constraint::of_schema(kSchema);
  ASSERT_TRUE(constraint.has_value()) << constraint.error().message;
  for (const std::string_view model : {"tiny", "dice"}) {
    int complete = 0;
    for (uint64_t seed = 1; seed <= 12; ++seed) {
      const auto answer = ask(model, schema_format(kSchema), seed);
      ASSERT_EQ(answer.status, 200) << answer.body;
      const std::string text = chat_text(answer);
      if (finish_reason(answer) == "length") continue;
      EXPECT_EQ(finish_reason(answer), "stop");
      EXPECT_TRUE(constraint->accepts(text)) << model << ": " << text;
      ++complete;
    }
    EXPECT_GE(complete, 6) << model;
  }
}

TEST_F(StructuredTest, AStreamedAnswerIsTheWholeOne) {
  for (uint64_t seed = 1; seed <= 4; ++seed) {
    const auto whole = ask("dice", schema_format(kSchema), seed);
    const auto stream = ask("dice", schema_format(kSchema) + R"(,"stream":true)", seed);
    const auto events = events_of(stream.body);
    EXPECT_EQ(joined(events, "choices/0/delta/content"), chat_text(whole));
    EXPECT_EQ(joined(events, "choices/0/finish_reason"), finish_reason(whole));
  }
}

TEST_F(StructuredTest, EveryChoiceHasTheForm) {
  const auto answer = ask("tiny", R"(,"n":4,"guided_regex":"[0-9]{3}-[a-z]{2}")");
  ASSERT_EQ(answer.status, 200) << answer.body;
  for (int i = 0; i < 4; ++i) {
    EXPECT_THAT(json_string(json_at(answer.body, fmt::format("choices/{}/message/content", i))),
                MatchesRegex("[0-9][0-9][0-9]-[a-z][a-z]"));
    EXPECT_EQ(json_at(answer.body, fmt::format("choices/{}/finish_reason", i)), "\"stop\"");
  }
}

TEST_F(StructuredTest, KnowsTheNamesOfEveryServer) {
  const std::pair<std::string, std::string> cases[] = {
      {R"(,"grammar":"root ::= \"yes\"")", "yes"},
      {R"(,"guided_grammar":"root ::= \"yes\"")", "yes"},
      {R"(,"guided_choice":["a \"b\" \\ c"])", "a \"b\" \\ c"},
      {R"(,"json_schema":{"const":7})", "7"},
      {R"(,"guided_json":"{\"const\":7}")", "7"},
      {R"(,"response_format":{"type":"json_object","schema":{"const":7}})", "7"},
      {R"(,"regex":"ab")", "ab"},
      {R"(,"ebnf":"root ::= \"yes\"")", "yes"},
      {R"(,"structured_outputs":{"json":{"const":7}})", "7"},
      {R"(,"structured_outputs":{"regex":"ab"})", "ab"},
      {R"(,"structured_outputs":{"choice":["ab"]})", "ab"},
      {R"(,"structured_outputs":{"grammar":"root ::= \"ab\""})", "ab"},
  };
  for (const auto& [members, expected] : cases) {
    const auto answer = ask("tiny", members);
    ASSERT_EQ(answer.status, 200) << members << answer.body;
    std::string text = chat_text(answer);
    text.erase(0, text.find_first_not_of(" \n"));
    EXPECT_EQ(text, expected) << members;
    EXPECT_EQ(finish_reason(answer), "stop");
  }
  const auto completion = rig_->post(
      "/v1/completions", R"({"model":"plain","prompt":"It is","max_tokens":20,"grammar":"root ::= \"ab\""})");
  EXPECT_EQ(json_string(json_at(completion.body, "choices/0/text")), "ab") << completion.body;
}

TEST_F(StructuredTest, ResponsesAndMessagesHaveNamesOfTheirOwn) {
  constexpr std::string_view kSeven = R"({"type":"json_schema","name":"r","schema":{"const":7}})";
  const auto respond = [&](std::string_view more) {
    return rig_->post("/v1/responses", fmt::format(R"({{"model":"tiny","input":"Hi"{}}})", more));
  };
  const auto ask_message = [&](std::string_view more) {
    constexpr std::string_view kBody =
        R"({{"model":"tiny","max_tokens":20,"messages":[{{"role":"user","content":"Hi"}}]{}}})";
    return rig_->post("/v1/messages", fmt::format(kBody, more));
  };
  const auto expect_seven = [](const serve::HttpAnswer& answer, std::string_view path) {
    ASSERT_EQ(answer.status, 200) << answer.body;
    EXPECT_THAT(json_string(json_at(answer.body, path)), MatchesRegex("[ \n]*7")) << answer.body;
  };
  expect_seven(respond(fmt::format(R"(,"text":{{"format":{}}})", kSeven)), "output/0/content/0/text");
  expect_seven(respond(R"(,"grammar":"root ::= \"7\"","text":{"format":{"type":"text"}})"), "output/0/content/0/text");
  expect_seven(ask_message(fmt::format(R"(,"output_config":{{"format":{}}})", kSeven)), "content/0/text");
  expect_seven(ask_message(fmt::format(R"(,"output_format":{})", kSeven)), "content/0/text");
  expect_seven(ask_message(R"(,"output_format":null,"output_config":{"effort":"low","format":{"type":"json_schema",)"
                           R"("schema":{"const":7}}})"),
               "content/0/text");

  const auto two = respond(R"(,"grammar":"root ::= \"7\"","text":{"format":{"type":"json_object"}})");
  EXPECT_EQ(two.status, 400) << two.body;
  EXPECT_EQ(json_string(json_at(two.body, "error/param")), "text.format.type");
  const auto both =
      respond(fmt::format(R"(,"response_format":{{"type":"json_object"}},"text":{{"format":{}}})", kSeven));
  EXPECT_EQ(both.status, 400) << both.body;
  for (const std::string& more :
       {fmt::format(R"(,"output_config":{{"format":{0}}},"output_format":{0})", kSeven),
        std::string(R"(,"output_format":{"type":"json_schema","schema":{"not":{}}})"),
        std::string(R"(,"output_format":{"type":"json_schema"})"), std::string(R"(,"output_format":{"type":"xml"})")}) {
    const auto refused = ask_message(more);
    EXPECT_EQ(refused.status, 400) << more << refused.body;
    EXPECT_THAT(refused.body, HasSubstr("output_format")) << more;
  }
}

TEST_F(StructuredTest, JsonObjectsParse) {
  for (uint64_t seed = 1; seed <= 6; ++seed) {
    const auto answer = ask("tiny", R"(,"response_format":{"type":"json_object"},"max_tokens":100)", seed);
    ASSERT_EQ(answer.status, 200) << answer.body;
    const std::string text = chat_text(answer);
    EXPECT_THAT(text, HasSubstr("{"));
    // It fails the test where the text is not exactly one value.
    if (finish_reason(answer) == "stop") json_at(text, "x");
  }
}

TEST_F(StructuredTest, ATextThatIsCutSaysSo) {
  const auto answer = ask("tiny", schema_format(kSchema) + R"(,"max_tokens":3)");
  EXPECT_EQ(finish_reason(answer), "length");
}

// A number of tokens that must come, or a bias, cannot break the form.
TEST_F(StructuredTest, TheFormGoesBeforeBiasesAndMinima) {
  const auto minimum = ask("tiny", R"(,"grammar":"root ::= \"ab\"","min_tokens":20)");
  EXPECT_EQ(chat_text(minimum), "ab") << minimum.body;
  const auto bias = ask("dice", R"(,"grammar":"root ::= \"a\"","logit_bias":{"75":-100,"76":100})");
  EXPECT_EQ(chat_text(bias), "a") << bias.body;
}

TEST_F(StructuredTest, TheFormBeginsBehindTheReasoning) {
  for (uint64_t seed = 1; seed <= 6; ++seed) {
    // A likely end keeps the reasoning short.
    const auto answer = ask("brooder", R"(,"guided_choice":["yes","no"],"logit_bias":{"6":5})", seed);
    ASSERT_EQ(answer.status, 200) << answer.body;
    const std::string text = chat_text(answer);
    if (finish_reason(answer) == "stop") {
      EXPECT_TRUE(text == "yes" || text == "no") << answer.body;
    }
    EXPECT_TRUE(std::string("yes").starts_with(text) || std::string("no").starts_with(text)) << answer.body;
  }
  const auto free = ask("brooder", R"(,"guided_choice":["yes"],"logit_bias":{"6":100})");
  EXPECT_EQ(chat_text(free), "yes") << free.body;
}

TEST_F(StructuredTest, SaysWhatIsWrongWithAForm) {
  struct Case {
    std::string members, param, what;
  };
  const Case cases[] = {
      {schema_format(R"({"not":{}})"), "response_format.json_schema.schema", "not"},
      {schema_format(R"({"type":"objekt"})"), "response_format.json_schema.schema", "objekt"},
      {schema_format("1"), "response_format.json_schema.schema", "an object"},
      {R"(,"response_format":{"type":"json_schema"})", "response_format.json_schema", "missing"},
      {R"(,"response_format":{"type":"json_schema","json_schema":{"name":"r"}})", "response_format.json_schema.schema",
       "missing"},
      {R"(,"response_format":{"type":"xml"})", "response_format.type", "json_object"},
      {R"(,"response_format":"json")", "response_format", "object"},
      {R"(,"grammar":"root ::= x")", "grammar", "x"},
      {R"(,"guided_regex":"(")", "guided_regex", "a group is not closed"},
      {R"(,"regex":"(")", "regex", "a group is not closed"},
      {R"(,"ebnf":"root = \"a\" ;")", "ebnf", "::="},
      {R"(,"ebnf":"start: \"a\"")", "ebnf", "::="},
      {R"(,"ebnf":"root ::= \"a\"","regex":"a")", "ebnf", "\"regex\""},
      {R"(,"guided_choice":[])", "guided_choice", "a list of texts"},
      {R"(,"guided_choice":["a",""])", "guided_choice", "empty"},
      {R"(,"grammar":"root ::= \"a\"","guided_regex":"a")", "guided_regex", "\"grammar\""},
      {R"(,"structured_outputs":{"structural_tag":{}})", "structured_outputs.structural_tag", "not supported"},
      {R"(,"grammar":"root ::= \"a\"","ignore_eos":true)", "ignore_eos", "exclude"},
      {fmt::format(R"(,"grammar":"root ::= \"{}\"")", std::string(300000, 'a')), "grammar", "262144"},
  };
  for (const Case& c : cases) {
    const auto answer = ask("tiny", c.members);
    EXPECT_EQ(answer.status, 400) << c.members.substr(0, 100) << answer.body;
    EXPECT_EQ(json_string(json_at(answer.body, "error/param")), c.param) << answer.body;
    EXPECT_THAT(json_string(json_at(answer.body, "error/message")), HasSubstr(c.what));
  }
}

}  // namespace
}  // namespace ballast::testing
