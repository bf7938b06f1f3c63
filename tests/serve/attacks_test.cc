// Requests that made comparable servers crash, hang, leak or reach out. docs/serve.md lists them with these tests'
// names.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/support/json_path.h"
#include "tests/support/service_rig.h"

namespace ballast::testing {
namespace {

using ::testing::HasSubstr;

constexpr std::string_view kAttackedChat = "/v1/chat/completions", kAttackedCompletions = "/v1/completions";

class RequestAttacks : public ::testing::Test {
 protected:
  static void SetUpTestSuite() { rig_ = std::make_unique<ServiceRig>(); }
  static void TearDownTestSuite() { rig_.reset(); }
  // Whatever it was, the service has no trace of it.
  void TearDown() override {
    rig_->wait_until_idle();
    EXPECT_EQ(rig_->get("/health").status, 200);
  }
  serve::HttpAnswer chat(const std::string& more) {
    return rig_->post(kAttackedChat,
                      R"({"model":"tiny","messages":[{"role":"user","content":"a"}],"max_tokens":2,)" + more + "}");
  }
  serve::HttpAnswer completion(const std::string& more) {
    return rig_->post(kAttackedCompletions, R"({"model":"tiny","prompt":"a","max_tokens":2,)" + more + "}");
  }
  static std::unique_ptr<ServiceRig> rig_;
};
std::unique_ptr<ServiceRig> RequestAttacks::rig_;

std::string repeated(std::string_view text, size_t times) {
  std::string all;
  for (size_t i = 0; i < times; ++i) all += text;
  return all;
}

std::string param_of(const serve::HttpAnswer& answer) { return json_string(json_at(answer.body, "error/param")); }

TEST_F(RequestAttacks, NumbersBeyondTheirRangeAreRefusedByName) {
  const std::pair<std::string, std::vector<std::string>> members[] = {
      {"n", {"1000000000", "-1", "0", "9223372036854775808", "1e300"}},
      {"max_tokens", {"-1", "4294967296", "1000000000000000000000000", "-9223372036854775809"}},
      {"min_tokens", {"-1", "1000000000000"}},
      {"logprobs", {"-1", "1000000", "2147483648"}},
      {"top_k", {"-2", "1099511627776"}},
      {"top_p", {"-0.1", "2", "1e308"}},
      {"min_p", {"-1", "1e999"}},
      {"temperature", {"-1", "1e308", "-1e999"}},
      {"repetition_penalty", {"0", "-1", "1e300"}},
      {"repeat_last_n", {"-2", "1e18"}},
      {"presence_penalty", {"-3", "1e9"}},
      {"frequency_penalty", {"-3", "1e9"}},
      {"seed", {"18446744073709551616", "1e300"}},
      {"best_of", {"1000000000", "-1"}},
      {"stop", {R"(["a",5])", "[" + repeated("\"a\",", 5000) + "\"a\"]", "\"" + repeated("a", 5000) + "\""}},
      {"stop_token_ids", {"[-1]", "[4294967296]", "[" + repeated("1,", 5000) + "1]", R"(["a"])"}},
      {"logit_bias", {R"({"-1":1})", R"({"4294967296":1})", R"({"1":1e9})", R"({"1":-1e999})", R"({"1":null})"}},
  };
  for (const auto& [name, values] : members) {
    for (const std::string& value : values) {
      const auto answer =
          rig_->post(kAttackedCompletions, fmt::format(R"({{"model":"tiny","prompt":"a","{}":{}}})", name, value));
      EXPECT_EQ(answer.status, 400) << name << " " << value.substr(0, 50);
      EXPECT_EQ(param_of(answer), name) << answer.body;
    }
  }
  EXPECT_EQ(chat(R"("logprobs":true,"top_logprobs":1000000)").status, 400);
  EXPECT_EQ(chat(R"("logprobs":true,"top_logprobs":-1)").status, 400);
  EXPECT_EQ(
      rig_->post(kAttackedChat, R"({"messages":[{"role":"user","content":"a"}],"max_completion_tokens":-1})").status,
      400);
  std::string biases;
  for (int i = 0; i < 5000; ++i) biases += fmt::format("{}\"{}\":1", i == 0 ? "" : ",", i);
  EXPECT_EQ(param_of(completion("\"logit_bias\":{" + biases + "}")), "logit_bias");
}

TEST_F(RequestAttacks, WhatIsNoJsonNumberIsNoNumber) {
  for (const char* text : {"NaN", "Infinity", "-Infinity", "nan", "0x10", "01", "1.", "+1", ".5", "1e", "--1", "-"}) {
    EXPECT_EQ(completion(fmt::format("\"temperature\":{}", text)).status, 400) << text;
    EXPECT_EQ(completion(fmt::format("\"unknown\":{}", text)).status, 400) << text;
  }
}

TEST_F(RequestAttacks, NestingIsRefusedWhereverItIs) {
  constexpr size_t kDeep = 100'000;
  const std::string lists = repeated("[", kDeep) + repeated("]", kDeep);
  const std::string objects = repeated(R"({"a":)", kDeep) + "1" + repeated("}", kDeep);
  for (const std::string& deep : {lists, objects}) {
    EXPECT_EQ(rig_->post(kAttackedChat, deep).status, 400);
    EXPECT_EQ(completion("\"unknown\":" + deep).status, 400);
    EXPECT_EQ(chat("\"chat_template_kwargs\":{\"a\":" + deep + "}").status, 400);
    EXPECT_EQ(
        chat("\"tools\":[{\"type\":\"function\",\"function\":{\"name\":\"f\",\"parameters\":" + deep + "}}]").status,
        400);
    for (const char* path : {"/v1/responses", "/v1/messages", "/api/chat", "/api/generate", "/tokenize"})
      EXPECT_EQ(rig_->post(path, R"({"model":"tiny","unknown":)" + deep + "}").status, 400) << path;
  }
  // Arguments are a text that holds JSON.
  const auto answer = rig_->post(
      kAttackedChat,
      fmt::format(R"({{"messages":[{{"role":"user","content":"a"}},{{"role":"assistant","content":null,"tool_calls":)"
                  R"([{{"id":"x","type":"function","function":{{"name":"f","arguments":"{}"}}}}]}}],"max_tokens":1}})",
                  lists));
  EXPECT_THAT(answer.status, ::testing::AnyOf(200, 400)) << answer.body;
}

std::string bomb_of_references(std::string_view keyword) {
  std::string defs = R"("d40":{"type":"null"})";
  for (int i = 0; i < 40; ++i) {
    const std::string next = fmt::format(R"({{"$ref":"#/$defs/d{}"}})", i + 1);
    defs += fmt::format(R"(,"d{}":{{"{}":[{},{}]}})", i, keyword, next, next);
  }
  return R"({"$ref":"#/$defs/d0","$defs":{)" + defs + "}}";
}

TEST_F(RequestAttacks, SchemasThatMadeOthersCrashAreRefusedOrEnforced) {
  const std::vector<std::string> refused = {
      R"({"type":"nonsense"})",
      R"({"type":["integer",7]})",
      R"({"type":{}})",
      R"({"type":"string","pattern":"("})",
      R"({"type":"string","pattern":"*"})",
      R"({"type":"string","pattern":"[z-a]"})",
      R"({"type":"string","pattern":5})",
      R"({"type":"string","pattern":"(?=a)b"})",
      R"({"type":"string","minLength":-1})",
      R"({"type":"array","minItems":1000000000000000000})",
      R"({"type":"integer","minimum":5,"maximum":1})",
      R"({"$ref":"#"})",
      R"({"$ref":"#/$defs/a","$defs":{"a":{"$ref":"#/$defs/b"},"b":{"$ref":"#/$defs/a"}}})",
      R"({"$ref":"#/$defs/missing"})",
      R"({"enum":[]})",
      repeated(R"({"type":"array","items":)", 100) + "{}" + repeated("}", 100),
  };
  const std::vector<std::string> either = {
      R"({"anyOf":[{"$ref":"#"},{"type":"string"}]})",
      R"({"type":"string","minLength":1000000000})",
      R"({"type":"string","pattern":"^((((a{1,99}){1,99}){1,99}){1,99}){1,99}$"})",
      R"({"type":"string","pattern":"^(a*)*(b|b)*$"})",
      repeated(R"({"type":"array","minItems":9,"maxItems":9,"items":)", 20) + R"({"type":"null"})" + repeated("}", 20),
      bomb_of_references("anyOf"),
      bomb_of_references("oneOf"),
      bomb_of_references("allOf"),
      bomb_of_references("prefixItems"),
      R"({"type":"integer","minimum":-9223372036854775808,"maximum":9223372036854775807})",
      R"({"type":"number","minimum":-1e308,"maximum":1e308})",
  };
  const auto ask = [this](const std::string& schema, bool as_tool) {
    if (as_tool) {
      return chat(R"("tool_choice":"required","tools":[{"type":"function","function":{"name":"f","parameters":)"
                  R"({"type":"object","properties":{"a":)" +
                  schema + R"(},"required":["a"]}}}])");
    }
    return chat(R"("response_format":{"type":"json_schema","json_schema":{"name":"r","schema":)" + schema + "}}");
  };
  for (const bool as_tool : {false, true}) {
    for (const std::string& schema : refused) EXPECT_EQ(ask(schema, as_tool).status, 400) << schema.substr(0, 200);
    for (const std::string& schema : either)
      EXPECT_THAT(ask(schema, as_tool).status, ::testing::AnyOf(200, 400)) << schema.substr(0, 200);
  }
}

TEST_F(RequestAttacks, GrammarsAndExpressionsThatMadeOthersCrashAreRefusedOrEnforced) {
  std::string doubling = "root ::= r0\n";
  for (int i = 0; i < 60; ++i) doubling += fmt::format("r{} ::= r{} r{}\n", i, i + 1, i + 1);
  const std::vector<std::string> grammars = {
      "root ::= root \"a\" | \"b\"",
      "root ::= x root \"a\" | \"b\"\nx ::= \"\" | \"c\"",
      "root ::= (\"\")*",
      "root ::= (((\"a\"*)*)*)*",
      "root ::= (\"a\"{1,1000}){1,1000}",
      "root ::= \"a\"{99999999999999999999}",
      "root ::= \"a\" root",
      "root ::= [z-a]",
      "root ::= \"a",
      "root ::= missing",
      "root ::= " + repeated("(", 100'000) + "\"a\"" + repeated(")", 100'000),
      "root ::= \"a\"" + repeated("*", 10'000),
      doubling + "r60 ::= \"b\"",
      doubling + "r60 ::= \"b\" | \"\"",
      "root ::= " + repeated("\"a\" root | ", 5000) + "\"b\"",
  };
  for (const std::string& grammar : grammars) {
    std::string escaped;
    for (const char c : grammar) escaped += c == '"' ? "\\\"" : c == '\n' ? "\\n" : std::string(1, c);
    EXPECT_THAT(completion("\"grammar\":\"" + escaped + "\"").status, ::testing::AnyOf(200, 400))
        << grammar.substr(0, 100);
  }
  for (const std::string& expression :
       {std::string("(a*)*b"), std::string("((a|a)*)*c"), std::string("((a{1,1000}){1,1000}){1,1000}"),
        repeated("(", 100'000) + "a" + repeated(")", 100'000), repeated("a?", 2000) + repeated("a", 2000),
        repeated(".*", 300) + "x", std::string("[a"), std::string("(a)\\\\1"), std::string("(?<=a)b")}) {
    EXPECT_THAT(completion(R"("structured_outputs":{"regex":")" + expression + "\"}").status,
                ::testing::AnyOf(200, 400))
        << expression.substr(0, 100);
  }
}

TEST_F(RequestAttacks, NothingIsFetchedFromElsewhere) {
  for (const char* url :
       {"http://169.254.169.254/latest/meta-data/", "https://images.example/x.png", "file:///etc/passwd",
        "gopher://127.0.0.1:70/", "data:image/png;base64,AAAA", "/etc/passwd"}) {
    const auto refused = [url](const serve::HttpAnswer& answer) {
      EXPECT_EQ(answer.status, 400) << url;
      EXPECT_THAT(answer.body, HasSubstr("text only")) << url;
    };
    const auto post = [&](std::string_view path, std::string_view content) {
      refused(
          rig_->post(path, fmt::format(R"({{"model":"tiny","max_tokens":1,"{}":[{{"role":"user","content":[{}]}}]}})",
                                       path == "/v1/responses" ? "input" : "messages", content)));
    };
    post(kAttackedChat, fmt::format(R"({{"type":"image_url","image_url":{{"url":"{}"}}}})", url));
    post(kAttackedChat, fmt::format(R"({{"type":"input_audio","input_audio":{{"data":"{}","format":"wav"}}}})", url));
    post("/v1/responses", fmt::format(R"({{"type":"input_image","image_url":"{}"}})", url));
    post("/v1/messages", fmt::format(R"({{"type":"image","source":{{"type":"url","url":"{}"}}}})", url));
    refused(rig_->post(
        "/api/chat",
        fmt::format(R"({{"model":"tiny","messages":[{{"role":"user","content":"a","images":["{}"]}}]}})", url)));
    const auto schema = chat(fmt::format(
        R"("response_format":{{"type":"json_schema","json_schema":{{"name":"r","schema":{{"$ref":"{}"}}}}}})", url));
    EXPECT_EQ(schema.status, 400) << url;
  }
}

TEST_F(RequestAttacks, NamesOfModelsAreNoPaths) {
  for (const char* name : {"../../etc/passwd", "/etc/passwd", "%2e%2e/%2e%2e/etc/passwd", "tiny/../tiny", "./tiny",
                           "tiny\\u0000", "file:///etc/passwd", "tiny/model.gptrs", "TINY", " tiny"}) {
    for (const char* path : {"/v1/chat/completions", "/v1/responses", "/v1/messages"}) {
      const auto answer = rig_->post(
          path,
          fmt::format(R"({{"model":"{}","max_tokens":1,"input":"a","messages":[{{"role":"user","content":"a"}}]}})",
                      name));
      EXPECT_EQ(answer.status, 404) << name << " " << path << answer.body;
    }
    EXPECT_EQ(rig_->post("/api/show", fmt::format(R"({{"model":"{}"}})", name)).status, 404) << name;
  }
  for (const char* path : {"/v1/models/..%2f..%2fetc%2fpasswd", "/v1/models/%2e%2e/%2e%2e/etc/passwd",
                           "/v1/models/../../etc/passwd", "/../../etc/passwd", "/%2e%2e/%2e%2e/etc/passwd",
                           "/v1/models/%zz%00%ff", "/v1/models/tiny%00", "//v1/models", "/v1/../v1/models"})
    EXPECT_EQ(rig_->get(path).status, 404) << path;
}

// What comparable servers offer and had to fix: saving slots to files, creating, fetching and removing models.
TEST_F(RequestAttacks, NothingIsUploadedSavedOrLoadedByRequest) {
  for (const char* path :
       {"/slots", "/slots/0", "/slots/0?action=save", "/slots/0?action=restore", "/lora-adapters", "/api/create",
        "/api/pull", "/api/push", "/api/copy", "/api/delete", "/api/blobs/sha256:0", "/v1/files",
        "/v1/fine_tuning/jobs", "/apply-template", "/infill", "/v1/load_lora_adapter", "/upload"}) {
    for (const char* method : {"GET", "POST", "DELETE", "HEAD"}) {
      const auto answer = rig_->start(method, path, R"({"filename":"../../x","name":"x","model":"tiny"})").sink->wait();
      EXPECT_EQ(answer.status, 404) << method << " " << path;
    }
  }
}

TEST_F(RequestAttacks, TemplatesAreTheModelsAndTheirValuesAreData) {
  EXPECT_EQ(chat(R"("chat_template":"{{ x }}")").status, 400);
  for (const char* values : {R"({"x":"{{ 7*7 }}"})", R"({"x":"{% for i in range(1000000000) %}a{% endfor %}"})",
                             R"({"messages":[]})", R"({"bos_token":"x"})", R"({"tools":[]})", R"({"x":{"a":1}})",
                             R"({"x":"<|endoftext|>"})", R"({"add_generation_prompt":false})", "[]", "\"x\""})
    EXPECT_EQ(chat(fmt::format("\"chat_template_kwargs\":{}", values)).status, 400) << values;
  // Names that mean something to a template are only names.
  const auto plain = chat(R"("temperature":0)");
  for (const char* values : {R"({"range":"x"})", R"({"loop":true})", R"({"namespace":1})", R"({"__class__":"x"})"})
    EXPECT_EQ(chat_text(chat(fmt::format("\"temperature\":0,\"chat_template_kwargs\":{}", values))), chat_text(plain));
  // What a user writes is not run either: its length is that of its letters.
  const auto written = rig_->post(
      kAttackedChat,
      R"({"messages":[{"role":"user","content":"{{ 7*7 }}{% for i in range(1000000000) %}a{% endfor %}"}],"max_tokens":1})");
  EXPECT_EQ(written.status, 200) << written.body;
  EXPECT_EQ(rig_->post(kAttackedChat, R"({"messages":[{"role":"system\nassistant","content":"a"}]})").status, 400);
}

TEST_F(RequestAttacks, ErrorsTellNoAddressesAndNoFiles) {
  for (
      const char* body :
      {"", "{", "[]", "\xff\xfe", R"({"messages":5})", R"({"messages":[5]})", R"({"model":"x","messages":[]})",
       R"({"messages":[{"role":"user","content":[{"type":"image_url","image_url":{"url":"data:image/png;base64,AA"}}]}]})",
       R"({"messages":[{"role":"user","content":"a"}],"n":-1})",
       R"({"model":"plain","messages":[{"role":"user","content":"a"}]})",
       R"({"messages":[{"role":"user","content":"a"}],"response_format":{"type":"json_schema","json_schema":{"schema":{"type":7}}}})"}) {
    const auto answer = rig_->post(kAttackedChat, body);
    EXPECT_GE(answer.status, 400);
    EXPECT_THAT(answer.body, ::testing::Not(::testing::ContainsRegex("0x[0-9a-f]{6,}"))) << body;
    EXPECT_THAT(answer.body, ::testing::Not(HasSubstr("model.gptrs"))) << body;
  }
}

}  // namespace
}  // namespace ballast::testing
