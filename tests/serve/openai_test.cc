#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>
#include <set>

#include "tests/support/json_path.h"
#include "tests/support/service_rig.h"

namespace ballast::testing {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::StartsWith;

constexpr std::string_view kChat = "/v1/chat/completions";
constexpr std::string_view kCompletions = "/v1/completions";

// A chat request with more members.
std::string chat_body(std::string_view more = "", std::string_view content = "It is a truth") {
  return fmt::format(R"({{"model":"tiny","messages":[{{"role":"user","content":"{}"}}]{}}})", content, more);
}

std::string completion_body(std::string_view more = "") {
  return fmt::format(R"({{"model":"tiny","prompt":"It is a truth"{}}})", more);
}

void expect_refused(const serve::HttpAnswer& answer, int status, std::string_view param, std::string_view what) {
  EXPECT_EQ(answer.status, status) << answer.body;
  EXPECT_EQ(answer.content_type, "application/json");
  EXPECT_EQ(json_string(json_at(answer.body, "error/param")), param) << answer.body;
  EXPECT_THAT(json_string(json_at(answer.body, "error/message")), HasSubstr(what));
  EXPECT_FALSE(json_string(json_at(answer.body, "error/type")).empty());
  EXPECT_THAT(json_keys(answer.body, "error"), ElementsAre("message", "type", "param", "code"));
}

class OpenAiTest : public ::testing::Test {
 protected:
  static void SetUpTestSuite() { rig_ = std::make_unique<ServiceRig>(); }
  static void TearDownTestSuite() { rig_.reset(); }
  ServiceRig& rig() { return *rig_; }
  static std::unique_ptr<ServiceRig> rig_;
};
std::unique_ptr<ServiceRig> OpenAiTest::rig_;

TEST_F(OpenAiTest, ListsAndShowsModels) {
  for (const char* path : {"/v1/models", "/models"}) {
    const auto list = rig().get(path);
    EXPECT_EQ(list.status, 200);
    EXPECT_EQ(json_at(list.body, "data/0/id"), "\"tiny\"");
    EXPECT_EQ(json_at(list.body, "data/1/id"), "\"ballast-test-1b\"");
  }
  EXPECT_EQ(json_at(rig().get("/v1/models/org%2Ftiny:1").body, "id"), "\"org/tiny:1\"");
  expect_refused(rig().get("/v1/models/org%2Fother"), 404, "model", "org/other");
  expect_refused(rig().get("/v1/models/%ff"), 404, "model", "does not exist");
}

TEST_F(OpenAiTest, AnswersAChat) {
  const auto answer = rig().post(kChat, chat_body(R"(,"max_tokens":6,"temperature":0)"));
  ASSERT_EQ(answer.status, 200) << answer.body;
  EXPECT_EQ(answer.content_type, "application/json");
  EXPECT_THAT(json_string(json_at(answer.body, "id")), StartsWith("chatcmpl-"));
  EXPECT_EQ(json_at(answer.body, "object"), "\"chat.completion\"");
  EXPECT_EQ(json_at(answer.body, "model"), "\"tiny\"");
  EXPECT_EQ(json_at(answer.body, "system_fingerprint"), "\"ballast-1.2.3\"");
  EXPECT_EQ(json_at(answer.body, "choices/0/message/role"), "\"assistant\"");
  EXPECT_EQ(json_at(answer.body, "choices/0/finish_reason"), "\"length\"");
  EXPECT_EQ(json_at(answer.body, "choices/0/logprobs"), "null");
  EXPECT_EQ(json_at(answer.body, "usage/completion_tokens"), "6");
  EXPECT_FALSE(chat_text(answer).empty());
  EXPECT_EQ(chat_text(rig().post("/chat/completions", chat_body(R"(,"max_completion_tokens":6,"temperature":0)"))),
            chat_text(answer));
}

TEST_F(OpenAiTest, AStreamSaysWhatAWholeAnswerSays) {
  const std::string settings = R"(,"max_tokens":16,"temperature":0.9,"seed":5)";
  const auto whole = rig().post(kChat, chat_body(settings));
  const auto stream =
      rig().post(kChat, chat_body(settings + R"(,"stream":true,"stream_options":{"include_usage":true})"));
  ASSERT_EQ(stream.status, 200) << stream.body;
  EXPECT_EQ(stream.content_type, "text/event-stream");
  EXPECT_TRUE(stream.body.ends_with("\n\ndata: [DONE]\n\n"));
  const auto events = events_of(stream.body);
  ASSERT_GE(events.size(), 4U);
  EXPECT_EQ(joined(events, "choices/0/delta/content"), chat_text(whole));
  EXPECT_EQ(joined(events, "choices/0/delta/role"), "assistant");
  EXPECT_EQ(json_at(events.front(), "choices/0/delta/role"), "\"assistant\"");
  EXPECT_EQ(joined(events, "choices/0/finish_reason"), "length");
  EXPECT_EQ(json_at(events.back(), "choices"), "[]");
  EXPECT_EQ(json_at(events.back(), "usage/completion_tokens"), "16");
  std::set<std::string> ids;
  for (const std::string& event : events) {
    ids.insert(json_at(event, "id"));
    EXPECT_EQ(json_at(event, "object"), "\"chat.completion.chunk\"");
  }
  EXPECT_EQ(ids.size(), 1U);
  const auto unasked = events_of(rig().post(kChat, chat_body(settings + R"(,"stream":true)")).body);
  for (const std::string& event : unasked) EXPECT_NE(json_at(event, "choices"), "[]");
}

TEST_F(OpenAiTest, CompletionsStreamAndEchoAlike) {
  const std::string settings = R"(,"max_tokens":8,"temperature":0)";
  const auto whole = rig().post(kCompletions, completion_body(settings));
  ASSERT_EQ(whole.status, 200) << whole.body;
  const std::string text = json_string(json_at(whole.body, "choices/0/text"));
  EXPECT_FALSE(text.empty());
  EXPECT_EQ(json_at(whole.body, "object"), "\"text_completion\"");
  const auto events = events_of(rig().post(kCompletions, completion_body(settings + R"(,"stream":true)")).body);
  EXPECT_EQ(joined(events, "choices/0/text"), text);
  EXPECT_EQ(joined(events, "choices/0/finish_reason"), "length");
  const auto echo = rig().post(kCompletions, completion_body(settings + R"(,"echo":true)"));
  EXPECT_EQ(json_string(json_at(echo.body, "choices/0/text")), "It is a truth" + text);
}

TEST_F(OpenAiTest, CompletionsAnswerEveryPromptNTimes) {
  const auto answer = rig().post(
      kCompletions, R"({"model":"plain","prompt":["Who is","It was"],"n":2,"max_tokens":4,"seed":3,"temperature":1})");
  ASSERT_EQ(answer.status, 200) << answer.body;
  for (size_t i = 0; i < 4; ++i) EXPECT_EQ(json_at(answer.body, fmt::format("choices/{}/index", i)), fmt::to_string(i));
  EXPECT_EQ(json_at(answer.body, "choices/4"), "");
  EXPECT_EQ(json_at(answer.body, "usage/completion_tokens"), "16");
  const auto alone =
      rig().post(kCompletions, R"({"model":"plain","prompt":"Who is","max_tokens":4,"seed":3,"temperature":1})");
  EXPECT_EQ(json_at(answer.body, "choices/0/text"), json_at(alone.body, "choices/0/text"));
}

TEST_F(OpenAiTest, TokensAreAPromptToo) {
  const auto ids = rig().post("/tokenize", R"({"model":"tiny","content":"It is a truth"})");
  ASSERT_EQ(ids.status, 200) << ids.body;
  const std::string tokens = json_at(ids.body, "tokens");
  const std::string more = R"(,"max_tokens":5,"temperature":0})";
  const auto by_ids = rig().post(kCompletions, R"({"model":"tiny","prompt":)" + tokens + more);
  const auto by_lists = rig().post(kCompletions, R"({"model":"tiny","prompt":[)" + tokens + "]" + more);
  const auto by_text = rig().post(kCompletions, R"({"model":"tiny","prompt":"It is a truth")" + more);
  ASSERT_EQ(by_ids.status, 200) << by_ids.body;
  EXPECT_EQ(json_at(by_ids.body, "choices/0/text"), json_at(by_text.body, "choices/0/text"));
  EXPECT_EQ(json_at(by_lists.body, "choices/0/text"), json_at(by_text.body, "choices/0/text"));
  const auto back = rig().post("/detokenize", R"({"tokens":)" + tokens + "}");
  EXPECT_EQ(json_at(back.body, "content"), "\"It is a truth\"");
  expect_refused(rig().post(kCompletions, R"({"model":"tiny","prompt":[999999]})"), 400, "prompt", "1024");
}

TEST_F(OpenAiTest, WhatUsersWriteIsNoSpecialToken) {
  const auto plain = rig().post("/tokenize", R"({"content":"<|endoftext|>"})");
  EXPECT_THAT(json_at(plain.body, "tokens"), ::testing::Not(::testing::StrEq("[0]")));
  EXPECT_EQ(json_at(rig().post("/tokenize", R"({"content":"<|endoftext|>","parse_special":true})").body, "tokens"),
            "[0]");
  const auto length_of = [&](std::string_view path, const std::string& body) {
    return std::stoul(json_at(rig().post(path, body).body, "usage/prompt_tokens"));
  };
  // As many tokens as its letters need, and not one.
  EXPECT_GT(length_of(kCompletions, R"({"prompt":"<|endoftext|>","max_tokens":1})"), 5U);
  EXPECT_GT(length_of(kChat, chat_body(R"(,"max_tokens":1)", "<|endoftext|>")),
            length_of(kChat, chat_body(R"(,"max_tokens":1)", "a")) + 4);
}

TEST_F(OpenAiTest, SameSeedSameAnswerAndEachChoiceItsOwn) {
  const std::string settings = R"(,"max_tokens":16,"temperature":1.5,"seed":7)";
  const auto four = rig().post(kChat, chat_body(settings + R"(,"n":4)"));
  ASSERT_EQ(four.status, 200) << four.body;
  EXPECT_EQ(chat_text(four), chat_text(rig().post(kChat, chat_body(settings))));
  std::set<std::string> texts;
  for (int i = 0; i < 4; ++i) texts.insert(json_at(four.body, fmt::format("choices/{}/message/content", i)));
  EXPECT_EQ(texts.size(), 4U);
  const auto stream = events_of(rig().post(kChat, chat_body(settings + R"(,"n":4,"stream":true)")).body);
  for (int i = 0; i < 4; ++i) EXPECT_EQ(json_at(stream[static_cast<size_t>(i)], "choices/0/index"), fmt::to_string(i));
  std::map<std::string, std::string> streamed;
  for (const std::string& event : stream) {
    streamed[json_at(event, "choices/0/index")] += json_string(json_at(event, "choices/0/delta/content"));
  }
  for (int i = 0; i < 4; ++i) {
    EXPECT_EQ(streamed[fmt::to_string(i)],
              json_string(json_at(four.body, fmt::format("choices/{}/message/content", i))));
  }
}

TEST_F(OpenAiTest, StopsAtATextThatIsNotShown) {
  const auto free = rig().post(kChat, chat_body(R"(,"max_tokens":20,"temperature":0)"));
  const std::string text = chat_text(free);
  ASSERT_GT(text.size(), 12U);
  std::string stop = text.substr(8, 3);
  const auto whole = rig().post(kChat, chat_body(fmt::format(R"(,"max_tokens":20,"temperature":0,"stop":"{}")", stop)));
  EXPECT_EQ(chat_text(whole), text.substr(0, text.find(stop)));
  EXPECT_EQ(json_at(whole.body, "choices/0/finish_reason"), "\"stop\"");
  const auto stream = rig().post(
      kChat, chat_body(fmt::format(R"(,"max_tokens":20,"temperature":0,"stop":["never","{}"],"stream":true)", stop)));
  EXPECT_EQ(joined(events_of(stream.body), "choices/0/delta/content"), chat_text(whole));
}

// A sign that may begin a stop string is held back, and let go together with the sign that does begin one.
TEST_F(OpenAiTest, TokensOfAStopStringHaveNoLogProbabilities) {
  const auto answer =
      rig().post(kCompletions,
                 R"({"model":"tiny","prompt":"It is","max_tokens":20,"temperature":0,"logprobs":0,"stop":["#z","%q"],)"
                 R"("grammar":"root ::= \"x#%q\""})");
  EXPECT_EQ(json_at(answer.body, "choices/0/text"), "\"x#\"");
  EXPECT_EQ(json_at(answer.body, "choices/0/logprobs/tokens"), R"(["x","#"])");
}

TEST_F(OpenAiTest, LogProbabilitiesComeWithTheirTokens) {
  const std::string settings = R"(,"max_tokens":5,"temperature":0,"logprobs":true,"top_logprobs":3)";
  const auto whole = rig().post(kChat, chat_body(settings));
  ASSERT_EQ(whole.status, 200) << whole.body;
  std::string spelled;
  for (int i = 0; i < 5; ++i) {
    const std::string place = fmt::format("choices/0/logprobs/content/{}", i);
    spelled += json_string(json_at(whole.body, place + "/token"));
    // Greedy: the chosen token is the likeliest.
    EXPECT_EQ(json_at(whole.body, place + "/logprob"), json_at(whole.body, place + "/top_logprobs/0/logprob"));
    EXPECT_NE(json_at(whole.body, place + "/top_logprobs/2/bytes/0"), "");
    EXPECT_EQ(json_at(whole.body, place + "/top_logprobs/3"), "");
  }
  EXPECT_EQ(spelled, chat_text(whole));
  size_t streamed = 0;
  for (const std::string& event : events_of(rig().post(kChat, chat_body(settings + R"(,"stream":true)")).body)) {
    for (int i = 0; !json_at(event, fmt::format("choices/0/logprobs/content/{}", i)).empty(); ++i) ++streamed;
  }
  EXPECT_EQ(streamed, 5U);
  expect_refused(rig().post(kChat, chat_body(R"(,"top_logprobs":3)")), 400, "top_logprobs", "logprobs");
}

TEST_F(OpenAiTest, EchoScoresThePromptAsItsContinuationIsScored) {
  const auto first = rig().post(kCompletions, completion_body(R"(,"max_tokens":3,"temperature":0,"logprobs":2)"));
  ASSERT_EQ(first.status, 200) << first.body;
  const std::string text = "It is a truth" + json_string(json_at(first.body, "choices/0/text"));
  const auto echo = rig().post(
      kCompletions, fmt::format(R"({{"model":"tiny","prompt":"{}","echo":true,"logprobs":2,"max_tokens":0}})", text));
  ASSERT_EQ(echo.status, 200) << echo.body;
  EXPECT_EQ(json_string(json_at(echo.body, "choices/0/text")), text);
  EXPECT_EQ(json_at(echo.body, "choices/0/logprobs/token_logprobs/0"), "null");
  EXPECT_EQ(json_at(echo.body, "choices/0/logprobs/top_logprobs/0"), "null");
  EXPECT_EQ(json_at(echo.body, "choices/0/logprobs/text_offset/0"), "0");
  const size_t prompt = std::stoul(json_at(first.body, "usage/prompt_tokens"));
  for (size_t i = 0; i < 3; ++i) {
    const double alone = std::stod(json_at(first.body, fmt::format("choices/0/logprobs/token_logprobs/{}", i)));
    const std::string place = fmt::format("choices/0/logprobs/token_logprobs/{}", prompt + i);
    EXPECT_NEAR(std::stod(json_at(echo.body, place)), alone, 1e-4);
  }
}

TEST_F(OpenAiTest, BiasesAndPenaltiesChangeWhatIsChosen) {
  const auto free = rig().post(kCompletions, completion_body(R"(,"max_tokens":1,"temperature":0)"));
  const std::string text = json_string(json_at(free.body, "choices/0/text"));
  const std::string ids = json_at(rig().post("/tokenize", fmt::format(R"({{"content":"{}"}})", text)).body, "tokens/0");
  const auto banned = rig().post(
      kCompletions, completion_body(fmt::format(R"(,"max_tokens":8,"temperature":0,"logit_bias":{{"{}":-100}})", ids)));
  EXPECT_EQ(json_string(json_at(banned.body, "choices/0/text")).find(text), std::string::npos) << banned.body;
  const auto forced =
      rig().post(kCompletions, completion_body(R"(,"max_tokens":3,"temperature":0,"logit_bias":{"17":100})"));
  EXPECT_EQ(json_at(forced.body, "choices/0/text"), "\"111\"");
  const std::string two = R"(,"max_tokens":6,"temperature":0,"logit_bias":{"17":60,"18":60})";
  const auto repeated = rig().post(kCompletions, completion_body(two));
  const auto varied = rig().post(kCompletions, completion_body(two + R"(,"frequency_penalty":2,"presence_penalty":2)"));
  const auto ones_of = [](const serve::HttpAnswer& answer) {
    const std::string written = json_string(json_at(answer.body, "choices/0/text"));
    EXPECT_EQ(written.size(), 6U) << answer.body;
    return std::ranges::count(written, '1');
  };
  EXPECT_NE(ones_of(repeated), 3);
  EXPECT_EQ(ones_of(varied), 3) << varied.body;
  const auto kept =
      rig().post(kCompletions,
                 completion_body(R"(,"max_tokens":3,"temperature":0,"min_tokens":3,"logit_bias":{"0":100,"17":60})"));
  EXPECT_EQ(json_at(kept.body, "choices/0/text"), "\"111\"") << kept.body;
  const std::string stopped = R"(,"max_tokens":9,"temperature":0,"min_tokens":3,"stop_token_ids":[18],)"
                              R"("logit_bias":{"18":100,"17":60})";
  EXPECT_EQ(json_at(rig().post(kCompletions, completion_body(stopped)).body, "choices/0/text"), "\"111\"");
  const auto ended =
      rig().post(kCompletions, completion_body(R"(,"max_tokens":3,"temperature":0,"logit_bias":{"0":100})"));
  EXPECT_EQ(json_at(ended.body, "choices/0/text"), "\"\"");
  EXPECT_EQ(json_at(ended.body, "choices/0/finish_reason"), "\"stop\"");
}

TEST_F(OpenAiTest, ReasoningIsToldFromTheAnswer) {
  const std::string body =
      R"({"model":"thinker","messages":[{"role":"user","content":"Why?"}],"max_tokens":6,"temperature":0)";
  const auto thinking = rig().post(kChat, body + "}");
  ASSERT_EQ(thinking.status, 200) << thinking.body;
  EXPECT_EQ(chat_text(thinking), "");
  const std::string reasoning = json_string(json_at(thinking.body, "choices/0/message/reasoning_content"));
  EXPECT_FALSE(reasoning.empty());
  const auto events = events_of(rig().post(kChat, body + R"(,"stream":true})").body);
  EXPECT_EQ(joined(events, "choices/0/delta/reasoning_content"), reasoning);
  const auto direct = rig().post(kChat, body + R"(,"chat_template_kwargs":{"enable_thinking":false}})");
  EXPECT_EQ(json_at(direct.body, "choices/0/message/reasoning_content"), "");
  EXPECT_FALSE(chat_text(direct).empty());
}

TEST_F(OpenAiTest, TellsHowMuchOfAPromptWasKnown) {
  const std::string text(180, 'x');
  const std::string body = R"({"model":"plain","prompt":")" + text + R"(","max_tokens":1,"temperature":0})";
  rig().post(kCompletions, body);
  const auto again = rig().post(kCompletions, body);
  ASSERT_EQ(again.status, 200) << again.body;
  EXPECT_GE(std::stoi(json_at(again.body, "usage/prompt_tokens_details/cached_tokens")), 64) << again.body;
}

TEST_F(OpenAiTest, MakesVectors) {
  const auto floats = rig().post("/v1/embeddings", R"({"model":"embed","input":["ship","boat"]})");
  ASSERT_EQ(floats.status, 200) << floats.body;
  EXPECT_EQ(json_at(floats.body, "data/1/index"), "1");
  const auto bits = rig().post("/embeddings", R"({"model":"embed-small","input":"boat","encoding_format":"base64"})");
  const std::string base64 = json_string(json_at(bits.body, "data/0/embedding"));
  ASSERT_GE(base64.size(), 8U);
  // The first four letters hold three bytes of the first number.
  constexpr std::string_view kLetters = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  uint64_t packed = 0;
  for (size_t i = 0; i < 8; ++i) packed = packed << 6U | kLetters.find(base64[i]);
  unsigned char bytes[4];
  for (unsigned i = 0; i < 4; ++i) bytes[i] = static_cast<unsigned char>(packed >> (40 - 8 * i));
  const uint32_t word = bytes[0] | bytes[1] << 8U | bytes[2] << 16U | static_cast<uint32_t>(bytes[3]) << 24U;
  float first = 0;
  std::memcpy(&first, &word, 4);
  EXPECT_FLOAT_EQ(first, std::stof(json_at(floats.body, "data/1/embedding/0")));
  EXPECT_EQ(json_at(bits.body, "usage/prompt_tokens"), "3");
}

TEST_F(OpenAiTest, ModelsThatCannotSayWhy) {
  expect_refused(rig().post("/v1/embeddings", R"({"model":"tiny","input":"a"})"), 400, "model", "writes texts");
  expect_refused(rig().post(kChat, R"({"model":"embed","messages":[{"role":"user","content":"a"}]})"), 400, "model",
                 "/v1/embeddings");
  expect_refused(rig().post(kChat, R"({"model":"plain","messages":[{"role":"user","content":"a"}]})"), 400, "model",
                 "no chat template");
  expect_refused(rig().post(kChat, R"({"model":"other","messages":[{"role":"user","content":"a"}]})"), 404, "model",
                 "\"other\" does not exist");
}

TEST_F(OpenAiTest, NothingIsCutOffSilently) {
  std::string long_text;
  for (int i = 0; i < 400; ++i) long_text += "word ";
  const auto chat = rig().post(kChat, chat_body("", long_text));
  expect_refused(chat, 400, "messages", "the model's context has 256");
  EXPECT_EQ(json_at(chat.body, "error/code"), "\"context_length_exceeded\"");
  expect_refused(rig().post(kCompletions, R"({"prompt":")" + long_text + "\"}"), 400, "prompt", "256");
  // Not even counted: that would hold up others.
  const std::string huge(2U << 20U, 'a');
  expect_refused(rig().post(kCompletions, R"({"prompt":")" + huge + "\"}"), 400, "prompt", "2097152 bytes");
  expect_refused(rig().post(kChat, chat_body("", huge)), 400, "messages", "2097152 bytes");
}

struct RefusedField {
  std::string_view member, param, what;
};
TEST_F(OpenAiTest, RefusesByNameWhatWouldChangeTheAnswer) {
  const RefusedField fields[] = {
      {R"("functions":[{"name":"f"}])", "functions", "tools"},
      {R"("best_of":2)", "best_of", "only 1"},
      {R"("echo":true)", "echo", "/v1/completions"},
      {R"("n_predict":5)", "n_predict", "max_tokens"},
      {R"("skip_special_tokens":false)", "skip_special_tokens", "only true"},
      {R"("include_stop_str_in_output":true)", "include_stop_str_in_output", "only false"},
      {R"("suffix":"x")", "suffix", "filling in"},
      {R"("mirostat":2)", "mirostat", "top_p"},
      {R"("chat_template":"{{ x }}")", "chat_template", "the model's own"},
      {R"("temperature":-1)", "temperature", "from 0 to 10"},
      {R"("temperature":"hot")", "temperature", "\"hot\""},
      {R"("top_p":1.5)", "top_p", "from 0 to 1"},
      {R"("n":0)", "n", "from 1 to 8"},
      {R"("n":9)", "n", "from 1 to 8"},
      {R"("n":1e300)", "n", "from 1 to 8"},
      {R"("seed":1.5)", "seed", "whole"},
      {R"("max_tokens":0)", "max_tokens", "from 1"},
      {R"("stream":"yes")", "stream", "true or false"},
      {R"("stop":[1])", "stop", "text"},
      {R"("logit_bias":{"a":1})", "logit_bias", "token ids"},
      {R"("logit_bias":{"1":1000})", "logit_bias", "100"},
      {R"("presence_penalty":3)", "presence_penalty", "from -2 to 2"},
      {R"("chat_template_kwargs":{"x":"<|endoftext|>"})", "chat_template_kwargs", "letters"},
      {R"("chat_template_kwargs":{"messages":1})", "chat_template_kwargs", "sets itself"},
      {R"("stream_options":{"include_usage":3})", "stream_options.include_usage", "true or false"},
  };
  for (const RefusedField& field : fields) {
    SCOPED_TRACE(field.member);
    expect_refused(rig().post(kChat, chat_body(fmt::format(",{}", field.member))), 400, field.param, field.what);
  }
}

TEST_F(OpenAiTest, NullIsAbsentAndUnknownFieldsAreIgnored) {
  const auto answer =
      rig().post(kChat, chat_body(R"(,"max_tokens":1,"temperature":null,"tools":null,"stop":null,"n":null,
      "response_format":null,"logit_bias":null,"stream":null,"stream_options":null,"seed":null,"store":true,"user":"u",
      "metadata":{"k":"v"},"service_tier":"auto","verbosity":"low","prompt_cache_key":"p","cache_prompt":true,
      "tools":[ ],"best_of":1,"response_format":{"type":"text"})"));
  EXPECT_EQ(answer.status, 200) << answer.body;
}

TEST_F(OpenAiTest, MessagesComeInManyShapes) {
  const auto status = [&](std::string_view messages) {
    return rig().post(kChat, fmt::format(R"({{"messages":{},"max_tokens":1}})", messages)).status;
  };
  EXPECT_EQ(status(R"([{"role":"developer","content":[{"type":"text","text":"a"},{"type":"text","text":"b"}]},
                       {"role":"assistant","content":null,"refusal":null,"tool_calls":[{"id":"c","type":"function",
                        "function":{"name":"f","arguments":"{\"a\":1}"}}]},
                       {"role":"tool","tool_call_id":"c","content":"1"},{"role":"user"}])"),
            200);
  expect_refused(rig().post(kChat, R"({"messages":[{"role":"user","content":[{"type":"image_url"}]}]})"), 400,
                 "messages[0].content[0].type", "text only");
  expect_refused(rig().post(kChat, R"({"messages":[{"role":"<|x|>","content":"a"}]})"), 400, "messages[0].role",
                 "must be");
  expect_refused(rig().post(kChat, R"({"messages":[]})"), 400, "messages", "at least one");
  expect_refused(rig().post(kChat, R"({})"), 400, "messages", "at least one");
  expect_refused(rig().post(kChat, R"({"messages":[1]})"), 400, "messages[0]", "object");
  expect_refused(rig().post(kCompletions, R"({})"), 400, "prompt", "missing");
}

TEST_F(OpenAiTest, BodiesThatAreNoJsonAreCalledThat) {
  for (const char* body : {"{bad", "", "{\"a\":1} x", "{\"a\":"})
    EXPECT_THAT(rig().post(kChat, body).body, HasSubstr("the request's body is not valid JSON: byte ")) << body;
  for (const char* body : {"[1]", "3", "null"})
    EXPECT_THAT(rig().post(kChat, body).body, HasSubstr("the request's body must be a JSON object\"")) << body;
}

TEST_F(OpenAiTest, ResponsesSayWhatChatsSay) {
  const std::string body = R"({"model":"tiny","input":"It is a truth","max_output_tokens":6,"temperature":0)";
  const auto whole = rig().post("/v1/responses", body + "}");
  ASSERT_EQ(whole.status, 200) << whole.body;
  const std::string text = json_string(json_at(whole.body, "output/0/content/0/text"));
  EXPECT_EQ(text, chat_text(rig().post(kChat, chat_body(R"(,"max_tokens":6,"temperature":0)"))));
  EXPECT_EQ(json_at(whole.body, "object"), "\"response\"");
  EXPECT_EQ(json_at(whole.body, "status"), "\"incomplete\"");
  EXPECT_EQ(json_at(whole.body, "usage/output_tokens"), "6");
  const auto stream = rig().post("/v1/responses", body + R"(,"stream":true})");
  EXPECT_THAT(stream.body, StartsWith("event: response.created\ndata: {"));
  const auto events = events_of(stream.body);
  EXPECT_EQ(joined(events, "delta"), text);
  EXPECT_EQ(json_string(json_at(events.back(), "response/output/0/content/0/text")), text);
  EXPECT_EQ(json_at(events.back(), "type"), "\"response.incomplete\"");
  for (size_t i = 0; i < events.size(); ++i) EXPECT_EQ(json_at(events[i], "sequence_number"), fmt::to_string(i));
  const auto items =
      rig().post("/v1/responses", R"({"model":"tiny","input":[{"role":"user","content":[{"type":"input_text",
      "text":"It is a truth"}]},{"type":"reasoning","summary":[]}],"max_output_tokens":6,"temperature":0})");
  EXPECT_EQ(json_string(json_at(items.body, "output/0/content/0/text")), text) << items.body;
}

TEST_F(OpenAiTest, ResponsesThinkInAnItemOfTheirOwn) {
  const std::string body = R"({"model":"thinker","input":"Why?","max_output_tokens":6,"temperature":0)";
  const auto whole = rig().post("/v1/responses", body + "}");
  EXPECT_EQ(json_at(whole.body, "output/0/type"), "\"reasoning\"") << whole.body;
  EXPECT_EQ(json_at(whole.body, "output/1/type"), "\"message\"");
  const auto events = events_of(rig().post("/v1/responses", body + R"(,"stream":true})").body);
  EXPECT_EQ(joined(events, "delta"), json_string(json_at(whole.body, "output/0/content/0/text")));
  EXPECT_EQ(json_at(events.back(), "response/output/1/type"), "\"message\"");
}

TEST_F(OpenAiTest, UnknownPathsAndMethodsHaveErrorsToo) {
  expect_refused(rig().post("/v1/audio/speech", "{}"), 404, "", "/v1/audio/speech");
  const auto got = rig().get("/v1/chat/completions");
  expect_refused(got, 405, "", "POST");
  EXPECT_THAT(got.headers, ::testing::Contains(std::pair<std::string, std::string>("Allow", "POST")));
  expect_refused(rig().post("/v1/tokenize", "{}"), 404, "", "nothing at");
  EXPECT_EQ(rig().get("/health").body, R"({"status":"ok"})");
  EXPECT_EQ(json_at(rig().get("/props").body, "default_generation_settings/n_ctx"), "256");
  const auto metrics = rig().get("/metrics");
  EXPECT_THAT(metrics.body, HasSubstr("ballast_generated_tokens_total{model=\"tiny\"} "));
  EXPECT_THAT(metrics.body, HasSubstr("ballast_time_to_first_token_seconds_bucket{le=\"+Inf\"} "));
}

}  // namespace
}  // namespace ballast::testing
