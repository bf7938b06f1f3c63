// An engine that runs out of the host's memory at any allocation: nobody's text is lost or changed.
#include "tests/support/out_of_memory.h"

#include <map>
#include <utility>

#include "ballast/engine/engine.h"
#include "tests/support/engine_lab.h"

namespace ballast::testing {
namespace {

struct WrittenWhileShort {
  std::map<RequestId, std::vector<TokenId>> texts;
  size_t failed = 0;
};

// A text, one that is drawn, and another way that the second goes. A text whose pass fails alone fails.
WrittenWhileShort written_with(FailingCalls& calls, LoadedModel& model) {
  WrittenWhileShort written;
  const auto engine =
      calls.insist([&] { return Engine::make(*model.as_causal_lm(), model.context(), {.most_rows = 5}); });
  Request drawn = request_of({7, 2, 9}, 3);
  drawn.sampling = {.seed = 3};
  const auto submit = [&](const Request& request) {
    std::vector<Request> copies(2, request);  // made before: the test's own must not fail
    return calls.insist([&] { return (*engine)->submit(std::exchange(copies[copies[0].prompt.empty() ? 1 : 0], {})); });
  };
  const auto first = submit(request_of({1, 2, 3, 4, 5, 6}, 3)), second = submit(drawn);
  if (!first || !second) return written;
  const auto third = calls.insist([&] { return (*engine)->fork(*second, {.seed = 4}); });
  if (!third) return written;
  while (!(*engine)->is_idle()) {
    const auto events = calls.insist([&] { return (*engine)->step(); });
    if (!events) return written;
    for (const EngineEvent& event : *events) {
      if (event.error) {
        EXPECT_EQ(event.error->code, ErrorCode::kOutOfMemory) << event.error->message;
        ++written.failed;
      }
      if (event.kind == EngineEvent::Kind::kToken) written.texts[event.id].push_back(event.token.id);
    }
  }
  return written;
}

TEST(EngineOutOfMemory, EndsAtMostOneTextAndTheOthersAreWrittenAsEver) {
  const auto model = load_or_die(recorded_model_path("gpt_micro"), {.threads = 1});
  FailingCalls undisturbed;
  const WrittenWhileShort expected = written_with(undisturbed, *model);
  ASSERT_EQ(expected.texts.size(), 3U);
  size_t runs = 0, failed = 0;
  for_each_failing_call(
      [&](FailingCalls& calls) {
        const WrittenWhileShort written = written_with(calls, *model);
        ASSERT_LE(written.failed, 1U);
        size_t whole = 0;
        for (const auto& [id, tokens] : expected.texts) {
          const auto found = written.texts.find(id);
          whole += found != written.texts.end() && found->second == tokens ? 1 : 0;
        }
        ASSERT_EQ(whole, expected.texts.size() - written.failed);
        ++runs;
        failed += written.failed;
      },
      1000);
  EXPECT_GT(runs, 10 * failed);  // nearly always a step is made again, and nobody notices
}

TEST(EngineOutOfMemory, EveryCallGivesAnErrorWhileMemoryStaysShort) {
  const auto model = load_or_die(recorded_model_path("gpt_micro"), {.threads = 1});
  // Made before: what the test itself allocates must not fail.
  std::vector<Request> requests(5000, request_of({1, 2, 3}, 2));
  expect_no_escape([&]() -> Status {
    BALLAST_TRY(const auto engine, Engine::make(*model->as_causal_lm(), model->context()));
    Request request = std::move(requests.back());
    requests.pop_back();
    BALLAST_TRY(const RequestId id, engine->submit(std::move(request)));
    BALLAST_TRY([[maybe_unused]] const RequestProgress progress, engine->progress(id));
    BALLAST_TRY(const RequestId other, engine->fork(id, {.seed = 1}));
    BALLAST_TRY([[maybe_unused]] const auto past, engine->make_past());
    BALLAST_CHECK(engine->cancel(other));
    BALLAST_TRY([[maybe_unused]] const auto events, engine->step());
    return {};
  });
}

}  // namespace
}  // namespace ballast::testing
