#include "ballast/engine/shared_engine.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <thread>

#include "tests/support/engine_lab.h"

namespace ballast::testing {
namespace {

using std::chrono::milliseconds;

std::unique_ptr<SharedEngine> shared_engine(LoadedModel& model) {
  auto engine = Engine::make(*model.as_causal_lm(), model.context(), {}, &model.running());
  EXPECT_TRUE(engine) << engine.error().message;
  return std::make_unique<SharedEngine>(std::move(*engine));
}

// Waits until the request is over.
std::vector<TokenId> tokens_of(SharedEngine& engine, RequestId id) {
  std::vector<TokenId> tokens;
  for (;;) {
    const auto event = engine.wait(id, milliseconds(20));
    EXPECT_TRUE(event) << event.error().message;
    if (!event) return tokens;
    if (!*event) continue;
    if ((*event)->kind == EngineEvent::Kind::kFinished) return tokens;
    tokens.push_back((*event)->token.id);
  }
}

TEST(SharedEngine, GivesEachOfManyThreadsWhatItWouldHaveAlone) {
  const auto model = roomy_llama();
  const auto engine = shared_engine(*model);
  constexpr uint64_t kThreads = 8;
  std::vector<std::vector<TokenId>> got(kThreads);
  std::vector<std::thread> threads;
  for (uint64_t i = 0; i < kThreads; ++i) {
    threads.emplace_back([&, i] {
      const auto id = engine->submit(drawn(prompt_of(3 + 11 * i, i, 12), i));
      if (id) got[i] = tokens_of(*engine, *id);
    });
  }
  for (std::thread& thread : threads) thread.join();
  for (uint64_t i = 0; i < kThreads; ++i)
    EXPECT_EQ(got[i], answer_alone(*model, drawn(prompt_of(3 + 11 * i, i, 12), i)).tokens) << i;
  EXPECT_EQ(engine->counters().finished, kThreads);
}

TEST(SharedEngine, WhoWaitsComputesForEveryone) {
  const auto model = roomy_llama();
  const auto engine = shared_engine(*model);
  const RequestId slow = *engine->submit(prompt_of(5, 1, 10)), fast = *engine->submit(prompt_of(7, 2, 10));
  EXPECT_EQ(tokens_of(*engine, fast).size(), 10U);
  const uint64_t steps = engine->counters().steps;
  EXPECT_EQ(tokens_of(*engine, slow).size(), 10U);
  EXPECT_LE(engine->counters().steps, steps + 1) << "its tokens were there already";
}

TEST(SharedEngine, WhatIsDroppedEndsAndIsNotTold) {
  const auto model = roomy_llama();
  const auto engine = shared_engine(*model);
  const RequestId dropped = *engine->submit(prompt_of(5, 1, 100)), kept = *engine->submit(prompt_of(6, 2, 5));
  ASSERT_TRUE(engine->wait(dropped, milliseconds(20)));
  engine->drop(dropped);
  engine->drop(dropped);
  EXPECT_EQ(tokens_of(*engine, kept).size(), 5U);
  const auto event = engine->wait(dropped, milliseconds(0));
  ASSERT_FALSE(event);
  EXPECT_EQ(event.error().code, ErrorCode::kNotFound);
  EXPECT_EQ(engine->counters().cancelled, 1U);
  EXPECT_EQ(engine->counters().pool.pages_in_use, 0U);
}

TEST(SharedEngine, AnEndIsToldOnce) {
  const auto model = roomy_llama();
  const auto engine = shared_engine(*model);
  const RequestId id = *engine->submit(prompt_of(5, 1, 2));
  EXPECT_EQ(tokens_of(*engine, id).size(), 2U);
  EXPECT_FALSE(engine->wait(id, milliseconds(0)));
}

TEST(SharedEngine, OnePlaceMayStepForAllAndTakeWhatThereIs) {
  const auto model = roomy_llama();
  const auto engine = shared_engine(*model);
  EXPECT_TRUE(engine->is_idle());
  const RequestId first = *engine->submit(prompt_of(5, 1, 3)), second = *engine->submit(prompt_of(6, 2, 4));
  EXPECT_FALSE(engine->is_idle());
  EXPECT_FALSE(engine->take(first)) << "nothing was computed yet";
  size_t tokens = 0, ends = 0;
  for (size_t steps = 0; !engine->is_idle(); ++steps) {
    ASSERT_LT(steps, 20U);
    ASSERT_TRUE(engine->step());
    for (const RequestId id : {first, second}) {
      while (const auto event = engine->take(id)) ++(event->kind == EngineEvent::Kind::kToken ? tokens : ends);
    }
  }
  EXPECT_EQ(tokens, 7U);
  EXPECT_EQ(ends, 2U);
  EXPECT_FALSE(engine->take(first));
}

TEST(SharedEngine, WhoIsCancelledIsTold) {
  const auto model = roomy_llama();
  const auto engine = shared_engine(*model);
  const RequestId id = *engine->submit(prompt_of(5, 1, 100));
  ASSERT_TRUE(engine->cancel(id));
  EXPECT_TRUE(tokens_of(*engine, id).empty());
  EXPECT_EQ(engine->counters().cancelled, 1U);
  EXPECT_EQ(engine->cancel(id).error().code, ErrorCode::kNotFound);
}

TEST(SharedEngine, WhatWasDroppedIsSomethingToDo) {
  const auto model = roomy_llama();
  const auto engine = shared_engine(*model);
  const RequestId id = *engine->submit(prompt_of(5, 1, 100));
  ASSERT_TRUE(engine->step());
  engine->drop(id);
  EXPECT_FALSE(engine->is_idle());
  ASSERT_TRUE(engine->step());
  EXPECT_TRUE(engine->is_idle());
  EXPECT_FALSE(engine->take(id));
}

TEST(SharedEngine, RefusesWhatTheEngineRefuses) {
  const auto model = roomy_llama();
  const auto engine = shared_engine(*model);
  const auto refused = engine->submit(prompt_of(10'000, 1, 2));
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, ErrorCode::kInvalidArgument);
}

}  // namespace
}  // namespace ballast::testing
