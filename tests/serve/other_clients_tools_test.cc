// Structured output and calls of tools, as the clients of other interfaces than chat completions see them.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "ballast/base/json.h"
#include "tests/support/json_path.h"
#include "tests/support/service_rig.h"
#include "tests/support/tool_models.h"

namespace ballast::testing {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

constexpr std::string_view kSwitchSchema =
    R"({"type":"object","properties":{"on":{"type":"boolean"}},"required":["on"],"additionalProperties":false})";

class OtherClientsToolsTest : public ::testing::Test {
 protected:
  static void SetUpTestSuite() {
    folder_ = std::make_unique<TempFolder>();
    auto options = rig_options();
    options.most_tokens = 0;
    options.models.push_back({.name = "dice", .path = write_tool_model(*folder_, "dice", tool_template(kTaggedMarks))});
    rig_ = std::make_unique<ServiceRig>(std::move(options));
  }
  static void TearDownTestSuite() {
    rig_.reset();
    folder_.reset();
  }
  static std::unique_ptr<TempFolder> folder_;
  static std::unique_ptr<ServiceRig> rig_;
};
std::unique_ptr<TempFolder> OtherClientsToolsTest::folder_;
std::unique_ptr<ServiceRig> OtherClientsToolsTest::rig_;

bool is_switch(std::string_view arguments) {
  const std::string on = json_at(arguments, "on");
  return json_keys(arguments, "") == std::vector<std::string>{"on"} && (on == "true" || on == "false");
}

TEST_F(OtherClientsToolsTest, OllamaTakesAFormat) {
  for (uint64_t seed = 1; seed <= 4; ++seed) {
    const auto body = [&](std::string_view path, std::string_view more) {
      return rig_->post(path, fmt::format(R"({{"model":"dice","stream":false,"format":{},"options":{{"seed":{},)"
                                          R"("temperature":1}},{}}})",
                                          kSwitchSchema, seed, more));
    };
    const auto chat = body("/api/chat", R"("messages":[{"role":"user","content":"Hi"}])");
    ASSERT_EQ(chat.status, 200) << chat.body;
    EXPECT_TRUE(is_switch(json_string(json_at(chat.body, "message/content")))) << chat.body;
    const auto generated = body("/api/generate", R"("prompt":"Hi")");
    EXPECT_EQ(json_at(generated.body, "response"), json_at(chat.body, "message/content"));
  }
  const auto any =
      rig_->post("/api/chat", R"({"model":"dice","stream":false,"format":"json","options":{"num_predict":40},
                                               "messages":[{"role":"user","content":"Hi"}]})");
  EXPECT_THAT(json_string(json_at(any.body, "message/content")), HasSubstr("{")) << any.body;
}

TEST_F(OtherClientsToolsTest, OllamaSaysWhichModelsCanCall) {
  EXPECT_EQ(json_at(rig_->post("/api/show", R"({"model":"dice"})").body, "capabilities"), R"(["completion","tools"])");
  EXPECT_EQ(json_at(rig_->post("/api/show", R"({"model":"thinker"})").body, "capabilities"), R"(["completion"])");
  const auto refused = rig_->post(
      "/api/chat",
      R"({"model":"thinker","messages":[{"role":"user","content":"Hi"}],"tools":[{"function":{"name":"f"}}]})");
  EXPECT_EQ(refused.status, 400);
  EXPECT_THAT(json_string(json_at(refused.body, "error")), HasSubstr("chat template"));
}

std::string anthropic_request(uint64_t seed, std::string_view more) {
  // This interface has no seed: other messages give other answers.
  return fmt::format(R"({{"model":"dice","max_tokens":90,"temperature":1,"tool_choice":{{"type":"any"}},)"
                     R"("messages":[{{"role":"user","content":"{}"}}],)"
                     R"("tools":[{{"name":"switch","input_schema":{}}}]{}}})",
                     seed, kSwitchSchema, more);
}

TEST_F(OtherClientsToolsTest, AnthropicGetsBlocksOfToolUse) {
  for (uint64_t seed = 1; seed <= 4; ++seed) {
    const auto whole = rig_->post("/v1/messages", anthropic_request(seed, ""));
    ASSERT_EQ(whole.status, 200) << whole.body;
    if (json_at(whole.body, "stop_reason") == "\"max_tokens\"") continue;
    EXPECT_EQ(json_at(whole.body, "stop_reason"), "\"tool_use\"") << whole.body;
    EXPECT_THAT(json_keys(whole.body, "content/0"), ElementsAre("type", "id", "name", "input"));
    EXPECT_EQ(json_at(whole.body, "content/0/type"), "\"tool_use\"");
    EXPECT_TRUE(is_switch(json_at(whole.body, "content/0/input")));
    EXPECT_EQ(json_at(whole.body, "content/1"), "");
  }
}

TEST_F(OtherClientsToolsTest, AnthropicStreamsBlocksOfToolUse) {
  const auto stream = rig_->post("/v1/messages", anthropic_request(2, R"(,"stream":true)"));
  ASSERT_EQ(stream.status, 200) << stream.body;
  const auto events = events_of(stream.body);
  ASSERT_EQ(joined(events, "delta/stop_reason"), "tool_use") << stream.body;
  EXPECT_EQ(joined(events, "content_block/type"), "tool_use");
  EXPECT_EQ(joined(events, "content_block/name"), "switch");
  EXPECT_TRUE(is_switch(joined(events, "delta/partial_json")));
  EXPECT_EQ(joined(events, "type"),
            "message_startcontent_block_startcontent_block_deltacontent_block_stop"
            "message_deltamessage_stop");
  for (size_t i = 1; i <= 3; ++i) EXPECT_EQ(json_at(events[i], "index"), "0") << events[i];
}

TEST_F(OtherClientsToolsTest, AnthropicFollowsASchema) {
  const std::string format = fmt::format(R"({{"type":"json_schema","schema":{}}})", kSwitchSchema);
  for (const std::string& asked :
       {fmt::format(R"("output_config":{{"effort":"low","format":{}}})", format), R"("output_format":)" + format}) {
    const auto answer = rig_->post("/v1/messages", fmt::format(R"({{"model":"dice","max_tokens":100,{},)"
                                                               R"("messages":[{{"role":"user","content":"Hi"}}]}})",
                                                               asked));
    ASSERT_EQ(answer.status, 200) << answer.body;
    ASSERT_EQ(json_at(answer.body, "stop_reason"), "\"end_turn\"") << answer.body;
    EXPECT_TRUE(is_switch(json_string(json_at(answer.body, "content/0/text")))) << answer.body;
  }
  const auto refused = rig_->post("/v1/messages", R"({"model":"dice","max_tokens":1,"messages":[
      {"role":"user","content":"Hi"}],"output_config":{"format":{"type":"xml"}}})");
  EXPECT_EQ(refused.status, 400);
  EXPECT_THAT(json_string(json_at(refused.body, "error/message")), HasSubstr("output_config.format.type"));
}

TEST_F(OtherClientsToolsTest, AnthropicSendsCallsAndResultsBack) {
  const auto counted = rig_->post("/v1/messages/count_tokens",
                                  R"({"model":"dice","messages":[{"role":"user","content":"Hi"},
      {"role":"assistant","content":[{"type":"thinking","thinking":"x","signature":""},{"type":"text","text":"T"},
        {"type":"tool_use","id":"abc","name":"f","input":{"a":4}}]},
      {"role":"user","content":[{"type":"tool_result","tool_use_id":"abc","content":[{"type":"text","text":"five"}]},
        {"type":"text","text":"So?"}]}]})");
  EXPECT_EQ(json_at(counted.body, "input_tokens"), "16") << counted.body;  // HiTabc:4fiveSo?A
  const auto refused = rig_->post("/v1/messages", R"({"model":"dice","max_tokens":1,"messages":[
      {"role":"user","content":[{"type":"image"}]}]})");
  EXPECT_EQ(refused.status, 400);
  EXPECT_THAT(json_string(json_at(refused.body, "error/message")), HasSubstr("messages[0].content[0].type"));
}

std::string response_request(uint64_t seed, std::string_view more) {
  return fmt::format(R"({{"model":"dice","temperature":1,"seed":{},"input":"Hi"{}}})", seed, more);
}

TEST_F(OtherClientsToolsTest, ResponsesFollowASchema) {
  const std::string format = fmt::format(
      R"(,"text":{{"format":{{"type":"json_schema","name":"r","strict":true,"schema":{}}}}})", kSwitchSchema);
  for (uint64_t seed = 1; seed <= 4; ++seed) {
    const auto answer = rig_->post("/v1/responses", response_request(seed, format));
    ASSERT_EQ(answer.status, 200) << answer.body;
    if (json_at(answer.body, "status") != "\"completed\"") continue;
    EXPECT_TRUE(is_switch(json_string(json_at(answer.body, "output/0/content/0/text")))) << answer.body;
  }
  const auto refused = rig_->post("/v1/responses", response_request(1, R"(,"text":{"format":{"type":"json_schema"}})"));
  EXPECT_EQ(json_at(refused.body, "error/param"), "\"text.format.schema\"");
}

TEST_F(OtherClientsToolsTest, ResponsesHaveCallsAsItems) {
  const std::string tools = fmt::format(
      R"(,"tool_choice":{{"type":"function","name":"switch"}},"tools":[{{"type":"function","name":"switch","parameters":{}}}])",
      kSwitchSchema);
  int complete = 0;
  for (uint64_t seed = 1; seed <= 6; ++seed) {
    const auto whole = rig_->post("/v1/responses", response_request(seed, tools));
    ASSERT_EQ(whole.status, 200) << whole.body;
    if (json_at(whole.body, "status") != "\"completed\"") continue;
    ++complete;
    EXPECT_EQ(json_at(whole.body, "output/0/type"), "\"function_call\"") << whole.body;
    const std::string arguments = json_string(json_at(whole.body, "output/0/arguments"));
    EXPECT_TRUE(is_switch(arguments));
    const auto events =
        events_of(rig_->post("/v1/responses", response_request(seed, tools + R"(,"stream":true)")).body);
    EXPECT_EQ(joined(events, "delta"), arguments);
    EXPECT_EQ(json_string(json_at(events.back(), "response/output/0/arguments")), arguments);
    EXPECT_EQ(json_at(events.back(), "type"), "\"response.completed\"");
  }
  EXPECT_GE(complete, 3);
}

TEST_F(OtherClientsToolsTest, ResponsesRepeatWhatTheRequestAskedFor) {
  const std::string tool = R"({"type":"function", "name":"switch","parameters":{"type":"object"}})";
  const std::string format = R"({"type":"json_schema", "name":"r","schema":{"type":"object"}})";
  const std::string asked = fmt::format(
      R"(,"max_output_tokens":1,"instructions":"Be\nbrief.","tools":[{}],"tool_choice":"none","parallel_tool_calls":false,
          "text":{{"format":{}}})",
      tool, format);
  const std::string whole = rig_->post("/v1/responses", response_request(1, asked)).body;
  const auto events = events_of(rig_->post("/v1/responses", response_request(1, asked + R"(,"stream":true)")).body);
  const std::vector<std::pair<std::string, std::string>> answers = {
      {whole, ""}, {events.front(), "response/"}, {events.back(), "response/"}};
  for (const auto& [answer, path] : answers) {
    EXPECT_EQ(json_string(json_at(answer, path + "instructions")), "Be\nbrief.") << answer;
    EXPECT_EQ(json_at(answer, path + "tools/0"), tool);
    EXPECT_EQ(json_at(answer, path + "tool_choice"), "\"none\"");
    EXPECT_EQ(json_at(answer, path + "parallel_tool_calls"), "false");
    EXPECT_EQ(json_at(answer, path + "text/format"), format);
  }
  const std::string plain = rig_->post("/v1/responses", response_request(1, R"(,"max_output_tokens":1)")).body;
  EXPECT_EQ(json_at(plain, "instructions"), "null") << plain;
  EXPECT_EQ(json_at(plain, "tools"), "[]");
  EXPECT_EQ(json_at(plain, "tool_choice"), "\"auto\"");
  EXPECT_EQ(json_at(plain, "parallel_tool_calls"), "true");
  EXPECT_EQ(json_at(plain, "text/format/type"), "\"text\"");
}

TEST_F(OtherClientsToolsTest, ResponsesOfRequestsOverSeveralLinesAreEventsOfOneLine) {
  const auto answer = rig_->post("/v1/responses", response_request(1, R"(,"max_output_tokens":1,"stream":true,"tools":[
      {"type":"function",
       "name":"switch"}])"));
  const auto events = events_of(answer.body);
  EXPECT_EQ(json_at(events.front(), "response/tools/0/name"), "\"switch\"") << answer.body;
}

TEST_F(OtherClientsToolsTest, ResponsesWithoutATextHaveTheirEventsInOrder) {
  const std::string asked = R"({"model":"tiny","input":"It is a truth","max_output_tokens":2)";
  const std::string text =
      json_string(json_at(rig_->post("/v1/responses", asked + "}").body, "output/0/content/0/text"));
  ASSERT_FALSE(text.empty());
  JsonWriter stop;
  stop.string(text.substr(0, 1));
  const auto answer = rig_->post("/v1/responses", fmt::format(R"({},"stream":true,"stop":{}}})", asked, stop.take()));
  const auto events = events_of(answer.body);
  for (size_t i = 0; i < events.size(); ++i) EXPECT_EQ(json_at(events[i], "sequence_number"), std::to_string(i));
  EXPECT_EQ(joined(events, "type"),
            "response.createdresponse.in_progressresponse.output_item.addedresponse.content_part.added"
            "response.output_text.doneresponse.content_part.doneresponse.output_item.doneresponse.completed")
      << answer.body;
}

TEST_F(OtherClientsToolsTest, ResponsesTakeCallsAndResultsBack) {
  const auto answer = rig_->post("/v1/responses", R"({"model":"dice","max_output_tokens":1,"input":[
      {"role":"user","content":"Hi"},{"type":"reasoning","summary":[]},
      {"type":"function_call","call_id":"abc","name":"f","arguments":"{\"a\":4}"},
      {"type":"function_call","call_id":"def","name":"f","arguments":"{\"a\":5}"},
      {"type":"function_call_output","call_id":"abc","output":"five"}]})");
  EXPECT_EQ(json_at(answer.body, "usage/input_tokens"), "17") << answer.body;  // Hiabc:4def:5fiveA
}

}  // namespace
}  // namespace ballast::testing
