#include "ballast/engine/engine.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <map>

#include "ballast/backends/cpu/block_kernels.h"
#include "ballast/base/human_size.h"
#include "ballast/engine/kv_pool.h"
#include "ballast/models/model.h"
#include "tests/support/engine_lab.h"
#include "tests/support/recorded_decoders.h"
#include "tests/support/test_files.h"

namespace ballast::testing {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

using Clock = std::chrono::steady_clock;
using Kind = EngineEvent::Kind;

// ---------------------------------------------------------------- answers

TEST(Engine, AnswersManyRequestsAsIfEachWereAlone) {
  const auto model = roomy_llama();
  EngineLab lab(*model);
  std::vector<Request> requests;
  for (uint64_t i = 0; i < 6; ++i) requests.push_back(drawn(prompt_of(3 + 29 * i, i, 5 + i), i));
  std::vector<RequestId> ids;
  for (const Request& request : requests) ids.push_back(lab.submit(request));
  lab.finish();
  for (size_t i = 0; i < ids.size(); ++i) {
    EXPECT_EQ(lab.answer(ids[i]).reason, FinishReason::kMaxTokens);
    EXPECT_EQ(lab.answer(ids[i]).tokens.size(), 5 + i);
    EXPECT_TRUE(lab.answer(ids[i]) == answer_alone(*model, requests[i])) << i;
  }
  const EngineCounters counters = lab.engine().counters();
  EXPECT_EQ(counters.submitted, 6U);
  EXPECT_EQ(counters.finished, 6U);
  EXPECT_EQ(counters.running + counters.waiting, 0U);
  EXPECT_EQ(counters.generated_tokens, 5U + 6 + 7 + 8 + 9 + 10);
  EXPECT_EQ(counters.prompt_tokens, 6U * 3 + 29 * 15);
  EXPECT_EQ(counters.recomputed_tokens, 0U);
  EXPECT_EQ(counters.steps, 10U) << "all prompts in the first, then a token each";
  EXPECT_EQ(counters.pool.pages_in_use, 0U);
}

// The backend "cpu" packs weights where it pays (backends/host/linalg.cc): a text alone must not cost memory, and
// nobody may see it.
TEST(Engine, PacksWeightsInBlocksWhereManyTextsAreWrittenAndNotForOne) {
  if (cpu::packed_bytes(DType::kQ4_0, 16, 32) == 0) GTEST_SKIP() << "no packed weights on this machine";
  for (const std::optional<double> budget : {std::optional<double>(), std::optional<double>(0.4)}) {
    const auto load = [&] {
      return load_or_die(test_file_path("gguf/tiny/tiny_llama.q4_0.gguf"),
                         {.backend = "cpu", .threads = 2, .param_budget_fraction = budget});
    };
    const auto lonely = load();
    const uint64_t vocabulary = lonely->as_causal_lm()->vocab_size();
    std::vector<Request> requests;
    for (uint64_t i = 0; i < 6; ++i) requests.push_back(drawn(request_of(some_ids(5 + i, vocabulary, i), 20), i));
    std::vector<Answer> alone;
    for (const Request& request : requests) alone.push_back(answer_alone(*lonely, request));
    if (!budget) {
      EXPECT_EQ(lonely->residency().resident, 0U) << "however many came one after the other";
    }

    const auto shared = load();
    EngineLab lab(*shared);
    std::vector<RequestId> ids;
    for (const Request& request : requests) ids.push_back(lab.submit(request));
    for (int i = 0; i < 6; ++i) lab.step();
    if (!budget) {
      EXPECT_EQ(shared->residency().resident, 0U) << "not yet";
    }
    lab.finish();
    const ResidencyStats stats = shared->residency();
    if (budget) {
      EXPECT_LE(stats.peak, stats.budget);
    } else {
      EXPECT_GT(stats.resident, 0U);
    }
    for (size_t i = 0; i < ids.size(); ++i) EXPECT_TRUE(lab.answer(ids[i]) == alone[i]) << i;
    // And from then on for a text alone.
    EXPECT_TRUE(answer_alone(*shared, requests[0]) == alone[0]);
  }
}

TEST(Engine, TextsThatAreBeingWrittenKeepFlowingWhileAPromptIsRead) {
  const auto model = roomy_llama();
  EngineLab lab(*model, {.most_rows = 16});
  const RequestId first = lab.submit(prompt_of(5, 1, 40));
  lab.step();
  const RequestId second = lab.submit(prompt_of(150, 2, 1));
  for (int i = 0; i < 10; ++i) {
    EXPECT_EQ(lab.engine().progress(second)->computed, static_cast<uint64_t>(i) * 15);
    EXPECT_TRUE(got_token(lab.step(), first)) << i;
  }
  EXPECT_EQ(lab.answer(second).tokens.size(), 1U);
  EXPECT_EQ(lab.engine().counters().most_rows_in_a_step, 16U);
}

TEST(Engine, EndsTextsWhereTheyEnd) {
  const auto model = load_or_die(recorded_model_path("gpt_base"));
  EngineLab lab(*model);
  Request stops = request_of({7}, 12);
  stops.stop_tokens = {118};
  const RequestId stopped = lab.submit(stops);
  const RequestId full = lab.submit(request_of(std::vector<TokenId>(46, 5), 100));
  const RequestId none = lab.submit(request_of({7}, 0));
  lab.finish();
  EXPECT_THAT(lab.answer(stopped).tokens, ElementsAre(89, 316, 316));
  EXPECT_EQ(lab.answer(stopped).reason, FinishReason::kStopToken);
  EXPECT_EQ(lab.answer(full).tokens.size(), 3U);
  EXPECT_EQ(lab.answer(full).reason, FinishReason::kContextFull);
  EXPECT_TRUE(lab.answer(none).tokens.empty());
  EXPECT_EQ(lab.answer(none).reason, FinishReason::kMaxTokens);
}

TEST(Engine, TellsWhichTokenEndedAText) {
  const auto model = load_or_die(recorded_model_path("gpt_base"));
  EngineLab lab(*model);
  Request stops = request_of({7}, 12);
  stops.stop_tokens = {118, 5};
  lab.submit(stops);
  lab.submit(request_of({7}, 1));
  std::map<FinishReason, TokenId> ended;
  while (!lab.engine().is_idle()) {
    for (const EngineEvent& event : lab.step()) {
      if (event.kind == Kind::kFinished) ended[event.reason] = event.token.id;
    }
  }
  EXPECT_EQ(ended[FinishReason::kStopToken], 118U);
  EXPECT_EQ(ended[FinishReason::kMaxTokens], 0U) << "nothing was left over";
}

TEST(Engine, ForgetsTheBeginningWhereItMay) {
  const auto model = load_or_die(recorded_model_path("gpt_base"));
  Request request = request_of(some_ids(60, 320), 5);
  request.context_shift = true;
  EngineLab lab(*model, {.most_rows = 7});
  const RequestId id = lab.submit(request);
  const RequestId beside = lab.submit(request_of({1, 2, 3}, 20));
  lab.finish();
  std::vector<TokenId> text = request.prompt;
  for (const TokenId token : lab.answer(id).tokens) {
    const Request window = request_of({text.end() - 48, text.end()}, 1);
    EXPECT_EQ(answer_alone(*model, window).tokens.front(), token);
    text.push_back(token);
  }
  EXPECT_EQ(text.size(), 65U);
  EXPECT_EQ(lab.answer(beside), answer_alone(*model, request_of({1, 2, 3}, 20)));
}

TEST(Engine, WithoutAPastWritesTheSameText) {
  const auto model = roomy_llama();
  Request request = prompt_of(20, 3, 6);
  const Answer expected = answer_alone(*model, request);
  request.keep_past = false;
  EngineLab lab(*model);
  const RequestId without = lab.submit(request), other = lab.submit(prompt_of(9, 4, 8));
  lab.finish();
  EXPECT_EQ(lab.answer(without), expected);
  EXPECT_EQ(lab.answer(other), answer_alone(*model, prompt_of(9, 4, 8)));
}

// ---------------------------------------------------------------- what is refused

std::string refusal_of(EngineLab& lab, const Request& request) {
  const auto id = lab.engine().submit(request);
  EXPECT_FALSE(id);
  if (id) return "";
  EXPECT_EQ(id.error().code, ErrorCode::kInvalidArgument);
  EXPECT_FALSE(lab.engine().check(request));
  return id.error().message;
}

TEST(Engine, RefusesWhatItCouldNeverServe) {
  const auto model = roomy_llama();
  EngineLab lab(*model, {.most_bytes = bytes_of_pages(*model, 2)});
  EXPECT_THAT(refusal_of(lab, prompt_of(513, 1, 1)), AllOf(HasSubstr("513"), HasSubstr("512")));
  EXPECT_THAT(refusal_of(lab, request_of({}, 1)), HasSubstr("at least one"));
  EXPECT_THAT(refusal_of(lab, request_of({1, 128}, 1)), HasSubstr("token 128 at position 1"));
  EXPECT_THAT(refusal_of(lab, prompt_of(100, 1, 30)),
              AllOf(HasSubstr("100 tokens and 30 more"), HasSubstr(human_size(bytes_of_pages(*model, 2)))));
  Request hot = prompt_of(3, 1, 1);
  hot.sampling.top_p = 2;
  EXPECT_THAT(refusal_of(lab, hot), HasSubstr("top-p"));
  EXPECT_TRUE(lab.engine().is_idle());
  const RequestId fits = lab.submit(prompt_of(100, 1, 29));  // the last token needs no room
  lab.finish();
  EXPECT_EQ(lab.answer(fits), answer_alone(*model, prompt_of(100, 1, 29)));
  EXPECT_FALSE(Engine::make(*model->as_causal_lm(), model->context(), {.most_rows = 0}));
  EXPECT_FALSE(Engine::make(*model->as_causal_lm(), model->context(), {.most_sequences = 0}));
  const auto tiny = Engine::make(*model->as_causal_lm(), model->context(), {.most_bytes = 1});
  ASSERT_FALSE(tiny);
  EXPECT_THAT(tiny.error().message, HasSubstr("the smallest that works"));
}

TEST(Engine, APromptComesInPiecesWhereOthersAreWritten) {
  const auto model = roomy_llama();
  EngineLab lab(*model);
  const RequestId written = lab.submit(prompt_of(3, 1, 20));
  lab.step();
  const RequestId begun = lab.submit(prompt_of(300, 2, 2));
  for (int step = 1; step <= 3; ++step) {
    const auto events = lab.step();
    EXPECT_TRUE(got_token(events, written)) << "which waits for no more than a piece";
    EXPECT_EQ(got_token(events, begun), step == 3);
  }
  EXPECT_EQ(lab.engine().counters().most_rows_in_a_step, 129U);
  lab.finish();
  EXPECT_EQ(lab.answer(begun), answer_alone(*model, prompt_of(300, 2, 2)));
}

TEST(Engine, TellsOfRequestsThatAreNotThere) {
  const auto model = roomy_llama();
  EngineLab lab(*model);
  const RequestId id = lab.submit(prompt_of(3, 1, 1));
  lab.finish();
  for (const RequestId gone : {id, RequestId{0}, RequestId{99}}) {
    EXPECT_EQ(lab.engine().cancel(gone).error().code, ErrorCode::kNotFound);
    EXPECT_EQ(lab.engine().fork(gone, {}).error().code, ErrorCode::kNotFound);
    EXPECT_EQ(lab.engine().progress(gone).error().code, ErrorCode::kNotFound);
    EXPECT_EQ(lab.engine().save(gone, "nowhere", {}).error().code, ErrorCode::kNotFound);
    EXPECT_TRUE(lab.engine().text(gone).empty());
  }
  EXPECT_TRUE(lab.engine().step()->empty());
}

// ---------------------------------------------------------------- ending early

TEST(Engine, CancelsARequestInEveryPhase) {
  const auto model = roomy_llama();
  const Request request = prompt_of(100, 1, 20), other = prompt_of(10, 2, 30);
  const Answer expected = answer_alone(*model, other);
  // Steps before it: in line, in its prompt, behind its prompt, writing.
  for (const int steps : {0, 1, 2, 5, 12}) {
    EngineLab lab(*model, {.most_rows = 40});
    const RequestId beside = lab.submit(other), id = lab.submit(request);
    for (int i = 0; i < steps; ++i) lab.step();
    const size_t written = lab.answer(id).tokens.size();
    ASSERT_TRUE(lab.engine().cancel(id));
    ASSERT_TRUE(lab.engine().cancel(id)) << "it is still there";
    lab.step();
    EXPECT_EQ(lab.answer(id).reason, FinishReason::kCancelled);
    EXPECT_EQ(lab.answer(id).tokens.size(), written);
    EXPECT_FALSE(lab.engine().cancel(id));
    lab.finish();
    EXPECT_EQ(lab.answer(beside), expected) << steps;
    EXPECT_EQ(lab.engine().counters().cancelled, 1U);
    EXPECT_EQ(lab.engine().counters().pool.pages_in_use, 0U);
  }
}

TEST(Engine, CancelsARequestThatWasPutAside) {
  const auto model = roomy_llama();
  EngineLab lab(*model, {.most_sequences = 1});
  const RequestId aside = lab.submit(prompt_of(5, 1, 20));
  lab.step();
  Request urgent = prompt_of(5, 2, 5);
  urgent.priority = 1;
  const RequestId first = lab.submit(urgent);
  lab.step();
  EXPECT_EQ(lab.engine().counters().preemptions, 1U);
  ASSERT_TRUE(lab.engine().cancel(aside));
  lab.finish();
  EXPECT_EQ(lab.answer(aside).reason, FinishReason::kCancelled);
  EXPECT_EQ(lab.answer(first), answer_alone(*model, urgent));
}

TEST(Engine, EndsRequestsAtTheirDeadline) {
  const auto model = roomy_llama();
  EngineLab lab(*model, {.most_sequences = 1});
  Request late = prompt_of(5, 1, 20);
  late.deadline = Clock::now() - std::chrono::seconds(1);
  Request soon = prompt_of(5, 1, 10'000'000);
  soon.context_shift = true;
  soon.deadline = Clock::now() + std::chrono::milliseconds(40);
  Request ample = prompt_of(5, 3, 4);
  ample.deadline = Clock::now() + std::chrono::hours(1);
  const RequestId writing = lab.submit(soon), never = lab.submit(late), waiting = lab.submit(ample);
  lab.finish();
  EXPECT_EQ(lab.answer(writing).reason, FinishReason::kDeadline);
  EXPECT_EQ(lab.answer(never).reason, FinishReason::kDeadline);
  EXPECT_TRUE(lab.answer(never).tokens.empty());
  EXPECT_EQ(lab.answer(waiting).reason, FinishReason::kMaxTokens);
  EXPECT_EQ(lab.engine().counters().expired, 2U);
}

// ---------------------------------------------------------------- order, and too little memory

TEST(Engine, HigherPrioritiesGoFirstAndPutOthersAside) {
  const auto model = roomy_llama();
  EngineLab lab(*model, {.most_sequences = 1});
  std::vector<Request> requests;
  for (const int priority : {0, 0, 2, 1}) {
    requests.push_back(prompt_of(70, requests.size(), 6));
    requests.back().priority = priority;
  }
  std::vector<RequestId> ids = {lab.submit(requests[0])}, ended;
  const auto step = [&] {
    for (const EngineEvent& event : lab.step()) {
      if (event.kind == Kind::kFinished) ended.push_back(event.id);
    }
  };
  step();
  step();
  for (size_t i = 1; i < 4; ++i) ids.push_back(lab.submit(requests[i]));
  while (!lab.engine().is_idle()) step();
  EXPECT_THAT(ended, ElementsAre(ids[2], ids[3], ids[0], ids[1]));
  for (size_t i = 0; i < 4; ++i) EXPECT_TRUE(lab.answer(ids[i]) == answer_alone(*model, requests[i])) << i;
  EXPECT_EQ(lab.engine().counters().preemptions, 1U);
  EXPECT_EQ(lab.engine().counters().recomputed_tokens, 0U) << "its pages were still there";
}

TEST(Engine, PutsTheLastAsideWhereMemoryIsShortAndGoesOnWithItLater) {
  const auto model = roomy_llama();
  for (const bool share : {false, true}) {
    EngineLab lab(*model, {.most_bytes = bytes_of_pages(*model, 4), .share_prefixes = share});
    std::vector<Request> requests;
    std::vector<RequestId> ids;
    for (uint64_t i = 0; i < 3; ++i) requests.push_back(drawn(prompt_of(40, i, 120), i));
    for (const Request& request : requests) ids.push_back(lab.submit(request));
    lab.finish();
    for (size_t i = 0; i < 3; ++i) EXPECT_TRUE(lab.answer(ids[i]) == answer_alone(*model, requests[i])) << i;
    const EngineCounters counters = lab.engine().counters();
    EXPECT_GE(counters.preemptions, 1U);
    EXPECT_GE(counters.recomputed_tokens, share ? 1U : 64U);
    EXPECT_LE(counters.pool.peak_bytes, bytes_of_pages(*model, 4));
    EXPECT_EQ(counters.failed, 0U);
  }
}

TEST(Engine, ALargeRequestIsNotOvertakenForever) {
  const auto model = roomy_llama();
  EngineLab lab(*model, {.most_bytes = bytes_of_pages(*model, 6)});
  const RequestId early = lab.submit(prompt_of(20, 1, 12)), large = lab.submit(prompt_of(300, 2, 2));
  RequestId small = 0;
  for (uint64_t i = 0; i < 5; ++i) small = lab.submit(prompt_of(20, 3 + i, 60));
  while (lab.answer(large).tokens.empty()) {
    EXPECT_TRUE(lab.answer(small).tokens.empty()) << "behind the large one";
    lab.step();
  }
  EXPECT_EQ(lab.answer(early).tokens.size(), 12U);
  lab.finish();
  EXPECT_EQ(lab.answer(small).tokens.size(), 60U);
}

// ---------------------------------------------------------------- constraints

TEST(Engine, AConstraintForbidsTokensAndItsErrorEndsItsRequestOnly) {
  const auto model = roomy_llama();
  Request even = prompt_of(10, 1, 12);
  even.constraint = [](std::span<float> logits, std::span<const TokenId> text) -> Status {
    EXPECT_GE(text.size(), 10U);
    for (size_t i = 1; i < logits.size(); i += 2) logits[i] = -HUGE_VALF;
    return {};
  };
  Request fails = prompt_of(10, 2, 12);
  fails.constraint = [](std::span<float>, std::span<const TokenId> text) -> Status {
    if (text.size() < 13) return {};
    return make_error(ErrorCode::kCorrupt, "the grammar has no such rule");
  };
  Request nothing = prompt_of(10, 3, 12);
  nothing.constraint = [](std::span<float> logits, std::span<const TokenId>) -> Status {
    std::ranges::fill(logits, -HUGE_VALF);
    return {};
  };
  EngineLab lab(*model);
  const RequestId a = lab.submit(even), b = lab.submit(fails), c = lab.submit(nothing),
                  d = lab.submit(prompt_of(9, 4, 9));
  lab.finish();
  EXPECT_TRUE(std::ranges::all_of(lab.answer(a).tokens, [](TokenId id) { return id % 2 == 0; }));
  EXPECT_EQ(lab.answer(a).reason, FinishReason::kMaxTokens);
  EXPECT_EQ(lab.answer(b).tokens.size(), 3U);
  EXPECT_EQ(lab.answer(b).code, ErrorCode::kCorrupt);
  EXPECT_THAT(lab.answer(b).error, HasSubstr("no such rule"));
  EXPECT_THAT(lab.answer(c).error, HasSubstr("probability 0"));
  EXPECT_EQ(lab.answer(d), answer_alone(*model, prompt_of(9, 4, 9)));
  EXPECT_EQ(lab.engine().counters().failed, 2U);
}

}  // namespace
}  // namespace ballast::testing
