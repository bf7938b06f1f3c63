// Members of a request that would change the answer and are not there: refused by name, never ignored.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "ballast/serve/prepare.h"
#include "tests/support/json_path.h"
#include "tests/support/service_rig.h"

namespace ballast::testing {
namespace {

using ::testing::HasSubstr;

struct RefusedMember {
  std::string_view path, name, value;
  std::vector<std::string_view> harmless{"null"};
};

std::string body_for(std::string_view path) {
  if (path == "/v1/completions") return R"("model":"tiny","prompt":"a","max_tokens":1)";
  if (path == "/v1/responses") return R"("model":"tiny","input":"a","max_output_tokens":1)";
  if (path == "/v1/embeddings") return R"("model":"embed","input":"a")";
  return R"("model":"tiny","messages":[{"role":"user","content":"a"}],"max_tokens":1)";
}

class RefusedMembers : public ::testing::Test {
 protected:
  static void SetUpTestSuite() { rig_ = std::make_unique<ServiceRig>(); }
  static void TearDownTestSuite() { rig_.reset(); }
  static serve::HttpAnswer ask(std::string_view path, std::string_view name, std::string_view value) {
    return rig_->post(path, fmt::format(R"({{{},"{}":{}}})", body_for(path), name, value));
  }
  static void expect_refused(const RefusedMember& member) {
    const auto answer = ask(member.path, member.name, member.value);
    EXPECT_EQ(answer.status, 400) << member.name;
    EXPECT_THAT(answer.body, HasSubstr(fmt::format("\\\"{}\\\"", member.name)));
    for (const std::string_view value : member.harmless)
      EXPECT_EQ(ask(member.path, member.name, value).status, 200) << member.name << " " << value;
  }
  static std::unique_ptr<ServiceRig> rig_;
};
std::unique_ptr<ServiceRig> RefusedMembers::rig_;

TEST_F(RefusedMembers, OfSamplersThatAreNotThere) {
  const std::string_view chat = "/v1/chat/completions";
  for (const RefusedMember& member :
       std::vector<RefusedMember>{{chat, "no_repeat_ngram_size", "3", {"null", "0"}},
                                  {chat, "guidance_scale", "1.5", {"null", "1", "1.0"}},
                                  {chat, "negative_prompt", "\"x\"", {"null", "\"\""}},
                                  {chat, "top_a", "0.2", {"null", "0", "0.0"}},
                                  {chat, "length_penalty", "2", {"null", "1", "1.0"}},
                                  {chat, "num_beams", "4", {"1"}},
                                  {chat, "penalty_alpha", "0.6", {"0"}},
                                  {chat, "epsilon_cutoff", "3", {"0"}},
                                  {chat, "min_keep", "5", {"0"}},
                                  {chat, "adaptive_target", "0.5", {"-1"}},
                                  {chat, "do_sample", "false", {"true"}},
                                  {chat, "max_new_tokens", "5"},
                                  {chat, "stop_regex", "\"a+\"", {"null", "[]"}},
                                  {chat, "custom_logit_processor", "\"x\""},
                                  {chat, "logits_processors", R"(["x"])", {"[]"}},
                                  {chat, "include_reasoning", "false", {"true"}},
                                  {chat, "reasoning_format", "\"none\"", {"\"auto\""}},
                                  {chat, "return_token_ids", "true", {"false"}},
                                  {chat, "add_special_tokens", "true", {"false"}},
                                  {"/v1/completions", "add_special_tokens", "false", {"true"}},
                                  {"/v1/completions", "length_penalty", "0.5", {"1"}}})
    expect_refused(member);
}

TEST_F(RefusedMembers, OfAdaptersAndServersElsewhere) {
  for (const RefusedMember& member :
       std::vector<RefusedMember>{{"/v1/chat/completions", "lora_adapter", "\"x\""},
                                  {"/v1/chat/completions", "lora_path", "\"x\""},
                                  {"/v1/messages", "mcp_servers", R"([{"type":"url","url":"https://x"}])", {"[]"}},
                                  {"/v1/messages", "container", R"({"skills":[]})"},
                                  {"/v1/messages", "container", "\"c\""},
                                  {"/v1/responses", "max_tool_calls", "3"},
                                  {"/v1/embeddings", "truncate_prompt_tokens", "5"}})
    expect_refused(member);
}

TEST_F(RefusedMembers, OfLogProbabilitiesWhereThereAreNone) {
  for (const RefusedMember& member :
       std::vector<RefusedMember>{{"/v1/responses", "logprobs", "true", {"null", "false"}},
                                  {"/v1/responses",
                                   "include",
                                   R"(["message.output_text.logprobs"])",
                                   {"null", "[]", R"(["reasoning.encrypted_content"])"}},
                                  {"/v1/responses", "top_logprobs", "2", {"0"}}})
    expect_refused(member);
}

TEST_F(RefusedMembers, CompletionsHaveBothNamesOfTheirLimit) {
  const auto tokens = [](std::string_view limits) {
    return json_at(
        rig_->post("/v1/completions", fmt::format(R"({{"model":"tiny","prompt":"a","ignore_eos":true,{}}})", limits))
            .body,
        "usage/completion_tokens");
  };
  EXPECT_EQ(tokens(R"("max_completion_tokens":3)"), "3");
  EXPECT_EQ(tokens(R"("max_completion_tokens":3,"max_tokens":5)"), "3");
  EXPECT_EQ(tokens(R"("max_tokens":5)"), "5");
}

TEST_F(RefusedMembers, StopStringsHaveTheSameLimitsEverywhere) {
  const std::string longest(1024, 'x');
  for (const auto& [path, member, name] : std::vector<std::array<std::string, 3>>{
           {"/v1/completions", R"("stop":["{}"])", "stop"},
           {"/v1/messages", R"("stop_sequences":["{}"])", "stop_sequences"},
           {"/api/chat", R"("options":{{"num_predict":1,"stop":["{}"]}})", "options.stop"}}) {
    const auto ask_with = [&](const std::string& stop) {
      return rig_->post(path, fmt::format("{{{},{}}}", body_for(path), fmt::format(fmt::runtime(member), stop)));
    };
    EXPECT_EQ(ask_with(longest).status, 200) << path;
    const auto answer = ask_with(longest + "x");
    EXPECT_EQ(answer.status, 400) << path;
    EXPECT_THAT(answer.body, HasSubstr(name));
  }
}

// ---------------------------------------------------------------- log-probabilities

TEST(LogProbabilities, OfOneAnswerHaveALimit) {
  serve::ServiceOptions options = rig_options();
  options.most_waiting = 2000;
  ServiceRig rig(std::move(options));
  std::string prompts;
  for (int i = 0; i < 128; ++i) prompts += i == 0 ? "\"a\"" : ",\"a\"";
  const auto answer =
      rig.post("/v1/completions", fmt::format(R"({{"prompt":[{}],"max_tokens":24,"n":8,"logprobs":20}})", prompts));
  EXPECT_EQ(answer.status, 400);
  EXPECT_EQ(json_at(answer.body, "error/param"), "\"logprobs\"") << answer.body;
  EXPECT_EQ(json_at(answer.body, "error/code"), "\"too_many_logprobs\"");
}

TEST(LogProbabilities, FitOrAreRefused) {
  serve::TextAsk ask;
  serve::AskedPrompts prompts;
  prompts.tokens.emplace_back(1000, 1);
  ask.log_probabilities = 19;
  ask.choices = 5;  // 100 for each token
  const auto refused = [&](uint64_t tokens) {
    std::vector<uint64_t> most = {tokens};
    return serve::fit_log_probabilities(ask, prompts, most).has_value();
  };
  ask.max_tokens = 5000;
  EXPECT_FALSE(refused(5000));
  EXPECT_TRUE(refused(5001));
  ask.echo = true;  // the prompt has some, too
  EXPECT_FALSE(refused(4000));
  EXPECT_TRUE(refused(4001));
  ask.stream = true;  // only they are kept
  EXPECT_FALSE(refused(1'000'000));
  prompts.tokens[0].resize(5001);
  EXPECT_TRUE(refused(1));
  ask.log_probabilities.reset();
  EXPECT_FALSE(refused(1'000'000));
}

TEST(LogProbabilities, ShortenAnswersWhoseLengthIsNotAskedFor) {
  serve::TextAsk ask;
  serve::AskedPrompts prompts;
  prompts.tokens.emplace_back(10, 1);
  ask.log_probabilities = 4;
  std::vector<uint64_t> most = {131'072};
  EXPECT_FALSE(serve::fit_log_probabilities(ask, prompts, most));
  EXPECT_EQ(most[0], 100'000U);
  ask.stream = true;
  most = {131'072};
  EXPECT_FALSE(serve::fit_log_probabilities(ask, prompts, most));
  EXPECT_EQ(most[0], 131'072U);
}

// ---------------------------------------------------------------- errors

TEST_F(RefusedMembers, ErrorsDoNotGrowWithTheRequest) {
  const std::string name(2'000'000, 'm');
  for (const std::string& body :
       {fmt::format(R"({{"model":"{}","messages":[{{"role":"user","content":"a"}}]}})", name),
        fmt::format(R"({{"messages":[{{"role":"{}","content":"a"}}]}})", name),
        fmt::format(R"({{"messages":[{{"role":"user","content":[{{"type":"{}"}}]}}]}})", name)}) {
    const auto answer = rig_->post("/v1/chat/completions", body);
    EXPECT_THAT(answer.status, ::testing::AnyOf(400, 404));
    EXPECT_LT(answer.body.size(), 3000U);
  }
  EXPECT_LT(rig_->get("/v1/models/" + name).body.size(), 1000U);
}

}  // namespace
}  // namespace ballast::testing
