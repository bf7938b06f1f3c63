#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>

#include "ballast/serve/forced_call.h"
#include "ballast/serve/openai_text.h"
#include "ballast/serve/text_answer.h"
#include "ballast/text/constraint.h"
#include "ballast/text/load_tokenizer.h"
#include "tests/support/json_path.h"
#include "tests/support/service_rig.h"
#include "tests/support/tool_models.h"

namespace ballast::testing {
namespace {

using ::testing::HasSubstr;
using ::testing::MatchesRegex;

constexpr std::string_view kAddSchema =
    R"({"type":"object","properties":{"a":{"$ref":"#/$defs/digit"}},"required":["a"],"additionalProperties":false,)"
    R"("$defs":{"digit":{"type":"integer","minimum":0,"maximum":9}}})";
constexpr std::string_view kMuteSchema = R"({"properties":{"on":{"type":"boolean"}},"required":["on"]})";

std::string two_tools() {
  return fmt::format(R"(,"tools":[{{"type":"function","function":{{"name":"add","description":"Adds","parameters":{},)"
                     R"("strict":true}}}},{{"type":"function","function":{{"name":"mute","parameters":{}}}}}])",
                     kAddSchema, kMuteSchema);
}

class ToolCallsTest : public ::testing::Test {
 protected:
  static void SetUpTestSuite() {
    folder_ = std::make_unique<TempFolder>();
    rig_ = std::make_unique<ServiceRig>(tool_options());
  }
  static void TearDownTestSuite() {
    rig_.reset();
    folder_.reset();
  }
  static serve::ServiceOptions tool_options() {
    auto options = rig_options();
    options.most_tokens = 0;
    const std::tuple<std::string, std::string_view, std::string_view> models[] = {
        {"tagged", kTaggedMarks, "A"},
        {"list", kMistralListMarks, "A"},
        {"named", kMistralNamedMarks, "A"},
        {"bare", kBareObjectMarks, "A"},
        {"brooder", "<tool_call> </think>", "A<think>\n"}};
    for (const auto& [name, marks, end] : models) {
      const std::string path = folder_->path(name);
      options.models.push_back({.name = name, .path = path});
      if (!std::filesystem::exists(path)) write_tool_model(*folder_, name, tool_template(marks, end));
    }
    return options;
  }
  static serve::HttpAnswer ask(std::string_view model, std::string_view more, uint64_t seed = 1,
                               std::string_view messages = R"([{"role":"user","content":"Hi"}])") {
    return rig_->post(
        "/v1/chat/completions",
        fmt::format(R"({{"model":"{}","messages":{},"seed":{},"temperature":1{}}})", model, messages, seed, more));
  }
  static std::unique_ptr<TempFolder> folder_;
  static std::unique_ptr<ServiceRig> rig_;
};
std::unique_ptr<TempFolder> ToolCallsTest::folder_;
std::unique_ptr<ServiceRig> ToolCallsTest::rig_;

std::string at(const serve::HttpAnswer& answer, std::string_view path) {
  return json_at(answer.body, fmt::format("choices/0/{}", path));
}

std::string finish_reason_of(const serve::HttpAnswer& answer) { return json_string(at(answer, "finish_reason")); }

// Whether it is one that the tool takes.
void expect_call(const std::string& call) {
  const std::string name = json_string(json_at(call, "function/name"));
  const std::string arguments = json_string(json_at(call, "function/arguments"));
  ASSERT_TRUE(name == "add" || name == "mute") << call;
  auto schema =
      serve::arguments_schema({.name = name, .parameters = std::string(name == "add" ? kAddSchema : kMuteSchema)}, "");
  ASSERT_TRUE(schema.has_value());
  const auto constraint = Constraint::of_schema(*schema);
  ASSERT_TRUE(constraint.has_value()) << constraint.error().message;
  EXPECT_TRUE(constraint->accepts(arguments)) << call;
  EXPECT_THAT(json_string(json_at(call, "id")), MatchesRegex("[0-9A-Za-z][0-9A-Za-z][0-9A-Za-z][0-9A-Za-z][0-9A-Za-z]"
                                                             "[0-9A-Za-z][0-9A-Za-z][0-9A-Za-z][0-9A-Za-z]"));
  EXPECT_EQ(json_at(call, "type"), "\"function\"");
}

TEST_F(ToolCallsTest, ACallThatIsRequiredAlwaysParses) {
  for (const std::string_view model : {"tagged", "list", "named", "bare"}) {
    int complete = 0;
    for (uint64_t seed = 1; seed <= 12; ++seed) {
      const auto answer = ask(model, two_tools() + R"(,"tool_choice":"required","parallel_tool_calls":false)", seed);
      ASSERT_EQ(answer.status, 200) << answer.body;
      if (finish_reason_of(answer) == "length") continue;
      EXPECT_EQ(finish_reason_of(answer), "tool_calls") << answer.body;
      EXPECT_EQ(at(answer, "message/content"), "null");
      expect_call(at(answer, "message/tool_calls/0"));
      EXPECT_EQ(at(answer, "message/tool_calls/1"), "");
      ++complete;
    }
    EXPECT_GE(complete, 6) << model;
  }
}

// In each style the first letter of the name decides; biases stand for what the model wants.
TEST_F(ToolCallsTest, TheModelChoosesAmongTheTools) {
  for (const std::string_view model : {"tagged", "list", "named", "bare"}) {
    for (const auto& [name, letter] : {std::pair("add", 75), std::pair("mute", 87)}) {
      const auto answer = ask(
          model,
          two_tools() +
              fmt::format(R"(,"tool_choice":"required","parallel_tool_calls":false,"logit_bias":{{"{}":20,"10":-20}})",
                          letter));
      ASSERT_EQ(answer.status, 200) << answer.body;
      EXPECT_EQ(json_string(at(answer, "message/tool_calls/0/function/name")), name) << model << answer.body;
    }
  }
}

TEST_F(ToolCallsTest, AToolThatIsNamedIsTheOneThatIsCalled) {
  for (const std::string_view model : {"tagged", "list", "named", "bare"}) {
    for (uint64_t seed = 1; seed <= 4; ++seed) {
      const auto answer =
          ask(model, two_tools() + R"(,"tool_choice":{"type":"function","function":{"name":"mute"}})", seed);
      ASSERT_EQ(answer.status, 200) << answer.body;
      if (finish_reason_of(answer) == "length") continue;
      expect_call(at(answer, "message/tool_calls/0"));
      EXPECT_EQ(at(answer, "message/tool_calls/0/function/name"), "\"mute\"") << model;
    }
  }
}

TEST_F(ToolCallsTest, AStreamHasTheCallsOfTheWholeAnswerAndEachIdOnce) {
  for (const std::string_view model : {"tagged", "list", "named", "bare"}) {
    for (uint64_t seed = 1; seed <= 3; ++seed) {
      const std::string members = two_tools() + R"(,"tool_choice":"required")";
      const auto whole = ask(model, members, seed);
      const auto stream = ask(model, members + R"(,"stream":true)", seed);
      ASSERT_EQ(stream.status, 200) << stream.body;
      const auto events = events_of(stream.body);
      std::string calls;
      for (const std::string& event : events) {
        for (int i = 0;; ++i) {
          const std::string call = json_at(event, fmt::format("choices/0/delta/tool_calls/{}", i));
          if (call.empty()) break;
          const auto number = static_cast<size_t>(std::ranges::count(calls, ';'));
          EXPECT_EQ(json_at(call, "index"), std::to_string(number));
          EXPECT_FALSE(json_string(json_at(call, "id")).empty());
          calls += json_at(call, "function") + ";";
        }
      }
      std::string expected;
      for (int i = 0; !at(whole, fmt::format("message/tool_calls/{}", i)).empty(); ++i) {
        expected += at(whole, fmt::format("message/tool_calls/{}/function", i)) + ";";
      }
      EXPECT_EQ(calls, expected);
      EXPECT_EQ(joined(events, "choices/0/finish_reason"), finish_reason_of(whole));
      EXPECT_EQ(joined(events, "choices/0/delta/content"), json_string(at(whole, "message/content")));
    }
  }
}

TEST_F(ToolCallsTest, AModelThatReasonsCallsBehindItsReasoning) {
  const auto answer = ask("brooder", two_tools() + R"(,"tool_choice":"required","logit_bias":{"6":100})");
  ASSERT_EQ(answer.status, 200) << answer.body;
  EXPECT_EQ(finish_reason_of(answer), "tool_calls") << answer.body;
  expect_call(at(answer, "message/tool_calls/0"));
}

TEST_F(ToolCallsTest, CallsAndResultsGoBackThroughTheTemplate) {
  const auto answer = ask("tagged", two_tools(), 1,
                          R"([{"role":"user","content":"Hi"},{"role":"assistant","content":null,"tool_calls":[
                              {"id":"abcDEF123","type":"function","function":{"name":"add","arguments":"{\"a\": 4}"}}]},
                              {"role":"tool","tool_call_id":"abcDEF123","content":"5"}])");
  ASSERT_EQ(answer.status, 200) << answer.body;
  // add,mute,HiabcDEF123:45A
  EXPECT_EQ(json_at(answer.body, "usage/prompt_tokens"), "24");
}

TEST_F(ToolCallsTest, ToolsThatMayNotBeCalledAreNotShown) {
  const auto with = ask("tagged", two_tools() + R"(,"max_tokens":1)");
  const auto none = ask("tagged", two_tools() + R"(,"max_tokens":1,"tool_choice":"none")");
  EXPECT_EQ(json_at(with.body, "usage/prompt_tokens"), "12");  // add,mute,HiA
  EXPECT_EQ(json_at(none.body, "usage/prompt_tokens"), "3");   // HiA
  // So a model that cannot call takes the request, too.
  EXPECT_EQ(ask("thinker", two_tools() + R"(,"max_tokens":1,"tool_choice":"none")").status, 200);
}

TEST_F(ToolCallsTest, WhatUsersWriteIsNoMark) {
  const auto answer = ask("tagged", R"(,"max_tokens":1,"tool_choice":"auto","tools":[{"function":{"name":"f"}}])", 1,
                          R"([{"role":"user","content":"[ARGS]</s>"}])");
  EXPECT_EQ(json_at(answer.body, "usage/prompt_tokens"), "13") << answer.body;  // f,[ARGS]</s>A, one a character
}

TEST_F(ToolCallsTest, RefusesWhatCannotBeAsked) {
  struct Case {
    std::string_view model;
    std::string members;
    std::string_view param, what;
  };
  const std::string not_schema =
      R"(,"tools":[{"function":{"name":"f","parameters":{"type":"object","properties":{"a":{"not":{}}}}}}])";
  const Case cases[] = {
      {"thinker", two_tools(), "tools", "chat template"},
      {"tagged", R"(,"tools":[{"type":"function"}])", "tools[0].function", "missing"},
      {"tagged", R"(,"tools":[{"type":"web_search"}])", "tools[0].type", "web_search"},
      {"tagged", R"(,"tools":[{"function":{"name":"a b"}}])", "tools[0].function.name", "letters"},
      {"tagged", R"(,"tools":[{"function":{"name":"a"}},{"function":{"name":"a"}}])", "tools[1].function.name",
       "another tool"},
      {"tagged", R"(,"tools":[{"function":{"name":"a","parameters":{"type":"string"}}}])",
       "tools[0].function.parameters.type", "object"},
      {"tagged", R"(,"tools":[{"function":{"name":"a","parameters":[]}}])", "tools[0].function.parameters", "object"},
      {"tagged", R"(,"tool_choice":"required")", "tool_choice", "no tools"},
      {"tagged", two_tools() + R"(,"tool_choice":"always")", "tool_choice", "none, auto, required"},
      {"tagged", two_tools() + R"(,"tool_choice":{"type":"function","function":{"name":"f"}})",
       "tool_choice.function.name", "none of the tools"},
      {"tagged", not_schema + R"(,"tool_choice":"required")", "tools[0]", "\"not\""},
      {"tagged", two_tools() + R"(,"response_format":{"type":"json_object"})", "response_format.type", "tool_choice"},
  };
  for (const Case& c : cases) {
    const auto answer = ask(c.model, c.members);
    EXPECT_EQ(answer.status, 400) << c.members << answer.body;
    EXPECT_EQ(json_string(json_at(answer.body, "error/param")), c.param) << answer.body;
    EXPECT_THAT(json_string(json_at(answer.body, "error/message")), HasSubstr(c.what));
  }
  EXPECT_EQ(ask("tagged", not_schema + R"(,"max_tokens":1)").status, 200);
  const auto completion =
      rig_->post("/v1/completions", fmt::format(R"({{"model":"plain","prompt":"a"{}}})", two_tools()));
  EXPECT_EQ(json_string(json_at(completion.body, "error/param")), "tools");
}

TEST_F(ToolCallsTest, SchemasMoveWithTheirReferences) {
  const auto moved = serve::arguments_schema(
      {.name = "f", .parameters = R"({"$id":"own","properties":{"$ref":{"$ref":"#/$defs/x"},"default":{"$ref":"#"}},
                         "const":{"$ref":"#"},"anyOf":[{"$ref":"#/$defs/x"},{"$ref":"other.json"}]})"},
      "/here");
  ASSERT_TRUE(moved.has_value()) << moved.error().message;
  EXPECT_EQ(*moved,
            R"({"properties":{"$ref":{"$ref":"#/here/$defs/x"},"default":{"$ref":"#/here"}},)"
            R"("const":{"$ref":"#"},"anyOf":[{"$ref":"#/here/$defs/x"},{"$ref":"other.json"}],"type":"object"})");
}

// An answer whose tokens the test chooses: what a model may write of its own accord.
class ScriptedAnswer {
 public:
  ScriptedAnswer(serve::ServiceOptions options, const std::string& model, ToolCallStyle style, bool is_stream)
      : options_(std::move(options)), table_(options_), tokenizer_(load(model)) {
    ask_.stream = is_stream;
    ask_.is_chat = true;
    plan_ = {.tokenizer = &tokenizer_, .prompt_tokens = {3}, .call_style = style, .tools = {"add", "mute"}};
    plan_.call_ids = 5;
  }
  serve::AnswerPlan& plan() { return plan_; }

  serve::HttpAnswer write(std::string_view text, FinishReason reason = FinishReason::kStopToken) {
    auto sink = std::make_shared<MemorySink>();
    serve::TextAnswer answer(sink, serve::make_chat_writer(sink, ask_, {.model = "m", .version = "1"}), ticket(),
                             std::make_shared<serve::EngineInbox>(), std::make_shared<serve::ServiceMetrics>(),
                             1U << 20U, serve::TextAnswer::Clock::now());
    answer.start(plan_);
    const auto tokens = tokenizer_.encode(text);
    EXPECT_TRUE(tokens.has_value());
    for (const TokenId id : *tokens) {
      EngineEvent event{.kind = EngineEvent::Kind::kToken};
      event.token.id = id;
      answer.take(0, event);
    }
    EngineEvent end{.kind = EngineEvent::Kind::kFinished};
    end.reason = reason;
    answer.take(0, end);
    return sink->wait();
  }

 private:
  static Tokenizer load(const std::string& folder) {
    auto tokenizer = load_tokenizer(folder);
    EXPECT_TRUE(tokenizer.has_value()) << tokenizer.error().message;
    return std::move(*tokenizer);
  }
  serve::Ticket ticket() {
    auto lease = std::get<serve::Lease>(table_.acquire("", 1));
    return {std::move(lease), *serve::KeyLimit::take(std::make_shared<serve::KeyLimit>(0), "")};
  }
  serve::ServiceOptions options_;
  serve::ModelTable table_;
  Tokenizer tokenizer_;
  serve::TextAsk ask_;
  serve::AnswerPlan plan_;
};

TEST_F(ToolCallsTest, CallsAreFoundInWhatAModelWrites) {
  ScriptedAnswer tagged(tool_options(), folder_->path("tagged"), ToolCallStyle::kTagged, false);
  const auto answer = tagged.write(
      "Well.\n<tool_call>\n{\"name\": \"add\", \"arguments\": {\"a\": 1}}\n</tool_call>\n"
      "<tool_call>{\"name\": \"mute\", \"arguments\": {\"on\": true}}</tool_call>");
  EXPECT_EQ(at(answer, "message/content"), "\"Well.\"") << answer.body;
  EXPECT_EQ(at(answer, "message/tool_calls/0/function/arguments"), R"("{\"a\": 1}")");
  EXPECT_EQ(at(answer, "message/tool_calls/1/function/name"), "\"mute\"");
  EXPECT_NE(at(answer, "message/tool_calls/0/id"), at(answer, "message/tool_calls/1/id"));
  EXPECT_EQ(finish_reason_of(answer), "tool_calls");
}

// They reach the reader although they are no text.
TEST_F(ToolCallsTest, MarksThatAreSpecialTokensCount) {
  ScriptedAnswer named(tool_options(), folder_->path("named"), ToolCallStyle::kMistralNamed, false);
  const auto answer = named.write(R"([TOOL_CALLS]add[ARGS]{"a": 1}[TOOL_CALLS]mute[ARGS]{"on": true})");
  EXPECT_EQ(at(answer, "message/tool_calls/0/function/name"), "\"add\"") << answer.body;
  EXPECT_EQ(at(answer, "message/tool_calls/1/function/arguments"), R"("{\"on\": true}")");
  EXPECT_EQ(at(answer, "message/content"), "null");
}

TEST_F(ToolCallsTest, OnlyTheFirstCallCountsWhereSeveralAreNotWanted) {
  for (const bool is_stream : {false, true}) {
    ScriptedAnswer tagged(tool_options(), folder_->path("tagged"), ToolCallStyle::kTagged, is_stream);
    tagged.plan().may_call_several = false;
    const std::string call = R"(<tool_call>{"name": "add", "arguments": {}}</tool_call>)";
    const auto answer = tagged.write(call + call + "more");
    if (is_stream) {
      const auto events = events_of(answer.body);
      EXPECT_EQ(joined(events, "choices/0/delta/tool_calls/0/function/name"), "add");
      EXPECT_EQ(joined(events, "choices/0/delta/content"), "");
      EXPECT_EQ(joined(events, "choices/0/finish_reason"), "tool_calls");
    } else {
      EXPECT_EQ(at(answer, "message/tool_calls/1"), "");
      EXPECT_EQ(at(answer, "message/content"), "null");
    }
  }
}

TEST_F(ToolCallsTest, ACallThatIsCutOffIsContent) {
  ScriptedAnswer tagged(tool_options(), folder_->path("tagged"), ToolCallStyle::kTagged, false);
  const auto answer = tagged.write(R"(<tool_call>{"name": "add")", FinishReason::kMaxTokens);
  EXPECT_EQ(at(answer, "message/tool_calls"), "");
  EXPECT_EQ(finish_reason_of(answer), "length");
  const auto unknown = tagged.write(R"(<tool_call>{"name": "rm", "arguments": {}}</tool_call>)");
  EXPECT_EQ(at(unknown, "message/tool_calls"), "");
  EXPECT_EQ(finish_reason_of(unknown), "stop");
}

}  // namespace
}  // namespace ballast::testing
