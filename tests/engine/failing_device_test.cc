// An engine on a device that fails at any of its calls (examples/emulated_backend.h).
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "examples/emulated_backend.h"
#include "tests/support/engine_lab.h"

namespace ballast::testing {
namespace {

using ::testing::HasSubstr;

// Two that begin together and one that comes later and begins like the first, and a text that goes two ways.
struct SmallTraffic {
  explicit SmallTraffic(LoadedModel& model) : lab(model, {.most_rows = 5}) {}

  void run() {
    Request drawn = request_of({7, 2, 9}, 3);
    drawn.sampling = {.seed = 3};
    ids = {lab.submit(request_of({1, 2, 3, 4}, 2)), lab.submit(drawn)};
    ids.push_back(lab.fork(ids[1], 4));
    lab.step();
    ids.push_back(lab.submit(request_of({1, 2, 3, 6}, 2)));
    lab.finish();
  }

  EngineLab lab;
  std::vector<RequestId> ids;
};

bool is_beginning_of(const Answer& answer, const Answer& whole) {
  return answer.tokens.size() <= whole.tokens.size() &&
         std::ranges::equal(answer.logits, std::span(whole.logits).first(answer.logits.size()));
}

TEST(FailingDevice, EveryCallThatFailsEndsAtMostOneTextAndTheOthersGoOn) {
  const uint64_t before = emulated::bytes_out();
  {
    const auto model = load_or_die(recorded_model_path("gpt_micro"), {.own_backend = &emulated::backend()});
    SmallTraffic whole(*model);
    whole.run();
    ASSERT_GT(whole.lab.engine().counters().pool.pages_copied, 0U) << "a copy that fails is tried too";
    emulated::fail_call(0);
    {
      SmallTraffic counted(*model);
      counted.run();
    }
    const uint64_t calls = emulated::calls();
    ASSERT_GT(calls, 100U);
    size_t failures = 0;
    for (uint64_t n = 1; n <= calls; ++n) {
      SmallTraffic traffic(*model);
      emulated::fail_call(n);
      traffic.run();
      emulated::fail_call(0);
      size_t failed = 0;
      for (size_t i = 0; i < whole.ids.size(); ++i) {
        const Answer& answer = traffic.lab.answer(traffic.ids[i]);
        const Answer& expected = whole.lab.answer(whole.ids[i]);
        if (answer.reason == FinishReason::kFailed) {
          ++failed;
          EXPECT_THAT(answer.error, HasSubstr("the emulated device failed"));
          EXPECT_TRUE(is_beginning_of(answer, expected)) << "call " << n;
        } else {
          EXPECT_TRUE(answer == expected) << "call " << n << ", request " << i;
        }
      }
      EXPECT_LE(failed, 1U) << "call " << n;
      failures += failed;
      const EngineCounters counters = traffic.lab.engine().counters();
      EXPECT_EQ(counters.pool.pages_in_use, 0U) << "call " << n;
      // The engine itself has taken no harm.
      const RequestId again = traffic.lab.submit(request_of({1, 2, 3, 4}, 2));
      traffic.lab.finish();
      EXPECT_TRUE(traffic.lab.answer(again) == whole.lab.answer(whole.ids[0])) << "call " << n;
    }
    EXPECT_GT(failures, 0U) << "a pass over a single text has nobody else to try";
    EXPECT_LT(failures, calls) << "texts in company are tried again without the others";
  }
  EXPECT_EQ(emulated::bytes_out(), before);
}

}  // namespace
}  // namespace ballast::testing
