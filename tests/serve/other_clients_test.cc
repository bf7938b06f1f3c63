// Ollama's and Anthropic's interfaces.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "ballast/serve/ollama_text.h"
#include "tests/support/json_path.h"
#include "tests/support/service_rig.h"

namespace ballast::testing {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::StartsWith;

constexpr std::string_view kOneMessage = R"("messages":[{"role":"user","content":"It is a truth"}])";

class OtherClientsTest : public ::testing::Test {
 protected:
  static void SetUpTestSuite() { rig_ = std::make_unique<ServiceRig>(); }
  static void TearDownTestSuite() { rig_.reset(); }
  // What OpenAI's interface answers greedily.
  std::string expected(std::string_view model = "tiny") {
    return chat_text(
        rig_->post("/v1/chat/completions",
                   fmt::format(R"({{"model":"{}",{},"max_tokens":8,"temperature":0}})", model, kOneMessage)));
  }
  static std::unique_ptr<ServiceRig> rig_;
};
std::unique_ptr<ServiceRig> OtherClientsTest::rig_;

// ---------------------------------------------------------------- Ollama

std::string ollama_body(std::string_view more, std::string_view model = "tiny") {
  return fmt::format(R"({{"model":"{}","options":{{"num_predict":8,"temperature":0}}{}}})", model, more);
}

TEST_F(OtherClientsTest, OllamaChatsWholeAndInLines) {
  const auto whole = rig_->post("/api/chat", ollama_body(fmt::format(R"(,"stream":false,"tools":[],{})", kOneMessage)));
  ASSERT_EQ(whole.status, 200) << whole.body;
  EXPECT_EQ(json_string(json_at(whole.body, "message/content")), expected());
  EXPECT_EQ(json_at(whole.body, "message/role"), "\"assistant\"");
  EXPECT_EQ(json_at(whole.body, "done_reason"), "\"length\"");
  EXPECT_EQ(json_at(whole.body, "eval_count"), "8");
  EXPECT_GT(std::stod(json_at(whole.body, "total_duration")), 0);
  const auto stream = rig_->post("/api/chat", ollama_body(fmt::format(",{}", kOneMessage), "tiny:latest"));
  EXPECT_EQ(stream.content_type, "application/x-ndjson");
  EXPECT_THAT(stream.body, ::testing::Not(HasSubstr("\n\n")));
  const auto lines = events_of(stream.body);
  EXPECT_EQ(joined(lines, "message/content"), expected());
  EXPECT_EQ(json_at(lines.front(), "done"), "false");
  EXPECT_EQ(json_at(lines.back(), "done"), "true");
  EXPECT_EQ(json_at(lines.back(), "model"), "\"tiny:latest\"");
}

TEST_F(OtherClientsTest, OllamaTellsProbabilitiesAsChatCompletionsDo) {
  const std::string asked = fmt::format(R"({},"logprobs":true,"top_logprobs":2)", kOneMessage);
  const auto chat =
      rig_->post("/v1/chat/completions", fmt::format(R"({{"model":"tiny",{},"max_tokens":8,"temperature":0}})", asked));
  const std::string tokens = json_at(chat.body, "choices/0/logprobs/content");
  ASSERT_THAT(tokens, HasSubstr("top_logprobs")) << chat.body;
  const auto whole = rig_->post("/api/chat", ollama_body(fmt::format(R"(,"stream":false,{})", asked)));
  EXPECT_EQ(json_at(whole.body, "logprobs"), tokens);
  std::string streamed;
  for (const std::string& line : events_of(rig_->post("/api/chat", ollama_body("," + asked)).body)) {
    const std::string piece = json_at(line, "logprobs");
    if (!piece.empty()) streamed += (streamed.empty() ? "" : ",") + piece.substr(1, piece.size() - 2);
  }
  EXPECT_EQ("[" + streamed + "]", tokens);
}

TEST_F(OtherClientsTest, OllamaLoadsAModelByARequestWithoutAPrompt) {
  for (const auto& [path, body] :
       std::vector<std::pair<std::string, std::string>>{{"/api/chat", R"({"model":"tiny","messages":[]})"},
                                                        {"/api/chat", R"({"model":"tiny"})"},
                                                        {"/api/generate", R"({"model":"tiny","keep_alive":-1})"},
                                                        {"/api/generate", R"({"model":"tiny","prompt":""})"}}) {
    const auto answer = rig_->post(path, body);
    ASSERT_EQ(answer.status, 200) << answer.body;
    EXPECT_EQ(answer.content_type, "application/json");
    EXPECT_EQ(json_at(answer.body, "done_reason"), "\"load\"");
    EXPECT_EQ(json_at(answer.body, "done"), "true");
    EXPECT_EQ(json_at(answer.body, "model"), "\"tiny\"");
  }
  EXPECT_EQ(json_at(rig_->post("/api/chat", R"({"messages":[]})").body, "message/role"), "\"assistant\"");
  EXPECT_EQ(rig_->post("/api/chat", R"({"model":"nobody","messages":[]})").status, 404);
  EXPECT_EQ(rig_->post("/api/chat", R"({"model":"tiny","messages":5})").status, 400);
  EXPECT_EQ(rig_->post("/api/generate", R"({"model":"tiny","keep_alive":0})").status, 400);
}

TEST_F(OtherClientsTest, OllamaGeneratesByTheTemplateOrRaw) {
  const auto chat = rig_->post("/api/generate", ollama_body(R"(,"stream":false,"prompt":"It is a truth")"));
  ASSERT_EQ(chat.status, 200) << chat.body;
  EXPECT_EQ(json_string(json_at(chat.body, "response")), expected());
  const auto raw = rig_->post("/api/generate", ollama_body(R"(,"prompt":"It is a truth","raw":true)", "plain"));
  const auto plain =
      rig_->post("/v1/completions", R"({"model":"plain","prompt":"It is a truth","max_tokens":8,"temperature":0})");
  EXPECT_EQ(joined(events_of(raw.body), "response"), json_string(json_at(plain.body, "choices/0/text")));
  const auto bare = rig_->post("/api/generate", ollama_body(R"(,"prompt":"It is a truth")", "plain"));
  EXPECT_EQ(joined(events_of(bare.body), "response"), json_string(json_at(plain.body, "choices/0/text")))
      << "a model without a chat template continues the prompt";
}

TEST_F(OtherClientsTest, OllamaThinks) {
  const auto whole =
      rig_->post("/api/chat", ollama_body(fmt::format(R"(,"stream":false,"think":true,{})", kOneMessage), "thinker"));
  EXPECT_FALSE(json_string(json_at(whole.body, "message/thinking")).empty()) << whole.body;
  const auto direct =
      rig_->post("/api/chat", ollama_body(fmt::format(R"(,"stream":false,"think":false,{})", kOneMessage), "thinker"));
  EXPECT_EQ(json_at(direct.body, "message/thinking"), "");
  EXPECT_FALSE(json_string(json_at(direct.body, "message/content")).empty());
}

TEST_F(OtherClientsTest, OllamaListsShowsAndEmbeds) {
  EXPECT_EQ(json_at(rig_->get("/api/version").body, "version"), "\"1.2.3\"");
  EXPECT_EQ(json_at(rig_->get("/api/tags").body, "models/0/name"), "\"tiny\"");
  const auto shown = rig_->post("/api/show", R"({"model":"tiny"})");
  EXPECT_EQ(json_at(shown.body, "model_info/gpt.context_length"), "256") << shown.body;
  EXPECT_EQ(json_at(shown.body, "capabilities/0"), "\"completion\"");
  const auto vectors = rig_->post("/api/embed", R"({"model":"embed","input":["ship","boat"],"truncate":true})");
  ASSERT_EQ(vectors.status, 200) << vectors.body;
  const auto openai = rig_->post("/v1/embeddings", R"({"model":"embed","input":"boat"})");
  EXPECT_EQ(json_at(vectors.body, "embeddings/1"), json_at(openai.body, "data/0/embedding"));
}

TEST_F(OtherClientsTest, OllamaIsToldWhatModelsAre) {
  rig_->post("/v1/embeddings", R"({"model":"embed","input":"ship"})");
  expected();
  const auto tags = rig_->get("/api/tags");
  const std::string modified = json_at(tags.body, "models/0/modified_at");
  EXPECT_EQ(json_at(rig_->get("/api/tags").body, "models/0/modified_at"), modified) << "the model did not change";
  EXPECT_EQ(json_at(tags.body, "models/0/details/format"), "\"gptrs-checkpoint\"") << tags.body;
  EXPECT_EQ(json_at(tags.body, "models/0/details/family"), "\"gpt\"");
  EXPECT_EQ(json_at(tags.body, "models/0/details/families/0"), "\"gpt\"");
  EXPECT_EQ(json_at(tags.body, "models/0/details/parameter_size"), "\"3.11M\"");
  EXPECT_EQ(json_at(tags.body, "models/0/details/quantization_level"), "\"F32\"");
  EXPECT_GT(std::stod(json_at(tags.body, "models/0/size")), 1e6);
  EXPECT_EQ(json_at(tags.body, "models/1/name"), "\"ballast-test-1b\"") << "an alias is a name as good as any";
  EXPECT_EQ(json_at(tags.body, "models/1/details"), json_at(tags.body, "models/0/details"));
  EXPECT_EQ(json_string(json_at(tags.body, "models/0/digest")).size(), 64U) << "Ollama's client cuts 12 digits off it";
  EXPECT_EQ(json_at(tags.body, "models/1/digest"), json_at(tags.body, "models/0/digest"));
  const auto shown = rig_->post("/api/show", R"({"model":"tiny"})");
  EXPECT_EQ(json_at(shown.body, "details"), json_at(tags.body, "models/0/details"));
}

// Models that were closed are known, but are not loaded.
TEST(LoadedModels, AreThoseThatOllamaLists) {
  ServiceRig rig;
  const auto loaded = [&] { return rig.get("/api/ps").body; };
  EXPECT_EQ(loaded(), R"({"models":[]})");
  EXPECT_EQ(json_at(rig.get("/api/tags").body, "models/0/details/family"), "\"\"") << "not known before it is open";
  EXPECT_EQ(json_at(rig.get("/v1/models").body, "data/0/capabilities"), "");
  rig.post("/v1/embeddings", R"({"model":"embed","input":"ship"})");
  const std::string one = loaded();
  EXPECT_EQ(json_at(one, "models/0/name"), "\"embed\"") << one;
  EXPECT_EQ(json_at(one, "models/0/details/family"), "\"bert\"");
  EXPECT_EQ(json_at(one, "models/0/size_vram"), "0") << "it computes in the memory of the host";
  EXPECT_GT(std::stod(json_at(one, "models/0/size")), 0);
  EXPECT_GT(std::stod(json_at(one, "models/0/context_length")), 0);
  EXPECT_THAT(json_string(json_at(one, "models/0/expires_at")), HasSubstr("T00:00:00Z"));
  EXPECT_EQ(json_at(one, "models/1"), "");
  rig.service().reload();
  rig.wait_until_idle();
  EXPECT_EQ(loaded(), R"({"models":[]})");
  EXPECT_EQ(json_at(rig.get("/v1/models/embed").body, "capabilities"), R"(["embedding"])");
}

TEST_F(OtherClientsTest, OllamaErrorsAreATextOfTheirOwn) {
  const auto refused = [&](std::string_view path, std::string_view body, int status) {
    const auto answer = rig_->post(path, body);
    EXPECT_EQ(answer.status, status) << answer.body;
    EXPECT_THAT(json_keys(answer.body, ""), ElementsAre("error"));
    return json_string(json_at(answer.body, "error"));
  };
  EXPECT_THAT(refused("/api/chat", fmt::format(R"({{"model":"x",{}}})", kOneMessage), 404), HasSubstr("\"x\""));
  EXPECT_THAT(refused("/api/chat", ollama_body(R"(,"format":"xml","messages":[{"role":"user"}])"), 400),
              HasSubstr("format"));
  EXPECT_THAT(refused("/api/chat", R"({"messages":[{"role":"user","content":"a","images":["aGk="]}]})", 400),
              HasSubstr("text only"));
  EXPECT_THAT(refused("/api/generate", R"({"prompt":"a","options":{"temperature":-1}})", 400),
              HasSubstr("options.temperature"));
  EXPECT_THAT(refused("/api/pull", "{}", 404), HasSubstr("/api/pull"));
  EXPECT_THAT(refused("/api/tags", "{}", 405), HasSubstr("GET"));
}

TEST(OllamaLines, EndOnlyAtTheirEnd) {
  EXPECT_EQ(serve::to_ollama_line("\"a\xE2\x80\xA8\xE2\x80\xA9 b\xC2\x85\""), "\"a\\u2028\\u2029 b\\u0085\"\n");
}

// ---------------------------------------------------------------- Anthropic

std::string anthropic_body(std::string_view more = "") {
  return fmt::format(R"({{"model":"tiny","max_tokens":8,"temperature":0,{}{}}})", kOneMessage, more);
}

TEST_F(OtherClientsTest, AnthropicAnswersAMessage) {
  const auto whole = rig_->post("/v1/messages", anthropic_body());
  ASSERT_EQ(whole.status, 200) << whole.body;
  EXPECT_THAT(json_string(json_at(whole.body, "id")), StartsWith("msg_"));
  EXPECT_EQ(json_at(whole.body, "type"), "\"message\"");
  EXPECT_EQ(json_string(json_at(whole.body, "content/0/text")), expected());
  EXPECT_EQ(json_at(whole.body, "stop_reason"), "\"max_tokens\"");
  EXPECT_EQ(json_at(whole.body, "usage/output_tokens"), "8");
  const std::string stop = expected().substr(3, 2);
  const auto stopped =
      rig_->post("/v1/messages", anthropic_body(fmt::format(R"(,"stop_sequences":["no","{}"])", stop)));
  EXPECT_EQ(json_at(stopped.body, "stop_reason"), "\"stop_sequence\"");
  EXPECT_EQ(json_string(json_at(stopped.body, "stop_sequence")), stop);
}

TEST_F(OtherClientsTest, AnthropicStreamsNamedEvents) {
  const auto stream = rig_->post("/v1/messages", anthropic_body(R"(,"stream":true)"));
  ASSERT_EQ(stream.status, 200) << stream.body;
  EXPECT_THAT(stream.body, StartsWith("event: message_start\ndata: {"));
  const auto events = events_of(stream.body);
  EXPECT_EQ(joined(events, "delta/text"), expected());
  EXPECT_EQ(json_at(events[1], "type"), "\"content_block_start\"");
  EXPECT_EQ(json_at(events[events.size() - 3], "type"), "\"content_block_stop\"");
  EXPECT_EQ(json_at(events[events.size() - 2], "usage/output_tokens"), "8");
  EXPECT_EQ(json_at(events.back(), "type"), "\"message_stop\"");
  for (const std::string& event : events) {
    EXPECT_THAT(stream.body,
                HasSubstr(fmt::format("event: {}\ndata: {}\n\n", json_string(json_at(event, "type")), event)));
  }
}

TEST_F(OtherClientsTest, AnthropicBlocksOfThoughtComeFirst) {
  const std::string body = fmt::format(R"({{"model":"thinker","max_tokens":8,"temperature":0,{})", kOneMessage);
  const auto events = events_of(rig_->post("/v1/messages", body + R"(,"stream":true})").body);
  EXPECT_EQ(json_at(events[1], "content_block/type"), "\"thinking\"");
  EXPECT_EQ(json_at(events[2], "index"), "0");
  EXPECT_EQ(json_at(events[events.size() - 3], "index"), "1") << "of the end of the text, which is empty";
  const auto whole = rig_->post("/v1/messages", body + "}");
  EXPECT_EQ(json_string(json_at(whole.body, "content/0/thinking")), joined(events, "delta/thinking"));
  EXPECT_EQ(json_at(whole.body, "content/1/text"), "\"\"");
}

TEST_F(OtherClientsTest, AnthropicThinksWhereAskedTo) {
  const std::string body = fmt::format(R"({{"model":"thinker","max_tokens":8,"temperature":0,{})", kOneMessage);
  const auto first_block = [&](std::string_view type) {
    const auto answer = rig_->post("/v1/messages", fmt::format(R"({},"thinking":{{"type":"{}"}}}})", body, type));
    return json_at(answer.body, answer.status == 200 ? "content/0/type" : "error/message");
  };
  EXPECT_EQ(first_block("enabled"), "\"thinking\"");
  EXPECT_EQ(first_block("disabled"), "\"text\"");
  EXPECT_EQ(first_block("adaptive"), "\"thinking\"") << "as the template does by itself";
  EXPECT_THAT(first_block("often"), HasSubstr("thinking.type"));
}

TEST_F(OtherClientsTest, AnthropicCountsTokens) {
  const auto counted = rig_->post("/v1/messages/count_tokens", fmt::format(R"({{"model":"tiny",{}}})", kOneMessage));
  const auto chat = rig_->post("/v1/chat/completions", fmt::format(R"({{{},"max_tokens":1}})", kOneMessage));
  EXPECT_EQ(json_at(counted.body, "input_tokens"), json_at(chat.body, "usage/prompt_tokens"));
}

TEST_F(OtherClientsTest, AnthropicErrorsHaveTheirShape) {
  const auto refused = [&](const std::string& body, int status, std::string_view type) {
    const auto answer = rig_->post("/v1/messages", body);
    EXPECT_EQ(answer.status, status) << answer.body;
    EXPECT_EQ(json_at(answer.body, "type"), "\"error\"");
    EXPECT_EQ(json_string(json_at(answer.body, "error/type")), type);
    return json_string(json_at(answer.body, "error/message"));
  };
  EXPECT_THAT(refused(fmt::format(R"({{"model":"tiny",{}}})", kOneMessage), 400, "invalid_request_error"),
              HasSubstr("max_tokens"));
  EXPECT_THAT(refused(R"({"model":"tiny","max_tokens":1,"messages":[{"role":"user","content":"a"},)"
                      R"({"role":"assistant","content":"{"}]})",
                      400, "invalid_request_error"),
              HasSubstr("assistant"));
  EXPECT_THAT(refused(anthropic_body(R"(,"tools":[{"name":"x","type":"web_search"}])"), 400, "invalid_request_error"),
              HasSubstr("tools"));
  EXPECT_THAT(
      refused(R"({"model":"x","max_tokens":1,"messages":[{"role":"user","content":"a"}]})", 404, "not_found_error"),
      HasSubstr("\"x\""));
  EXPECT_THAT(refused(R"({"max_tokens":1,"messages":[{"role":"system","content":"a"}]})", 400, "invalid_request_error"),
              HasSubstr("role"));
}

}  // namespace
}  // namespace ballast::testing
