// Many requests, clients that leave or do not read, and limits.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <cstdlib>
#include <thread>

#include "tests/support/json_path.h"
#include "tests/support/service_rig.h"

namespace ballast::testing {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

constexpr std::string_view kChatPath = "/v1/chat/completions";

std::string numbered_chat(int number, std::string_view more) {
  return fmt::format(
      R"({{"model":"tiny","messages":[{{"role":"user","content":"Number {} said"}}],"seed":{},"temperature":1.2{}}})",
      number, number, more);
}

// Long enough to be caught in the middle.
serve::ServiceOptions long_answers() {
  serve::ServiceOptions options = rig_options();
  options.most_tokens = 200;
  return options;
}
constexpr std::string_view kLong = R"(,"ignore_eos":true,"stream":true)";

std::string header_of(const serve::HttpAnswer& answer, std::string_view name) {
  for (const auto& [key, value] : answer.headers) {
    if (key == name) return value;
  }
  return "";
}

TEST(ServiceLoad, AnswersAreThoseThatEachRequestGetsAlone) {
  ServiceRig rig;
  std::vector<std::string> alone;
  for (int i = 0; i < 16; ++i) alone.push_back(chat_text(rig.post(kChatPath, numbered_chat(i, R"(,"max_tokens":20)"))));
  for (const bool leaves : {false, true}) {
    std::vector<ServiceRig::Started> started;
    for (int i = 0; i < 16; ++i) {
      started.push_back(rig.start("POST", kChatPath, numbered_chat(i, R"(,"max_tokens":20)")));
      // Company that comes and goes.
      if (leaves) rig.start("POST", kChatPath, numbered_chat(100 + i, kLong)).leave();
    }
    for (size_t i = 0; i < started.size(); ++i) EXPECT_EQ(chat_text(started[i].sink->wait()), alone[i]) << i;
  }
  rig.wait_until_idle();
}

TEST(ServiceLoad, AClientThatLeavesFreesItsSequence) {
  ServiceRig rig(long_answers());
  const auto one = rig.start("POST", kChatPath, numbered_chat(1, kLong));
  one.sink->wait_for_pieces(2);
  one.leave();
  rig.wait_until_idle();
  EXPECT_FALSE(one.sink->has_ended());
  const auto next = rig.post(kChatPath, numbered_chat(2, R"(,"max_tokens":1)"));
  EXPECT_EQ(next.status, 200) << next.body;
  rig.wait_until_idle();
  EXPECT_EQ(rig.metric("ballast_sequences_cancelled_total{model=\"tiny\"}"), 1);
  EXPECT_EQ(rig.metric("ballast_sequences_running{model=\"tiny\"}"), 0);
  EXPECT_EQ(rig.metric("ballast_kv_cache_pages_in_use{model=\"tiny\"}"), 0);
  EXPECT_EQ(rig.metric("ballast_clients_left_total"), 1);
  one.leave();  // once more does nothing
}

TEST(ServiceLoad, ClientsMayLeaveAtAnyMoment) {
  serve::ServiceOptions options = long_answers();
  options.engine.most_sequences = 2;
  ServiceRig rig(options);
  for (int i = 0; i < 60; ++i) {
    const auto one = rig.start("POST", kChatPath, numbered_chat(i, i % 2 == 0 ? kLong : R"(,"n":3)"));
    std::this_thread::sleep_for(std::chrono::microseconds(i * 97));
    one.leave();
  }
  rig.wait_until_idle();
  rig.post(kChatPath, numbered_chat(2, R"(,"max_tokens":1)"));
  rig.wait_for_metric("ballast_kv_cache_pages_in_use{model=\"tiny\"}", 0);
}

TEST(ServiceLoad, AFullQueueIsToldWithATimeToComeBack) {
  serve::ServiceOptions options = long_answers();
  options.engine.most_sequences = 1;
  options.most_waiting = 2;
  ServiceRig rig(options);
  std::vector<ServiceRig::Started> started;
  for (int i = 0; i < 3; ++i) started.push_back(rig.start("POST", kChatPath, numbered_chat(i, kLong)));
  const auto busy = rig.post(kChatPath, numbered_chat(9, ""));
  EXPECT_EQ(busy.status, 429) << busy.body;
  EXPECT_EQ(header_of(busy, "Retry-After"), "1");
  EXPECT_EQ(json_at(busy.body, "error/code"), "\"queue_full\"");
  EXPECT_EQ(json_at(busy.body, "error/type"), "\"rate_limit_error\"");
  const auto too_many = rig.post(kChatPath, numbered_chat(9, R"(,"n":4)"));
  EXPECT_EQ(too_many.status, 400) << "it would never fit";
  EXPECT_EQ(rig.get("/health").status, 200);
  for (const auto& one : started) one.leave();
  rig.wait_until_idle();
  EXPECT_EQ(rig.post(kChatPath, numbered_chat(9, R"(,"max_tokens":1)")).status, 200);
  EXPECT_EQ(rig.metric("ballast_requests_busy_total"), 1);
}

TEST(ServiceLoad, AKeyHasItsShare) {
  serve::ServiceOptions options = long_answers();
  options.most_per_key = 1;
  ServiceRig rig(options);
  const auto one = rig.start("POST", kChatPath, numbered_chat(1, kLong), "alice");
  const auto second = rig.post(kChatPath, numbered_chat(2, ""), "alice");
  EXPECT_EQ(second.status, 429);
  EXPECT_EQ(json_at(second.body, "error/code"), "\"key_limit\"");
  EXPECT_EQ(rig.post(kChatPath, numbered_chat(2, R"(,"max_tokens":1)"), "bob").status, 200);
  one.leave();
  rig.wait_until_idle();
  EXPECT_EQ(rig.post(kChatPath, numbered_chat(2, R"(,"max_tokens":1)"), "alice").status, 200);
}

// Asks again before the end of its answer can be seen.
class AskingSink : public MemorySink {
 public:
  explicit AskingSink(ServiceRig& rig) : rig_(rig) {}
  void send(serve::HttpAnswer answer) override {
    ask();
    MemorySink::send(std::move(answer));
  }
  void end() override {
    ask();
    MemorySink::end();
  }
  serve::HttpAnswer next() {
    wait();
    return next_.sink->wait();
  }

 private:
  void ask() { next_ = rig_.start("POST", "/tokenize", R"({"model":"tiny","content":"a"})", "alice"); }
  ServiceRig& rig_;
  ServiceRig::Started next_;
};

TEST(ServiceLoad, WhoeverHasAnAnswerMayAskAgain) {
  serve::ServiceOptions options = rig_options();
  options.most_per_key = 1;
  ServiceRig rig(options);
  const std::string no_template = R"({"model":"plain","messages":[{"role":"user","content":"a"}]})";
  for (const std::string& body :
       {numbered_chat(1, ""), numbered_chat(1, R"(,"stream":true)"), no_template, std::string(R"({"content":"a"})")}) {
    const bool is_chat = body.find("messages") != std::string::npos;
    const auto sink = std::make_shared<AskingSink>(rig);
    rig.service().answer(
        {.method = "POST", .path = std::string(is_chat ? kChatPath : "/tokenize"), .body = body, .key = "alice"}, sink);
    EXPECT_EQ(sink->next().status, 200) << body;
    rig.wait_until_idle();
  }
}

TEST(ServiceLoad, RefusingNewOnesLetsTheOthersFinish) {
  ServiceRig rig;
  const auto one = rig.start("POST", kChatPath, numbered_chat(1, R"(,"max_tokens":20)"));
  rig.service().refuse_new();
  const auto refused = rig.post(kChatPath, numbered_chat(2, ""));
  EXPECT_EQ(refused.status, 503);
  EXPECT_EQ(json_at(refused.body, "error/type"), "\"unavailable_error\"");
  EXPECT_EQ(rig.get("/health").status, 503);
  EXPECT_EQ(one.sink->wait().status, 200);
  rig.wait_until_idle();
}

TEST(ServiceLoad, ADeadlineEndsAnAnswer) {
  serve::ServiceOptions options = long_answers();
  options.deadline = std::chrono::seconds(0);
  ServiceRig rig(options);
  const auto late = rig.post(kChatPath, numbered_chat(1, ""));
  EXPECT_EQ(late.status, 504) << late.body;
  EXPECT_EQ(header_of(late, "x-should-retry"), "false");
  EXPECT_EQ(rig.post("/v1/embeddings", R"({"model":"embed","input":"ship"})").status, 504);
  EXPECT_EQ(rig.post("/api/embed", R"({"model":"embed","input":"ship"})").status, 504);
}

TEST(ServiceLoad, AClientThatDoesNotReadIsGivenUp) {
  ServiceRig rig(long_answers());
  const auto one = rig.start("POST", kChatPath, numbered_chat(1, kLong));
  one.sink->pretend_unsent(1U << 21U);
  const auto answer = one.sink->wait();
  EXPECT_THAT(answer.body, HasSubstr("too slowly"));
  EXPECT_THAT(answer.body, ::testing::Not(HasSubstr("[DONE]")));
  rig.wait_until_idle();
  EXPECT_EQ(rig.metric("ballast_clients_too_slow_total"), 1);
}

TEST(ServiceLoad, StoppingAnswersEveryoneWhoWaits) {
  std::vector<ServiceRig::Started> started;
  {
    ServiceRig rig(long_answers());
    for (int i = 0; i < 8; ++i) started.push_back(rig.start("POST", kChatPath, numbered_chat(i, kLong)));
    started[0].sink->wait_for_pieces(2);
  }
  for (const auto& one : started) {
    EXPECT_TRUE(one.sink->has_ended());
    one.leave();
  }
}

TEST(ServiceModels, AreLoadedOnFirstUseAndEvictedForOthers) {
  serve::ServiceOptions options = rig_options();
  options.model_budget = 13'000'000;  // one of those that write, and the small one
  ServiceRig rig(options);
  const auto loaded = [&](std::string_view name) {
    return rig.metric(fmt::format("ballast_model_loaded{{model=\"{}\"}}", name));
  };
  EXPECT_EQ(loaded("tiny"), 0);
  const auto first = rig.post(kChatPath, numbered_chat(1, R"(,"max_tokens":4)"));
  EXPECT_EQ(loaded("tiny"), 1);
  EXPECT_EQ(rig.post("/v1/embeddings", R"({"model":"embed","input":"ship"})").status, 200);
  EXPECT_EQ(loaded("tiny"), 1);
  rig.wait_until_idle();
  EXPECT_EQ(rig.post("/v1/completions", R"({"model":"plain","prompt":"It","max_tokens":1})").status, 200);
  EXPECT_EQ(loaded("tiny"), 0);
  EXPECT_EQ(loaded("plain"), 1);
  rig.wait_until_idle();
  EXPECT_EQ(chat_text(rig.post(kChatPath, numbered_chat(1, R"(,"max_tokens":4)"))), chat_text(first));
  rig.wait_until_idle();
  const auto busy = rig.start("POST", kChatPath, numbered_chat(1, kLong));
  const auto refused = rig.post("/v1/completions", R"({"model":"plain","prompt":"It","max_tokens":1})");
  EXPECT_EQ(refused.status, 503) << refused.body;
  EXPECT_EQ(json_at(refused.body, "error/code"), "\"model_budget\"");
  busy.leave();
}

TEST(ServiceModels, ThatAreOpenedAtTheSameTimeShareTheBudget) {
  serve::ServiceOptions options = rig_options();
  options.model_budget = 13'000'000;  // one of the three
  ServiceRig rig(options);
  for (int round = 0; round < 20; ++round) {
    std::vector<ServiceRig::Started> started;
    for (const char* name : {"tiny", "plain", "thinker"}) {
      started.push_back(
          rig.start("POST", "/v1/completions", fmt::format(R"({{"model":"{}","prompt":"It","max_tokens":1}})", name)));
    }
    int answered = 0;
    for (const auto& one : started) answered += one.sink->wait().status == 200 ? 1 : 0;
    EXPECT_GE(answered, 1);
    double bytes = 0;
    for (const char* name : {"tiny", "plain", "thinker"}) {
      bytes += rig.metric(fmt::format("ballast_model_bytes{{model=\"{}\"}}", name));
    }
    EXPECT_LE(bytes, 13e6);
    rig.service().reload();
    rig.wait_until_idle();
  }
}

TEST(ServiceModels, ASmallKvCacheShortensWhatFitsAndRefusesNoAnswer) {
  serve::ServiceOptions options = rig_options();
  options.most_tokens = 0;
  options.engine.most_bytes = 1U << 20U;  // less than a whole context
  ServiceRig rig(options);
  const auto answer = rig.post(kChatPath, numbered_chat(1, R"(,"ignore_eos":true)"));
  EXPECT_EQ(answer.status, 200) << answer.body;
  EXPECT_EQ(json_at(answer.body, "choices/0/finish_reason"), "\"length\"");
  const std::string room(json_at(rig.get("/props").body, "default_generation_settings/n_ctx"));
  std::string words;
  for (int i = 0; i < 200; ++i) words += " a";
  const auto refused = rig.post("/v1/completions", fmt::format(R"({{"model":"tiny","prompt":"{}"}})", words));
  EXPECT_EQ(refused.status, 400);
  EXPECT_EQ(json_at(refused.body, "error/code"), "\"context_length_exceeded\"");
  EXPECT_THAT(refused.body, HasSubstr("KV cache has room for " + room));
}

TEST(ServiceModels, AKvCacheWithoutRoomForAnyTextIsRefusedAtTheStartWithTheSmallestThatWorks) {
  serve::ServiceOptions options = rig_options();
  options.models.resize(1);
  options.engine.most_bytes = 1;
  std::string said;
  options.on_problem = [&](std::string_view text) { said += text; };
  const auto first_service = serve::Service::make(options);
  ASSERT_TRUE(first_service) << first_service.error().message;
  const Status refused = (*first_service)->load_all();
  ASSERT_FALSE(refused);
  EXPECT_THAT(refused.error().message, AllOf(HasSubstr("could not be started"), Not(HasSubstr("log"))));
  EXPECT_THAT(said, HasSubstr("a KV cache of 1 B has no room for any text: the smallest that works has "));
  const size_t number = said.find("works has ") + std::string_view("works has ").size();
  const uint64_t least = std::strtoull(said.c_str() + number, nullptr, 10);
  for (const uint64_t bytes : {least - 1, least}) {
    options.engine.most_bytes = bytes;
    const auto service = serve::Service::make(options);
    ASSERT_TRUE(service) << service.error().message;
    EXPECT_EQ((*service)->load_all().has_value(), bytes == least) << bytes;
  }
}

TEST(ServiceModels, HealthSaysThatTheyAreLoading) {
  serve::ServiceOptions options = rig_options();
  options.preloads = true;
  ServiceRig rig(options);
  EXPECT_EQ(rig.get("/health").status, 503);
  EXPECT_EQ(rig.get("/health").body, R"({"status":"loading"})");
  ASSERT_TRUE(rig.service().load_all());
  EXPECT_EQ(rig.get("/health").status, 200);
}

TEST(ServiceModels, AreLoadedAtTheStartAlsoWhereClientsHaveTakenAllPlaces) {
  serve::ServiceOptions options = long_answers();
  options.models.resize(1);
  options.engine.most_sequences = 1;
  options.most_waiting = 0;
  ServiceRig rig(options);
  const auto sink = std::make_shared<HeldSink>();
  const auto leave = rig.service().answer(
      {.method = "POST", .path = std::string(kChatPath), .body = numbered_chat(1, kLong), .key = {}}, sink);
  sink->wait_until_held();
  EXPECT_EQ(rig.post(kChatPath, numbered_chat(2, "")).status, 429);
  const Status loaded = rig.service().load_all();
  EXPECT_TRUE(loaded) << loaded.error().message;
  EXPECT_EQ(rig.post(kChatPath, numbered_chat(2, "")).status, 429);
  sink->let_go();
  leave();
  rig.wait_until_idle();
  EXPECT_EQ(rig.post(kChatPath, numbered_chat(2, R"(,"max_tokens":1)")).status, 200);
}

TEST(ServiceModels, ThatFindNoRoomAtTheStartBesideThoseInUseAreLoadedLater) {
  serve::ServiceOptions options = long_answers();
  options.models.resize(2);
  options.model_budget = 13'000'000;  // one of the two
  std::string said;
  options.on_problem = [&](std::string_view text) { said += text; };
  ServiceRig rig(options);
  const auto sink = std::make_shared<HeldSink>();
  const auto leave = rig.service().answer(
      {.method = "POST", .path = std::string(kChatPath), .body = numbered_chat(1, kLong), .key = {}}, sink);
  sink->wait_until_held();
  const Status loaded = rig.service().load_all();
  EXPECT_TRUE(loaded) << loaded.error().message;
  EXPECT_THAT(said, HasSubstr("plain: not loaded yet"));
  sink->let_go();
  leave();
  rig.wait_until_idle();
  EXPECT_EQ(rig.post("/v1/completions", R"({"model":"plain","prompt":"It","max_tokens":1})").status, 200);
}

TEST(ServiceModels, OneThatIsTooLargeIsToldWithTheNumbers) {
  serve::ServiceOptions options = rig_options();
  options.model_budget = 1'000'000;
  ServiceRig rig(options);
  const auto refused = rig.post(kChatPath, numbered_chat(1, ""));
  EXPECT_EQ(refused.status, 500);
  EXPECT_THAT(refused.body, HasSubstr("the server allows 977 KiB for all"));
  EXPECT_EQ(header_of(refused, "x-should-retry"), "false");
}

TEST(ServiceModels, ReloadingLetsAnswersEndWithWhatTheyBeganWith) {
  ServiceRig rig(long_answers());
  ASSERT_TRUE(rig.service().load_all());
  const auto one = rig.start("POST", kChatPath, numbered_chat(1, R"(,"max_tokens":60)"));
  rig.service().reload();
  const auto after = rig.post(kChatPath, numbered_chat(1, R"(,"max_tokens":60)"));
  EXPECT_EQ(chat_text(one.sink->wait()), chat_text(after));
  rig.wait_until_idle();
}

TEST(ServiceModels, WhatCannotBeServedIsToldAtOnce) {
  const auto error_of = [](serve::ServiceOptions options) {
    const auto made = serve::Service::make(std::move(options));
    return made ? std::string() : made.error().message;
  };
  serve::ServiceOptions options = rig_options();
  options.models.push_back(options.models[0]);
  EXPECT_THAT(error_of(options), HasSubstr("two models are called"));
  options.models = {{.name = "x", .path = "/nowhere/model.gptrs"}};
  EXPECT_THAT(error_of(options), HasSubstr("/nowhere/model.gptrs"));
  options.models.clear();
  EXPECT_THAT(error_of(options), HasSubstr("no model"));
}

TEST(ServiceModels, ClientsAreNotToldAboutFiles) {
  serve::ServiceOptions options = rig_options();
  std::string logged;
  options.on_problem = [&](std::string_view what) { logged = what; };
  options.models = {
      {.name = "x", .path = options.models[0].path.substr(0, options.models[0].path.rfind('/')) + "/tokenizer.json"}};
  ServiceRig rig(options);
  const auto refused = rig.post(kChatPath, R"({"messages":[{"role":"user","content":"a"}]})");
  EXPECT_EQ(refused.status, 500);
  EXPECT_THAT(refused.body, ::testing::Not(HasSubstr("tokenizer.json")));
  EXPECT_THAT(logged, HasSubstr("tokenizer.json"));
}

}  // namespace
}  // namespace ballast::testing
