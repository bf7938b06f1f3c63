#include "ballast/engine/kv_pool.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>

#include "tests/support/kv_texts.h"
#include "tests/support/memory_meter.h"

namespace ballast::testing {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

// ---------------------------------------------------------------- memory

TEST(KvPool, UsesPagesAgainInsteadOfAllocating) {
  const KvLab lab = plain_lab(0, false);
  for (TokenId round = 0; round < 5; ++round) static_cast<void>(text_of(lab, counting_ids(200, round)));
  EXPECT_EQ(lab.ledger->allocations, 4U);
  EXPECT_EQ(lab.pool->counters().peak_bytes, 4 * kPlainPageBytes);
}

TEST(KvPool, PagesOutliveIt) {
  KvLab lab = plain_lab();
  KvPast past = text_of(lab, counting_ids(100)).past();
  lab.pool.reset();
  EXPECT_EQ(lab.ledger->bytes_out, 2 * kPlainPageBytes);
  past = {};
  EXPECT_EQ(lab.ledger->bytes_out, 0U);
}

// ---------------------------------------------------------------- forks and cuts

TEST(KvSequence, AForkCopiesThePageInWhichItGoesOn) {
  const KvLab lab = plain_lab();
  KvSequence first = text_of(lab, counting_ids(100));
  KvSequence second = *first.fork();
  EXPECT_EQ(lab.pool->counters().pages_in_use, 2U);
  ASSERT_TRUE(extend(second, counting_ids(3, 500)));
  EXPECT_EQ(lab.pool->counters().pages_copied, 1U);
  ASSERT_TRUE(extend(first, counting_ids(3, 600)));
  EXPECT_EQ(lab.pool->counters().pages_copied, 1U) << "the page has one owner again";
  EXPECT_EQ(lab.pool->counters().pages_in_use, 3U);
  EXPECT_TRUE(holds_its_text(first));
  EXPECT_TRUE(holds_its_text(second));
}

TEST(KvSequence, AForkAtTheEndOfAPageCopiesNothing) {
  const KvLab lab = plain_lab(0, false);
  KvSequence first = text_of(lab, counting_ids(128));
  KvSequence second = *first.fork();
  ASSERT_TRUE(extend(second, counting_ids(3, 500)));
  ASSERT_TRUE(extend(first, counting_ids(3, 600)));
  EXPECT_EQ(lab.pool->counters().pages_copied, 0U);
  EXPECT_TRUE(holds_its_text(first));
  EXPECT_TRUE(holds_its_text(second));
}

TEST(KvSequence, AForkDoesNotSeeWhatIsBeingWritten) {
  const KvLab lab = plain_lab();
  KvSequence first = text_of(lab, counting_ids(60));
  ASSERT_TRUE(first.reserve(70));
  KvSequence second = *first.fork();
  write_rows(first, counting_ids(70, 60));
  first.append(counting_ids(70, 60));
  ASSERT_TRUE(extend(second, counting_ids(70, 900)));
  EXPECT_TRUE(holds_its_text(first));
  EXPECT_TRUE(holds_its_text(second));
}

TEST(KvSequence, GoingOnInAPageThatAnotherHasCopiesIt) {
  const KvLab lab = plain_lab();
  const KvSequence first = text_of(lab, counting_ids(128));
  KvSequence second = text_of(lab, counting_ids(129));
  second.truncate(70);
  EXPECT_EQ(second.length(), 70U);
  ASSERT_TRUE(extend(second, counting_ids(58, 900)));
  EXPECT_EQ(lab.pool->counters().pages_copied, 1U);
  EXPECT_TRUE(holds_its_text(first));
  EXPECT_TRUE(holds_its_text(second));
  EXPECT_EQ(lab.sequence().adopt(counting_ids(129)), 128U) << "the first text is still found";
}

TEST(KvSequence, GoingOnInAPageThatNobodyElseHasCopiesNothing) {
  const KvLab lab = plain_lab(2);
  KvSequence text = text_of(lab, counting_ids(128));
  text.truncate(70);
  ASSERT_TRUE(extend(text, counting_ids(58, 900))) << "there is no third page";
  EXPECT_EQ(lab.pool->counters().pages_copied, 0U);
  EXPECT_TRUE(holds_its_text(text));
  EXPECT_EQ(lab.sequence().adopt(counting_ids(129)), 64U) << "what was overwritten is not found";
}

TEST(KvSequence, TruncateGivesUpReservedPages) {
  const KvLab lab = plain_lab();
  KvSequence text = text_of(lab, counting_ids(10));
  ASSERT_TRUE(text.reserve(500));
  EXPECT_EQ(lab.pool->counters().pages_in_use, 8U);
  text.truncate(1000);
  EXPECT_EQ(text.length(), 10U);
  EXPECT_EQ(lab.pool->counters().pages_in_use, 1U);
}

TEST(KvSequence, MovesWithItsPages) {
  const KvLab lab = plain_lab();
  KvSequence first = text_of(lab, counting_ids(100));
  KvSequence second = text_of(lab, counting_ids(70, 300));
  second = std::move(first);
  EXPECT_EQ(second.length(), 100U);
  EXPECT_TRUE(holds_its_text(second));
  EXPECT_EQ(lab.pool->counters().pages_in_use, 2U);
  const KvSequence third = std::move(second);
  EXPECT_TRUE(holds_its_text(third));
  EXPECT_EQ(lab.pool->counters().pages_in_use, 2U);
}

TEST(KvSequence, RefusesPositionsBeyondTheContext) {
  const KvLab lab(small_kv_shape({0}, 100));
  KvSequence text = text_of(lab, counting_ids(90));
  for (const uint64_t rows : {uint64_t{11}, std::numeric_limits<uint64_t>::max()}) {
    const auto reserved = text.reserve(rows);
    ASSERT_FALSE(reserved);
    EXPECT_EQ(reserved.error().code, ErrorCode::kInvalidArgument);
    EXPECT_THAT(reserved.error().message, AllOf(HasSubstr("after 90"), HasSubstr("context of 100")));
  }
  EXPECT_TRUE(text.reserve(10));
  EXPECT_TRUE(text.reserve(0));
  EXPECT_FALSE(lab.pool->could_hold(101));
}

// ---------------------------------------------------------------- windows

TEST(KvWindows, GiveUpPagesThatNobodyLooksAt) {
  const KvLab lab(small_kv_shape({0, 100}), {.share_prefixes = false});
  KvSequence text = text_of(lab, counting_ids(300));
  EXPECT_EQ(lab.pool->counters().pages_in_use, 10U) << "a pass over all of it needs all pages";
  ASSERT_TRUE(extend(text, counting_ids(1)));
  EXPECT_EQ(lab.pool->counters().pages_in_use, 7U) << "position 300 sees those from 201 on";
  EXPECT_EQ(text.past().pages[1][2], nullptr);
  EXPECT_NE(text.past().pages[1][3], nullptr);
  EXPECT_TRUE(holds_its_text(text));
}

TEST(KvWindows, HoldNoMorePagesThanTheLayoutSays) {
  const KvLab lab(small_kv_shape({100, 0, 65, 1, 66}), {.share_prefixes = false});
  KvSequence text = lab.sequence();
  uint64_t most = 0;
  for (TokenId id = 0; id < 700; ++id) {
    ASSERT_TRUE(extend(text, std::vector<TokenId>{id}));
    most = std::max(most, text.bytes());
    ASSERT_LE(text.bytes(), *lab.pool->layout().bytes_for(text.length()));
  }
  EXPECT_EQ(most, *lab.pool->layout().bytes_for(700));
}

TEST(KvWindows, ATextWhoseWindowIsGoneBeginsAnew) {
  const KvLab lab(small_kv_shape({0, 64}), {.share_prefixes = false});
  KvSequence text = text_of(lab, counting_ids(300));
  ASSERT_TRUE(extend(text, counting_ids(1)));
  KvSequence other = *text.fork();
  text.truncate(299);
  EXPECT_EQ(text.length(), 299U);
  EXPECT_TRUE(holds_its_text(text));
  other.truncate(200);
  EXPECT_EQ(other.length(), 0U);
  EXPECT_EQ(other.bytes(), 0U);
}

TEST(KvWindows, ATextIsCutWhereItsPagesAreStillKept) {
  const KvLab lab(small_kv_shape({0, 64}));
  KvSequence text = text_of(lab, counting_ids(300));
  ASSERT_TRUE(extend(text, counting_ids(1)));
  EXPECT_EQ(text.past().pages[1][2], nullptr);
  text.truncate(200);
  EXPECT_EQ(text.length(), 200U);
  EXPECT_NE(text.past().pages[1][2], nullptr);
  EXPECT_TRUE(holds_its_text(text));
}

TEST(KvWindows, ABeginningIsFoundByThePagesThatItStillNeeds) {
  const KvLab lab(small_kv_shape({0, 64}), {.most_bytes = 16 * kPlainPageBytes});
  KvSequence text = lab.sequence();
  for (TokenId id = 0; id < 320; ++id) ASSERT_TRUE(extend(text, std::vector<TokenId>{id}));
  EXPECT_EQ(lab.sequence().adopt(counting_ids(321)), 320U);
  EXPECT_EQ(lab.sequence().adopt(counting_ids(200)), 199U) << "pages behind the window are kept while there is room";
  lab.pool->forget_kept();
  EXPECT_EQ(lab.sequence().adopt(counting_ids(200)), 0U) << "the window before 192 is gone";
  KvSequence whole = lab.sequence();
  EXPECT_EQ(whole.adopt(counting_ids(321)), 320U);
  EXPECT_TRUE(holds_its_text(whole));
}

// ---------------------------------------------------------------- limits

TEST(KvPoolLimit, IsToldWithNumbersAndCostsNothing) {
  const KvLab lab = plain_lab(3);
  KvSequence first = text_of(lab, counting_ids(100));
  KvSequence second = lab.sequence();
  const auto reserved = second.reserve(65);
  ASSERT_FALSE(reserved);
  EXPECT_EQ(reserved.error().code, ErrorCode::kOutOfMemory);
  EXPECT_EQ(
      reserved.error().message,
      "no room for the keys and values of positions 0 to 64: a page of 2048 bytes does not fit: 6144 of 6144 bytes "
      "are in use");
  EXPECT_EQ(lab.pool->counters().pages_in_use, 2U) << "a page for half of it would be of no use";
  EXPECT_TRUE(second.reserve(64));
  EXPECT_TRUE(holds_its_text(first));
  first.clear(0);
  second.truncate(0);
  EXPECT_TRUE(second.reserve(192)) << "there is room again";
}

TEST(KvPoolLimit, CountsWhatIsFree) {
  const KvLab lab = plain_lab(4);
  EXPECT_TRUE(lab.pool->could_hold(256));
  EXPECT_FALSE(lab.pool->could_hold(257));
  EXPECT_EQ(lab.pool->free_bytes(), 4 * kPlainPageBytes);
  KvSequence text = text_of(lab, counting_ids(100));
  EXPECT_EQ(lab.pool->free_bytes(), 2 * kPlainPageBytes);
  text.clear(0);
  EXPECT_EQ(lab.pool->counters().pages_kept, 2U);
  EXPECT_EQ(lab.pool->free_bytes(), 4 * kPlainPageBytes);
  EXPECT_EQ(lab.pool->counters().most_bytes, 4 * kPlainPageBytes);
  EXPECT_EQ(plain_lab().pool->free_bytes(), std::numeric_limits<uint64_t>::max());
}

TEST(KvPoolLimit, EvictsWhatWasUnusedForLongest) {
  const KvLab lab = plain_lab(4);
  static_cast<void>(text_of(lab, counting_ids(64, 100)));
  static_cast<void>(text_of(lab, counting_ids(64, 200)));
  static_cast<void>(text_of(lab, counting_ids(64, 300)));
  EXPECT_EQ(lab.sequence().adopt(counting_ids(65, 100)), 64U);  // which makes it the newest
  const KvSequence text = text_of(lab, counting_ids(128, 400));
  EXPECT_EQ(lab.pool->counters().pages_evicted, 1U);
  EXPECT_EQ(lab.sequence().adopt(counting_ids(65, 200)), 0U);
  EXPECT_EQ(lab.sequence().adopt(counting_ids(65, 300)), 64U);
  EXPECT_EQ(lab.sequence().adopt(counting_ids(65, 100)), 64U);
}

TEST(KvPoolLimit, EvictsTheEndOfATextBeforeItsBeginning) {
  const KvLab lab = plain_lab(4);
  static_cast<void>(text_of(lab, counting_ids(256)));
  const KvSequence text = text_of(lab, counting_ids(100, 900));
  EXPECT_EQ(lab.sequence().adopt(counting_ids(256)), 128U);
}

TEST(KvPoolLimit, NeverEvictsWhatIsInUse) {
  const KvLab lab = plain_lab(3);
  const KvSequence text = text_of(lab, counting_ids(128));
  static_cast<void>(text_of(lab, counting_ids(64, 900)));
  KvSequence other = lab.sequence();
  EXPECT_FALSE(other.reserve(65));
  EXPECT_TRUE(holds_its_text(text));
  EXPECT_EQ(lab.pool->counters().pages_evicted, 1U);
}

TEST(KvPoolLimit, OfTheDeviceEvictsToo) {
  const KvLab lab(small_kv_shape({0, 0, 64}));
  lab.ledger->most_bytes = 12 * kPlainPageBytes;
  static_cast<void>(text_of(lab, counting_ids(256)));
  EXPECT_EQ(lab.ledger->bytes_out, 12 * kPlainPageBytes);
  const KvSequence text = text_of(lab, counting_ids(200, 900));
  EXPECT_GT(lab.pool->counters().pages_evicted, 0U);
  EXPECT_TRUE(holds_its_text(text));
  const auto reserved = lab.sequence().reserve(64);
  ASSERT_FALSE(reserved);
  EXPECT_THAT(reserved.error().message, HasSubstr("the device is full"));
}

// Here a text as long as the context has four pages.
TEST(KvPoolLimit, WithoutOneKeepsAsMuchAsTextsHaveUsedAtOnce) {
  const KvLab lab(small_kv_shape({0}, 256));
  for (TokenId i = 0; i < 20; ++i) {
    static_cast<void>(text_of(lab, counting_ids(150, 1000 * i)));
    EXPECT_LE(lab.pool->counters().kept_bytes, 4 * kPlainPageBytes) << i;
    EXPECT_LE(lab.ledger->bytes_out, 2 * 4 * kPlainPageBytes) << i;
  }
  EXPECT_EQ(lab.pool->counters().pages_kept, 4U);
  EXPECT_EQ(lab.sequence().adopt(counting_ids(150, 19'000)), 149U) << "the last text is kept as a whole";
  EXPECT_EQ(lab.sequence().adopt(counting_ids(150, 18'000)), 64U) << "of the one before it the beginning";
  EXPECT_EQ(lab.sequence().adopt(counting_ids(150, 17'000)), 0U);
  {
    std::vector<KvSequence> texts;
    for (TokenId i = 0; i < 3; ++i) texts.push_back(text_of(lab, counting_ids(192, 500'000 + 1000 * i)));
  }
  EXPECT_EQ(lab.pool->counters().pages_kept, 9U) << "what three texts had at once";
}

TEST(KvPoolLimit, OfPagesThatAreKeptHolds) {
  const KvLab lab(small_kv_shape({0}), {.most_kept_bytes = 2 * kPlainPageBytes});
  static_cast<void>(text_of(lab, counting_ids(256)));
  EXPECT_EQ(lab.pool->counters().kept_bytes, 2 * kPlainPageBytes);
  EXPECT_EQ(lab.pool->counters().pages_evicted, 2U);
  EXPECT_EQ(lab.sequence().adopt(counting_ids(256)), 128U);
}

TEST(KvPoolLimit, WithoutOneKeepsSeveralShortTexts) {
  const KvLab lab = plain_lab();
  for (TokenId i = 0; i < 100; ++i) static_cast<void>(text_of(lab, counting_ids(64, 1000 * i)));
  EXPECT_EQ(lab.pool->counters().pages_kept, kKeptPositions / kPagePositions);
  EXPECT_EQ(lab.sequence().adopt(counting_ids(65, 36'000)), 64U);
  EXPECT_EQ(lab.sequence().adopt(counting_ids(65, 35'000)), 0U);
}

TEST(KvPoolLimit, OfPagesThatAreKeptLeavesTextsWithWindowsWhatTheyNeed) {
  const uint64_t most = 10 * kPlainPageBytes;  // what the text has at its end
  const KvLab lab(small_kv_shape({0, 64}), {.most_kept_bytes = most});
  KvSequence text = lab.sequence();
  for (uint64_t at = 0; at < 512; at += 32) {
    ASSERT_TRUE(extend(text, counting_ids(32, static_cast<TokenId>(at))));
    ASSERT_TRUE(holds_its_text(text));
  }
  text.clear(0);
  EXPECT_EQ(lab.pool->counters().kept_bytes, most);
  KvSequence again = lab.sequence();
  EXPECT_EQ(again.adopt(counting_ids(513)), 512U);
  EXPECT_TRUE(holds_its_text(again));
}

TEST(KvPoolLimit, ForgettingReturnsMemoryToTheDevice) {
  const KvLab lab = plain_lab();
  const KvSequence text = text_of(lab, counting_ids(64));
  static_cast<void>(text_of(lab, counting_ids(200, 900)));
  lab.pool->forget_kept();
  EXPECT_EQ(lab.ledger->bytes_out, kPlainPageBytes);
  EXPECT_EQ(lab.pool->counters().pages_kept, 0U);
  EXPECT_TRUE(holds_its_text(text));
}

// ---------------------------------------------------------------- failures

// Forks, cuts and windows, by which pages are allocated, copied and given up. Goes on after errors.
void work_with_errors(KvLab& lab) {
  KvSequence first = lab.sequence();
  for (TokenId i = 0; i < 5; ++i) static_cast<void>(extend(first, counting_ids(50, i * 50)));
  KvSequence second = *first.fork();
  static_cast<void>(extend(second, counting_ids(30, 700)));
  KvSequence third = lab.sequence();
  const std::vector<TokenId> ids = counting_ids(150);
  static_cast<void>(extend(third, std::span(ids).subspan(third.adopt(ids))));
  third.truncate(70);
  static_cast<void>(extend(third, counting_ids(30, 800)));
  for (const KvSequence* sequence : {&first, &second, &third}) EXPECT_TRUE(holds_its_text(*sequence));
}

TEST(KvPoolFailure, OfAnyCallToTheDeviceLeaksAndMixesNothing) {
  uint64_t calls = 1;
  for (uint64_t n = 1; n <= calls; ++n) {
    SCOPED_TRACE(n);
    KvLab lab(small_kv_shape({0, 100}), {.most_bytes = 40 * kPlainPageBytes});
    lab.ledger->failing_call = n;
    work_with_errors(lab);
    calls = std::max(calls, lab.ledger->calls);
    EXPECT_EQ(lab.pool->counters().pages_in_use, 0U);
    lab.pool.reset();
    EXPECT_EQ(lab.ledger->bytes_out, 0U);
  }
  EXPECT_GT(calls, 10U);
}

TEST(KvPoolFailure, OfACopyLeavesTheTextAsItWas) {
  const KvLab lab = plain_lab();
  const KvSequence first = text_of(lab, counting_ids(100));
  KvSequence second = *first.fork();
  lab.ledger->failing_call = lab.ledger->calls + 2;  // after the allocation
  const auto reserved = second.reserve(1);
  ASSERT_FALSE(reserved);
  EXPECT_EQ(reserved.error().code, ErrorCode::kIo);
  EXPECT_TRUE(holds_its_text(second));
  EXPECT_EQ(lab.pool->counters().pages_copied, 0U);
  EXPECT_TRUE(extend(second, counting_ids(1)));
  EXPECT_TRUE(holds_its_text(first));
  EXPECT_TRUE(holds_its_text(second));
}

TEST(KvPoolFailure, OfAnyAllocationOfTheHostLeaksAndMixesNothing) {
  bool happened = true;
  int64_t passed = 0;
  for (; happened; ++passed) {
    SCOPED_TRACE(passed);
    KvLab lab(small_kv_shape({0, 100}));
    const KvSequence first = text_of(lab, counting_ids(120));
    KvSequence second = *first.fork(), third = lab.sequence();
    const std::vector<TokenId> more = counting_ids(100, 120), again = counting_ids(300);
    {
      const FailingAllocation failing(passed);
      const bool is_reserved = static_cast<bool>(second.reserve(100));
      if (is_reserved) write_rows(second, more);
      if (is_reserved) second.append(more);
      third.adopt(again);
      happened = failing.happened();
    }
    for (const KvSequence* sequence : {&first, &std::as_const(second), &std::as_const(third)}) {
      EXPECT_TRUE(holds_its_text(*sequence));
    }
    EXPECT_TRUE(extend(second, counting_ids(200)));
    EXPECT_TRUE(holds_its_text(second));
  }
  EXPECT_GT(passed, 5);
}

TEST(KvPoolFailure, OfAForkIsAnErrorAndLeavesBothAsTheyWere) {
  KvLab lab(small_kv_shape({0, 100}));
  const KvSequence text = text_of(lab, counting_ids(120));
  const uint64_t pages = lab.pool->counters().pages_in_use;
  for (const auto until : {FailingAllocation::Until::kOnce, FailingAllocation::Until::kForGood}) {
    const int64_t allocations = count_allocations([&] { EXPECT_TRUE(text.fork()); });
    EXPECT_GT(allocations, 0);
    for (int64_t passed = 0; passed < allocations; ++passed) {
      const auto forked = [&] {
        const FailingAllocation failing(passed, until);
        return text.fork();
      }();
      ASSERT_FALSE(forked) << passed;
      EXPECT_EQ(forked.error().code, ErrorCode::kOutOfMemory);
    }
  }
  EXPECT_TRUE(holds_its_text(text));
  EXPECT_EQ(lab.pool->counters().pages_in_use, pages);
}

}  // namespace
}  // namespace ballast::testing
