#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "ballast/engine/engine.h"
#include "ballast/engine/kv_pool.h"
#include "ballast/models/model.h"
#include "tests/support/engine_lab.h"
#include "tests/support/recorded_decoders.h"
#include "tests/support/test_files.h"

namespace ballast::testing {
namespace {

using ::testing::HasSubstr;

// Texts that go on from others: forks, and pasts that were saved.
// ---------------------------------------------------------------- forks

TEST(Engine, ForksOfAPromptComputeItOnce) {
  const auto model = roomy_llama();
  for (const int steps : {0, 1}) {  // in line, and in the prompt
    EngineLab lab(*model, {.most_rows = 60});
    const Request request = prompt_of(100, 1, 8);
    std::vector<RequestId> ids = {lab.submit(drawn(request, 10))};
    for (int i = 0; i < steps; ++i) lab.step();
    ids.push_back(lab.fork(ids[0], 11));
    ids.push_back(lab.fork(ids[1], 12));
    lab.finish();
    for (uint64_t i = 0; i < 3; ++i) {
      EXPECT_TRUE(lab.answer(ids[i]) == answer_alone(*model, drawn(request, 10 + i))) << i;
    }
    EXPECT_NE(lab.answer(ids[0]).tokens, lab.answer(ids[1]).tokens);
    EXPECT_EQ(lab.engine().counters().prompt_tokens, 100U);
    EXPECT_EQ(lab.engine().counters().pool.pages_copied, 2U) << "of the last page, by all but one";
  }
}

TEST(Engine, AForkGoesOnWhenTheRequestThatItFollowsEnds) {
  const auto model = roomy_llama();
  EngineLab lab(*model, {.most_rows = 60});
  const Request request = prompt_of(100, 1, 8);
  const RequestId first = lab.submit(drawn(request, 10));
  lab.step();
  const RequestId second = lab.fork(first, 11);
  ASSERT_TRUE(lab.engine().cancel(first));
  lab.finish();
  EXPECT_EQ(lab.answer(second), answer_alone(*model, drawn(request, 11)));
}

TEST(Engine, AForkOfATextGoesOnFromWhereItIs) {
  const auto model = roomy_llama();
  EngineLab lab(*model);
  const Request request = prompt_of(100, 1, 8);
  const RequestId first = lab.submit(drawn(request, 10));
  for (int i = 0; i < 3; ++i) lab.step();
  const std::vector<TokenId> text(lab.engine().text(first).begin(), lab.engine().text(first).end());
  ASSERT_EQ(text.size(), 103U);
  const RequestId second = lab.fork(first, 11);
  EXPECT_EQ(lab.engine().fork(first, {.temperature = -1}).error().code, ErrorCode::kInvalidArgument);
  lab.finish();
  EXPECT_EQ(lab.answer(first), answer_alone(*model, drawn(request, 10)));
  EXPECT_EQ(lab.answer(second).tokens.size(), 8U);
  Request rest = drawn(request, 11);
  rest.prompt = text;
  rest.max_tokens = 5;
  const Answer alone = answer_alone(*model, rest);
  EXPECT_TRUE(std::ranges::equal(std::span(lab.answer(second).tokens).subspan(3), alone.tokens));
}

// ---------------------------------------------------------------- pasts

TEST(Engine, ATextGoesOnFromItsSavedPastElsewhere) {
  const TempFolder folder;
  const auto model = roomy_llama();
  const Digest digest{std::byte{7}};
  const Request request = prompt_of(100, 1, 12);
  const Answer expected = answer_alone(*model, request);
  Request rest = request;
  {
    EngineLab lab(*model);
    const RequestId id = lab.submit(request);
    EXPECT_EQ(lab.engine().save(id, folder.path("early"), digest).error().code, ErrorCode::kInvalidArgument);
    for (int i = 0; i < 5; ++i) lab.step();
    ASSERT_TRUE(lab.engine().save(id, folder.path("text"), digest));
    rest.prompt.assign(lab.engine().text(id).begin(), lab.engine().text(id).end());
    rest.max_tokens = 7;
    lab.finish();
    EXPECT_EQ(lab.answer(id), expected) << "saving changes nothing";
  }
  const auto again = roomy_llama();
  EngineLab lab(*again);
  const auto id = lab.engine().restore(folder.path("text"), digest, rest);
  ASSERT_TRUE(id) << id.error().message;
  EXPECT_EQ(lab.engine().progress(*id)->computed, 104U);
  lab.finish();
  EXPECT_TRUE(std::ranges::equal(lab.answer(*id).tokens, std::span(expected.tokens).subspan(5)));
  EXPECT_TRUE(std::ranges::equal(lab.answer(*id).logits, std::span(expected.logits).subspan(5 * 128)));
  EXPECT_EQ(lab.engine().counters().prompt_tokens, 1U);

  rest.prompt[50] ^= 1;
  const auto differs = lab.engine().restore(folder.path("text"), digest, rest);
  ASSERT_FALSE(differs);
  EXPECT_THAT(differs.error().message, HasSubstr("from token 50 on"));
  EXPECT_FALSE(lab.engine().restore(folder.path("text"), Digest{}, rest)) << "of another model";
  EXPECT_FALSE(lab.engine().restore(folder.path("nothing"), digest, rest));
  EXPECT_TRUE(lab.engine().is_idle());
  EXPECT_EQ(lab.engine().counters().pool.pages_in_use, 0U);
}

TEST(Engine, APastServesOneTextAfterTheOther) {
  const auto model = roomy_llama();
  EngineLab lab(*model, {.share_prefixes = false});
  Request request = prompt_of(30, 1, 4);
  request.past = *lab.engine().make_past();
  const RequestId first = lab.submit(request);
  EXPECT_THAT(lab.engine().submit(request).error().message, HasSubstr("in use"));
  lab.finish();
  EXPECT_EQ(request.past->length(), 33U);
  Request longer = request;
  longer.prompt.insert(longer.prompt.end(), lab.answer(first).tokens.begin(), lab.answer(first).tokens.end());
  const RequestId second = lab.submit(longer);
  EXPECT_EQ(lab.engine().progress(second)->reused, 33U);
  lab.finish();
  longer.past = nullptr;
  EXPECT_EQ(lab.answer(second), answer_alone(*model, longer));
  EngineLab other(*model);
  EXPECT_THAT(other.engine().submit(request).error().message, HasSubstr("not one of this engine"));
}

// What depends on the length of a text: it is computed as it would be alone, however it came to be so long.
TEST(Engine, TextsWhosePositionsFollowTheirLengthAreComputedAgainAsTheyWere) {
  for (const char* name : {"llama_rope_dynamic", "phi3_longrope"}) {
    const auto model = load_or_die(recorded_decoder(name).path);
    std::vector<Request> requests;
    for (uint64_t i = 0; i < 3; ++i) requests.push_back(prompt_of(18 + 7 * i, i, 20));
    requests.back().priority = 1;
    EngineLab lab(*model, {.most_rows = 9, .most_sequences = 1});
    std::vector<RequestId> ids = {lab.submit(requests[0])};
    for (int i = 0; i < 19; ++i) lab.step();
    ids.push_back(lab.submit(requests[1]));
    ids.push_back(lab.submit(requests[2]));
    lab.finish();
    EXPECT_EQ(lab.engine().counters().preemptions, 1U);
    for (size_t i = 0; i < 3; ++i) EXPECT_TRUE(lab.answer(ids[i]) == answer_alone(*model, requests[i])) << name << i;
  }
}

}  // namespace
}  // namespace ballast::testing
