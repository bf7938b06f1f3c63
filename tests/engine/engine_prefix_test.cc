// Requests whose texts begin alike: what one has computed the others take over, to the token.
#include <gtest/gtest.h>

#include "ballast/models/model.h"
#include "tests/support/engine_lab.h"
#include "tests/support/recorded_decoders.h"

namespace ballast::testing {
namespace {

TEST(Engine, TextsThatBeginAlikeComputeTheBeginningOnce) {
  const auto model = roomy_llama();
  EngineLab lab(*model, {.most_rows = 100});
  std::vector<Request> requests;
  for (uint64_t i = 0; i < 4; ++i) {
    requests.push_back(prompt_of(200, 1, 4));
    for (TokenId& id : std::span(requests.back().prompt).subspan(150)) id = (id + i) % 128;
  }
  std::vector<RequestId> ids;
  for (const Request& request : requests) ids.push_back(lab.submit(request));
  lab.finish();
  for (size_t i = 0; i < 4; ++i) EXPECT_TRUE(lab.answer(ids[i]) == answer_alone(*model, requests[i])) << i;
  EXPECT_EQ(lab.engine().counters().reused_tokens, 3U * 150);
  EXPECT_EQ(lab.engine().counters().prompt_tokens, 200U + 3 * 50);
  EXPECT_EQ(lab.engine().counters().pool.pages_copied, 3U) << "of the page in which they part";
  const RequestId again = lab.submit(requests[0]);
  lab.finish();
  EXPECT_EQ(lab.answer(again), lab.answer(ids[0]));
  EXPECT_EQ(lab.engine().counters().reused_tokens, 3U * 150 + 199) << "pages outlive their text";
}

// Windows and positions that follow the length of the text included.
TEST(Engine, OfAPromptThatIsKnownOnlyTheLastTokenIsComputed) {
  for (const char* name : {"llama_plain", "gemma3", "mistral_swa", "llama_rope_dynamic"}) {
    SCOPED_TRACE(name);
    const auto model = load_with_context(recorded_decoder(name), 200, {.threads = 1});
    EngineLab lab(*model);
    for (const size_t length : {30U, 64U, 65U, 101U}) {
      const Request request = request_of(some_ids(length, model->as_causal_lm()->vocab_size(), length), 3);
      const RequestId first = lab.submit(request);
      lab.finish();
      const EngineCounters before = lab.engine().counters();
      const RequestId second = lab.submit(request);
      lab.step();
      EXPECT_EQ(lab.engine().progress(second)->reused, length - 1);
      lab.finish();
      EXPECT_EQ(lab.engine().counters().prompt_tokens - before.prompt_tokens, 1U);
      EXPECT_EQ(lab.answer(second), lab.answer(first)) << length;
      EXPECT_EQ(lab.answer(second), answer_alone(*model, request)) << length;
    }
  }
}

TEST(Engine, TheNextTurnOfAConversationComputesWhatIsNewInIt) {
  const auto model = roomy_llama();
  EngineLab lab(*model);
  Request request = prompt_of(100, 1, 10);
  for (int turn = 0; turn < 3; ++turn) {
    const EngineCounters before = lab.engine().counters();
    const RequestId id = lab.submit(request);
    lab.finish();
    EXPECT_EQ(lab.answer(id), answer_alone(*model, request)) << turn;
    const EngineCounters after = lab.engine().counters();
    // The last token of an answer was written and not computed with.
    EXPECT_EQ(after.prompt_tokens - before.prompt_tokens, turn == 0 ? 100U : 1 + 20) << turn;
    const auto& answer = lab.answer(id).tokens;
    request.prompt.insert(request.prompt.end(), answer.begin(), answer.end());
    const auto next = some_ids(20, 128, 50 + static_cast<uint64_t>(turn));
    request.prompt.insert(request.prompt.end(), next.begin(), next.end());
  }
}

TEST(Engine, ARequestTakesOverWhatATextHasThatIsStillBeingWritten) {
  const auto model = roomy_llama();
  EngineLab lab(*model);
  const Request request = prompt_of(100, 1, 20);
  const RequestId first = lab.submit(drawn(request, 10));
  for (int i = 0; i < 3; ++i) lab.step();
  const RequestId second = lab.submit(drawn(request, 11));
  EXPECT_TRUE(got_token(lab.step(), second)) << "it does not wait";
  EXPECT_EQ(lab.engine().progress(second)->reused, 99U);
  EXPECT_EQ(lab.engine().counters().pool.pages_copied, 1U);
  lab.finish();
  EXPECT_EQ(lab.answer(first), answer_alone(*model, drawn(request, 10)));
  EXPECT_EQ(lab.answer(second), answer_alone(*model, drawn(request, 11)));
  EXPECT_EQ(lab.engine().counters().prompt_tokens, 101U);
}

TEST(Engine, NobodyWaitsForABeginningOfLessThanAPage) {
  const auto model = roomy_llama();
  EngineLab lab(*model);
  const Request brief = prompt_of(64, 1, 2), one_more = prompt_of(65, 2, 2);
  const RequestId a = lab.submit(brief), b = lab.submit(brief);
  const auto events = lab.step();
  EXPECT_TRUE(got_token(events, a) && got_token(events, b));
  const RequestId c = lab.submit(one_more), d = lab.submit(one_more), other = lab.submit(prompt_of(60, 3, 2));
  const auto first = lab.step();
  EXPECT_TRUE(got_token(first, c) && got_token(first, other)) << "which passes the one that waits";
  EXPECT_FALSE(got_token(first, d));
  EXPECT_TRUE(got_token(lab.step(), d));
  EXPECT_EQ(lab.engine().counters().reused_tokens, 64U);
}

TEST(Engine, ARequestThatWaitsForRoomHasNoCopy) {
  const auto model = roomy_llama();
  EngineLab lab(*model, {.most_sequences = 1});
  const Request request = prompt_of(100, 1, 10);
  lab.submit(drawn(request, 10));
  const RequestId second = lab.submit(drawn(request, 11));
  for (int i = 0; i < 5; ++i) lab.step();
  EXPECT_EQ(lab.engine().counters().pool.pages_copied, 0U);
  EXPECT_EQ(lab.engine().counters().pool.pages_in_use, 2U);
  EXPECT_EQ(lab.engine().counters().reused_tokens, 0U);
  lab.finish();
  EXPECT_EQ(lab.engine().counters().pool.pages_copied, 1U);
  EXPECT_EQ(lab.engine().counters().reused_tokens, 99U);
  EXPECT_EQ(lab.answer(second), answer_alone(*model, drawn(request, 11)));
}

TEST(Engine, WithoutSharingNobodyWaits) {
  const auto model = roomy_llama();
  EngineLab lab(*model, {.share_prefixes = false});
  const Request request = prompt_of(200, 1, 2);
  const RequestId a = lab.submit(request), b = lab.submit(request);
  const auto events = lab.step();
  EXPECT_TRUE(got_token(events, a) && got_token(events, b));
  EXPECT_EQ(lab.engine().counters().reused_tokens, 0U);
}

}  // namespace
}  // namespace ballast::testing
