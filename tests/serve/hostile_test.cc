// Bodies that nobody's client sends. Each must be answered, with an error or without, and in the shape of its
// interface.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/support/json_path.h"
#include "tests/support/service_rig.h"

namespace ballast::testing {
namespace {

// Answers 200 or an error in the 400s with a message.
void expect_answered(ServiceRig& rig, std::string_view path, std::string_view body) {
  const auto answer = rig.post(path, body);
  if (answer.status == 200) return;
  EXPECT_GE(answer.status, 400);
  EXPECT_LT(answer.status, 500) << answer.body;
  const std::string_view place = path.starts_with("/api/") ? "error" : "error/message";
  EXPECT_FALSE(json_string(json_at(answer.body, place)).empty()) << answer.body;
}

struct HostileTarget {
  std::string_view path, body;
};
constexpr HostileTarget kTargets[] = {
    {"/v1/chat/completions",
     R"({"model":"tiny","messages":[{"role":"user","content":[{"type":"text","text":"a\u00e9"}]},{"role":"assistant","content":null,"tool_calls":[{"id":"x","function":{"name":"f","arguments":"{}"}}]}],"max_tokens":1,"max_completion_tokens":1,"temperature":0.5,"top_p":0.9,"top_k":3,"min_p":0.1,"repeat_penalty":1.1,"repeat_last_n":5,"presence_penalty":0.1,"frequency_penalty":0.1,"seed":1,"logit_bias":{"1":2},"stop":["a","b"],"stop_token_ids":[3],"n":2,"min_tokens":0,"ignore_eos":false,"stream":true,"stream_options":{"include_usage":true},"logprobs":true,"top_logprobs":2,"chat_template_kwargs":{"a":true},"reasoning_effort":"low","response_format":{"type":"text"},"tools":[],"best_of":1})"},
    {"/v1/completions",
     R"({"model":"tiny","prompt":["a","b"],"max_tokens":1,"logprobs":1,"echo":true,"stream":false})"},
    {"/v1/responses",
     R"({"model":"tiny","input":[{"type":"message","role":"user","content":[{"type":"input_text","text":"a"}]}],"instructions":"b","max_output_tokens":1,"text":{"format":{"type":"text"}},"truncation":"auto","store":false,"stream":true,"temperature":0.5})"},
    {"/v1/messages",
     R"({"model":"tiny","max_tokens":1,"system":[{"type":"text","text":"a"}],"messages":[{"role":"user","content":"a"}],"stop_sequences":["b"],"thinking":{"type":"disabled"},"temperature":0.5,"top_k":3,"top_p":0.5,"stream":true})"},
    {"/v1/messages/count_tokens", R"({"model":"tiny","messages":[{"role":"user","content":"a"}]})"},
    {"/api/chat",
     R"({"model":"tiny","messages":[{"role":"user","content":"a"}],"options":{"num_predict":1,"seed":1,"stop":["a"]},"think":false,"stream":true,"tools":[],"keep_alive":"5m"})"},
    {"/api/generate",
     R"({"model":"tiny","prompt":"a","system":"b","raw":false,"options":{"num_predict":1},"stream":false})"},
    {"/api/embed", R"({"model":"embed","input":["ship"],"truncate":true,"dimensions":48})"},
    {"/api/show", R"({"model":"tiny","verbose":true})"},
    {"/v1/embeddings", R"({"model":"embed","input":["ship","boat"],"encoding_format":"base64","dimensions":48})"},
    {"/tokenize", R"({"content":"a","add_special":true,"parse_special":false,"with_pieces":true})"},
    {"/detokenize", R"({"tokens":[1,2,3]})"},
    {"/v1/chat/completions",
     R"({"model":"tiny","messages":[{"role":"user","content":"a"}],"max_tokens":1,"tools":[{"type":"function","function":{"name":"f","parameters":{"type":"object","properties":{"a":{"$ref":"#/$defs/x"}},"$defs":{"x":{"type":"string"}}}}}],"tool_choice":"required","parallel_tool_calls":false})"},
    {"/v1/chat/completions",
     R"({"model":"tiny","messages":[{"role":"user","content":"a"}],"max_tokens":1,"response_format":{"type":"json_schema","json_schema":{"name":"r","schema":{"type":"array","items":{"type":"integer"}}}}})"},
    {"/v1/completions", R"({"model":"tiny","prompt":"a","max_tokens":1,"grammar":"root ::= \"a\""})"},
    {"/v1/completions", R"({"model":"tiny","prompt":"a","max_tokens":1,"structured_outputs":{"regex":"[ab]+"}})"},
    {"/v1/responses",
     R"({"model":"tiny","input":[{"type":"function_call","call_id":"x","name":"f","arguments":"{}"},{"type":"function_call_output","call_id":"x","output":"1"}],"max_output_tokens":1,"tools":[{"type":"function","name":"f"}],"tool_choice":{"type":"function","name":"f"}})"},
    {"/v1/messages", R"({"model":"tiny","max_tokens":1,"messages":[{"role":"assistant","content":[{"type":"tool_use","id":"x","name":"f","input":{}}]},{"role":"user","content":[{"type":"tool_result","tool_use_id":"x","content":"1"}]}],"tools":[{"name":"f","input_schema":{"type":"object"}}],"tool_choice":{"type":"tool","name":"f"}})"},
    {"/api/chat",
     R"({"model":"tiny","messages":[{"role":"user","content":"a"}],"options":{"num_predict":1},"format":{"type":"object"},"stream":false})"},
};

class HostileTest : public ::testing::TestWithParam<HostileTarget> {
 protected:
  static void SetUpTestSuite() { rig_ = std::make_unique<ServiceRig>(); }
  static void TearDownTestSuite() { rig_.reset(); }
  static std::unique_ptr<ServiceRig> rig_;
};
std::unique_ptr<ServiceRig> HostileTest::rig_;

TEST_P(HostileTest, TheBodyItselfIsFine) {
  const auto answer = rig_->post(GetParam().path, GetParam().body);
  EXPECT_EQ(answer.status, 200) << answer.body;
}

TEST_P(HostileTest, CutAtEveryByte) {
  for (size_t length = 0; length < GetParam().body.size(); ++length) {
    const auto answer = rig_->post(GetParam().path, GetParam().body.substr(0, length));
    ASSERT_EQ(answer.status, 400) << length << ": " << answer.body;
  }
}

TEST_P(HostileTest, EveryMemberOfEveryType) {
  const std::string nested = std::string(300, '[') + std::string(300, ']');
  const std::string deep = R"({"a":)" + std::string(200, '[') + std::string(200, ']') + "}";
  for (const auto& [key, value] : json_members(GetParam().body, "")) {
    for (const std::string& other : {std::string("null"),
                                     std::string("true"),
                                     std::string("-1"),
                                     std::string("0"),
                                     std::string("1e308"),
                                     std::string("1e999"),
                                     std::string("18446744073709551615"),
                                     std::string("-9223372036854775809"),
                                     std::string("0.5"),
                                     std::string(R"("text")"),
                                     std::string(R"("\ud800")"),
                                     std::string(R"("\u0000")"),
                                     std::string("[]"),
                                     std::string("[null]"),
                                     std::string("[[]]"),
                                     std::string("[{}]"),
                                     std::string("{}"),
                                     std::string(R"({"":{"":0}})"),
                                     std::string(R"([{"role":{},"content":{}}])"),
                                     nested,
                                     deep}) {
      std::string body = "{";
      for (const auto& [name, raw] : json_members(GetParam().body, "")) {
        body += fmt::format("{}\"{}\":{}", body.size() > 1 ? "," : "", name, name == key ? other : raw);
      }
      SCOPED_TRACE(body.substr(0, 600));
      expect_answered(*rig_, GetParam().path, body + "}");
    }
  }
}

TEST_P(HostileTest, BytesThatAreNoText) {
  for (const std::string_view bad : {"\xff", "\xc0\x80", "\xed\xa0\x80", "\xf5\x80\x80\x80", "\x01"}) {
    std::string body(GetParam().body);
    const size_t at = body.find(":\"") != std::string::npos ? body.find(":\"") + 2 : body.size() - 1;
    body.insert(at, bad);
    expect_answered(*rig_, GetParam().path, body);
    expect_answered(*rig_, GetParam().path, std::string(bad));
  }
}

INSTANTIATE_TEST_SUITE_P(Bodies, HostileTest, ::testing::ValuesIn(kTargets),
                         [](const auto& info) { return fmt::format("Target{}", info.index); });

TEST(HostileBodies, ManyMembersAndLongLists) {
  ServiceRig rig;
  std::string members = "{";
  for (int i = 0; i < 20000; ++i) members += fmt::format("\"k{}\":0,", i);
  const auto crowded = rig.post("/v1/chat/completions", members + R"("messages":[{"role":"user","content":"a"}]})");
  EXPECT_EQ(crowded.status, 400);
  EXPECT_THAT(crowded.body, ::testing::HasSubstr("more than 10000 members"));
  std::string list;
  for (int i = 0; i < 20000; ++i) list += R"({"role":"user","content":""},)";
  expect_answered(rig, "/v1/chat/completions", R"({"messages":[)" + list + R"({"role":"user"}]})");
  std::string numbers;
  for (int i = 0; i < 50000; ++i) numbers += "1,";
  expect_answered(rig, "/v1/completions", R"({"prompt":[)" + numbers + "1]}");
  std::string texts;
  for (int i = 0; i < 5000; ++i) texts += "\"a\",";
  const auto many = rig.post("/v1/completions", R"({"prompt":[)" + texts + "\"a\"]}");
  EXPECT_EQ(many.status, 400);
  EXPECT_THAT(many.body, ::testing::HasSubstr("at most 128"));
}

TEST(HostileBodies, ANameHasOneTagAndNotAMillion) {
  ServiceRig rig;
  std::string name = "tiny";
  for (int i = 0; i < 1'000'000; ++i) name += ":latest";
  const auto answer = rig.post("/v1/completions", fmt::format(R"({{"model":"{}","prompt":"a"}})", name));
  EXPECT_EQ(answer.status, 404);
  EXPECT_EQ(json_at(answer.body, "error/code"), "\"model_not_found\"");
}

}  // namespace
}  // namespace ballast::testing
