// Texts that begin alike: whole pages are shared, and of the page in which they part the later text has a copy.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <random>

#include "tests/support/kv_texts.h"
#include "tests/support/memory_meter.h"

namespace ballast::testing {
namespace {

// The ids with another token at this place.
std::vector<TokenId> parting_at(size_t place, std::vector<TokenId> ids) {
  ids[place] += 100'000;
  return ids;
}

// ---------------------------------------------------------------- whole pages

TEST(KvPool, GivesATextThePagesOfOneThatBeginsAlike) {
  const KvLab lab = plain_lab();
  const KvSequence first = text_of(lab, counting_ids(200));
  KvSequence second = lab.sequence();
  EXPECT_EQ(second.adopt_pages(parting_at(190, counting_ids(300))), 128U);
  EXPECT_EQ(second.length(), 128U);
  EXPECT_TRUE(holds_its_text(second));
  EXPECT_EQ(second.past().pages[0][1], first.past().pages[0][1]);
  EXPECT_EQ(lab.pool->counters().positions_found, 128U);
  EXPECT_EQ(lab.pool->counters().pages_in_use, 4U) << "those of the first, with the one that is not full";
}

TEST(KvPool, LeavesTheLastTokenToBeComputed) {
  const KvLab lab = plain_lab();
  const KvSequence first = text_of(lab, counting_ids(128));
  EXPECT_EQ(lab.sequence().adopt_pages(counting_ids(128)), 64U);
  EXPECT_EQ(lab.sequence().adopt(counting_ids(128)), 127U);
  EXPECT_EQ(lab.sequence().adopt(counting_ids(129)), 128U);
  EXPECT_EQ(lab.sequence().adopt(counting_ids(1)), 0U);
  EXPECT_EQ(lab.sequence().adopt({}), 0U);
}

TEST(KvPool, AdoptsNothingBehindTokensThatAreThere) {
  const KvLab lab = plain_lab();
  const KvSequence first = text_of(lab, counting_ids(128));
  KvSequence second = text_of(lab, counting_ids(1, 9));
  EXPECT_EQ(second.adopt(counting_ids(128)), 1U);
  EXPECT_TRUE(holds_its_text(second));
}

TEST(KvPool, KeepsPagesWhenTheirTextIsGone) {
  const KvLab lab = plain_lab();
  static_cast<void>(text_of(lab, counting_ids(200)));
  EXPECT_EQ(lab.pool->counters().pages_in_use, 0U);
  EXPECT_EQ(lab.pool->counters().pages_kept, 4U);
  EXPECT_EQ(lab.pool->counters().bytes, 4 * kPlainPageBytes);
  KvSequence second = lab.sequence();
  EXPECT_EQ(second.adopt_pages(counting_ids(200)), 192U);
  EXPECT_TRUE(holds_its_text(second));
  EXPECT_EQ(lab.pool->counters().pages_kept, 1U);
}

TEST(KvPool, SharesNothingBetweenKinds) {
  const KvLab lab = plain_lab();
  const KvSequence first = text_of(lab, counting_ids(200), 1);
  EXPECT_EQ(lab.sequence(2).adopt(counting_ids(200)), 0U);
  EXPECT_EQ(lab.sequence(1).adopt(counting_ids(200)), 199U);
  KvSequence third = lab.sequence(2);
  third.clear(1);
  EXPECT_EQ(third.adopt(counting_ids(200)), 199U);
  const KvSequence brief = text_of(lab, counting_ids(20, 700), 1);
  EXPECT_EQ(lab.sequence(2).adopt(counting_ids(20, 700)), 0U);
}

TEST(KvPool, SharesAndKeepsNothingWhenToldSo) {
  const KvLab lab = plain_lab(0, false);
  {
    const KvSequence first = text_of(lab, counting_ids(200));
    EXPECT_EQ(lab.sequence().adopt(counting_ids(200)), 0U);
  }
  EXPECT_EQ(lab.pool->counters().bytes, 0U);
}

TEST(KvPool, HasOnePageOfWhatTwoHaveComputed) {
  const KvLab lab = plain_lab();
  KvSequence first = lab.sequence(), second = lab.sequence();
  ASSERT_TRUE(extend(first, counting_ids(100)));
  ASSERT_TRUE(extend(second, counting_ids(100)));
  EXPECT_EQ(first.past().pages[0][0], second.past().pages[0][0]);
  EXPECT_NE(first.past().pages[0][1], second.past().pages[0][1]);
  EXPECT_EQ(lab.pool->counters().pages_in_use, 3U);
  EXPECT_EQ(first.bytes(), 2 * kPlainPageBytes);
}

// ---------------------------------------------------------------- parts of a page

TEST(KvPool, TakesUpABeginningToTheToken) {
  const KvLab lab = plain_lab();
  KvSequence first = text_of(lab, counting_ids(200));
  KvSequence second = lab.sequence();
  const std::vector<TokenId> ids = parting_at(190, counting_ids(300));
  EXPECT_EQ(second.adopt(ids), 190U);
  EXPECT_TRUE(holds_its_text(second));
  EXPECT_NE(second.past().pages[0][2], first.past().pages[0][2]);
  EXPECT_EQ(lab.pool->counters().positions_found, 190U);
  EXPECT_EQ(lab.pool->counters().pages_copied, 1U);
  EXPECT_EQ(lab.pool->counters().pages_in_use, 5U);
  ASSERT_TRUE(extend(second, std::span(ids).subspan(190)));
  ASSERT_TRUE(extend(first, counting_ids(10, 200)));
  EXPECT_TRUE(holds_its_text(first));
  EXPECT_TRUE(holds_its_text(second));
  EXPECT_EQ(lab.pool->counters().pages_copied, 1U) << "the copy is its own";
}

TEST(KvPool, TakesUpTheEndOfATextThatIsGone) {
  const KvLab lab = plain_lab();
  static_cast<void>(text_of(lab, counting_ids(100)));
  EXPECT_EQ(lab.sequence().adopt(counting_ids(100)), 99U) << "the same prompt again";
  KvSequence next = lab.sequence();
  EXPECT_EQ(next.adopt(counting_ids(300)), 100U) << "and one that goes on behind it";
  ASSERT_TRUE(extend(next, counting_ids(200, 100)));
  EXPECT_TRUE(holds_its_text(next));
  static_cast<void>(text_of(lab, counting_ids(7, 900)));
  EXPECT_EQ(lab.sequence().adopt(counting_ids(20, 900)), 7U) << "shorter than a page";
}

TEST(KvPool, TakesUpTheEndOfATextThatIsStillWritten) {
  const KvLab lab = plain_lab();
  std::vector<KvSequence> texts;
  for (TokenId i = 0; i < 5; ++i) texts.push_back(text_of(lab, counting_ids(100, 1000 * i)));  // and moves them
  for (TokenId i = 0; i < 5; ++i) {
    ASSERT_TRUE(texts[i].reserve(10)) << "also while a pass writes behind it";
    KvSequence other = lab.sequence();
    EXPECT_EQ(other.adopt(counting_ids(300, 1000 * i)), 100U);
    ASSERT_TRUE(extend(other, counting_ids(10, 700)));
    EXPECT_TRUE(holds_its_text(other));
    EXPECT_TRUE(holds_its_text(texts[i]));
  }
  EXPECT_EQ(lab.pool->counters().pages_copied, 5U);
}

TEST(KvPool, TakesUpABeginningBehindItsOwnWholePages) {
  const KvLab lab = plain_lab();
  const KvSequence first = text_of(lab, counting_ids(200));
  KvSequence second = lab.sequence(), third = lab.sequence();
  ASSERT_TRUE(extend(second, counting_ids(64)));
  EXPECT_EQ(second.adopt_pages(counting_ids(100)), 64U);
  EXPECT_EQ(second.adopt(counting_ids(100)), 99U);
  EXPECT_TRUE(holds_its_text(second));
  ASSERT_TRUE(extend(third, counting_ids(64)));
  EXPECT_EQ(third.adopt(parting_at(10, counting_ids(100))), 64U) << "that is another text";
  EXPECT_EQ(third.adopt(counting_ids(64)), 64U) << "there is nothing behind it";
  EXPECT_TRUE(holds_its_text(third));
}

TEST(KvPool, HasAPageOnceThatWasCopiedAsAWhole) {
  const KvLab lab = plain_lab();
  const KvSequence first = text_of(lab, counting_ids(200));
  KvSequence second = lab.sequence();
  ASSERT_TRUE(extend(second, counting_ids(64)));
  EXPECT_EQ(second.adopt(counting_ids(300)), 128U);
  EXPECT_EQ(second.past().pages[0][1], first.past().pages[0][1]);
  EXPECT_EQ(lab.pool->counters().pages_in_use, 4U);
}

// Against a search through everything: texts of few tokens, so that many begin alike and part anywhere.
TEST(KvPool, TakesTheLongestOfAllBeginnings) {
  std::mt19937_64 random(3);
  const auto draw = [&](uint64_t below) { return std::uniform_int_distribution<uint64_t>(0, below - 1)(random); };
  const auto drawn_text = [&](const std::vector<std::vector<TokenId>>& others) {
    std::vector<TokenId> ids;
    if (!others.empty()) ids = others[draw(others.size())];
    ids.resize(draw(ids.size() + 1));
    for (uint64_t more = draw(50); more > 0 || ids.empty(); more -= std::min<uint64_t>(more, 1)) {
      ids.push_back(static_cast<TokenId>(draw(3)));
    }
    return ids;
  };
  const KvLab lab = plain_lab();
  std::vector<std::vector<TokenId>> known;
  std::vector<KvSequence> living;
  for (int i = 0; i < 300 && !HasFailure(); ++i) {
    if (known.size() == 40) {
      living.clear();
      known.clear();
      lab.pool->forget_kept();
    }
    const std::vector<TokenId> ids = drawn_text(known);
    uint64_t longest = 0;
    for (const auto& other : known) {
      const auto alike = std::ranges::mismatch(ids, other).in1 - ids.begin();
      longest = std::max(longest, static_cast<uint64_t>(alike));
    }
    KvSequence sequence = lab.sequence();
    EXPECT_EQ(sequence.adopt(ids), std::min<uint64_t>(longest, ids.size() - 1)) << i;
    ASSERT_TRUE(extend(sequence, std::span(ids).subspan(sequence.length())));
    EXPECT_TRUE(holds_its_text(sequence));
    known.push_back(ids);
    if (draw(3) == 0) living.push_back(std::move(sequence));
  }
}

// ---------------------------------------------------------------- what parts of pages cost

TEST(KvPool, KeepsTheEndOfATextThatGrowsOnce) {
  const KvLab lab = plain_lab();
  for (const uint64_t length : {70, 100, 80}) {
    static_cast<void>(text_of(lab, counting_ids(length)));
    EXPECT_EQ(lab.pool->counters().pages_kept, 2U) << length;
  }
  EXPECT_EQ(lab.sequence().adopt(counting_ids(200)), 100U);
  static_cast<void>(text_of(lab, counting_ids(128)));
  EXPECT_EQ(lab.pool->counters().pages_kept, 2U);
  EXPECT_EQ(lab.pool->counters().pages_evicted, 0U);
  static_cast<void>(text_of(lab, parting_at(90, counting_ids(100))));
  EXPECT_EQ(lab.pool->counters().pages_kept, 3U) << "this one goes another way";
}

TEST(KvPool, KeepsTheEndOfForksWhenTheLastOfThemGoes) {
  const KvLab lab = plain_lab();
  auto first = std::make_unique<KvSequence>(text_of(lab, counting_ids(100)));
  auto second = std::make_unique<KvSequence>(*first->fork());
  first.reset();
  EXPECT_EQ(lab.pool->counters().pages_in_use, 2U);
  EXPECT_EQ(lab.pool->counters().pages_kept, 0U);
  second.reset();
  EXPECT_EQ(lab.pool->counters().pages_kept, 2U);
  EXPECT_EQ(lab.sequence().adopt(counting_ids(101)), 100U);
}

TEST(KvPool, KeepsWhatATextIsCutOffFrom) {
  const KvLab lab = plain_lab();
  KvSequence text = text_of(lab, counting_ids(150));
  text.truncate(70);
  ASSERT_TRUE(extend(text, counting_ids(30, 900)));
  EXPECT_TRUE(holds_its_text(text));
  EXPECT_EQ(lab.sequence().adopt(counting_ids(150)), 70U) << "the page in between was overwritten";
  text = text_of(lab, counting_ids(150, 5000));
  text.truncate(128);
  ASSERT_TRUE(extend(text, counting_ids(30, 900)));
  KvSequence again = lab.sequence();
  EXPECT_EQ(again.adopt(counting_ids(151, 5000)), 150U);
  EXPECT_TRUE(holds_its_text(again));
}

TEST(KvPoolLimit, WithoutRoomForACopyWholePagesAreShared) {
  const KvLab lab = plain_lab(3);
  const KvSequence first = text_of(lab, counting_ids(192));
  KvSequence second = lab.sequence();
  EXPECT_EQ(second.adopt(parting_at(190, counting_ids(300))), 128U);
  EXPECT_TRUE(holds_its_text(second));
  EXPECT_EQ(lab.pool->counters().pages_copied, 0U);
  EXPECT_EQ(lab.pool->counters().positions_found, 128U);
}

TEST(KvPoolLimit, ACopyTakesThePageThatTheNextPositionNeedsAnyway) {
  const KvLab lab = plain_lab(4);
  static_cast<void>(text_of(lab, counting_ids(64, 900)));
  const KvSequence first = text_of(lab, counting_ids(192));
  KvSequence second = lab.sequence();
  EXPECT_EQ(second.adopt_pages(counting_ids(150)), 128U);
  EXPECT_EQ(lab.pool->counters().pages_evicted, 0U);
  EXPECT_EQ(second.adopt(counting_ids(150)), 149U);
  EXPECT_EQ(lab.pool->counters().pages_evicted, 1U);
  ASSERT_TRUE(extend(second, counting_ids(10, 700)));
  EXPECT_EQ(lab.pool->counters().pages_evicted, 1U);
}

TEST(KvPoolLimit, WhatIsCopiedIsNotEvictedForTheCopy) {
  const KvLab lab = plain_lab(2);
  static_cast<void>(text_of(lab, counting_ids(100)));
  EXPECT_EQ(lab.sequence().adopt(counting_ids(100)), 64U);
  EXPECT_EQ(lab.pool->counters().pages_evicted, 0U);
  EXPECT_EQ(lab.pool->counters().pages_kept, 2U);
}

TEST(KvPoolLimit, EvictsTheEndOfATextThatIsNotFullFirst) {
  const KvLab lab = plain_lab(3);
  static_cast<void>(text_of(lab, counting_ids(150)));
  const KvSequence other = text_of(lab, counting_ids(64, 900));
  EXPECT_EQ(lab.pool->counters().pages_evicted, 1U);
  EXPECT_EQ(lab.sequence().adopt(counting_ids(150)), 128U);
}

// ---------------------------------------------------------------- windows

TEST(KvWindows, OfThePageInWhichTextsPartEveryGroupIsCopied) {
  const KvLab lab(small_kv_shape({0, 64, 100}), {.most_bytes = 60 * kPlainPageBytes});
  KvSequence text = lab.sequence();
  for (TokenId id = 0; id < 300; ++id) ASSERT_TRUE(extend(text, std::vector<TokenId>{id}));
  for (const size_t place : {20U, 150U, 250U, 299U}) {
    KvSequence other = lab.sequence();
    EXPECT_EQ(other.adopt(parting_at(place, counting_ids(400))), place);
    EXPECT_TRUE(holds_its_text(other));
    ASSERT_TRUE(extend(other, counting_ids(100, 900)));
    EXPECT_TRUE(holds_its_text(other)) << place;
  }
  EXPECT_EQ(lab.pool->counters().pages_copied, 4U * 3);
  EXPECT_TRUE(holds_its_text(text));
}

TEST(KvWindows, APartOfAPageIsOfNoUseWithoutTheWindowBeforeIt) {
  const KvLab lab(small_kv_shape({0, 64}), {.most_bytes = 60 * kPlainPageBytes});
  KvSequence text = lab.sequence();
  for (TokenId id = 0; id < 300; ++id) ASSERT_TRUE(extend(text, std::vector<TokenId>{id}));
  lab.pool->forget_kept();
  EXPECT_EQ(lab.sequence().adopt(parting_at(150, counting_ids(400))), 0U);
  KvSequence other = lab.sequence();
  EXPECT_EQ(other.adopt(counting_ids(400)), 300U) << "the window before the last page is there";
  EXPECT_TRUE(holds_its_text(other));
}

// ---------------------------------------------------------------- failures

TEST(KvPoolFailure, OfAnyCallWhileABeginningIsCopiedLeavesItsWholePages) {
  uint64_t failures = 0;
  for (uint64_t n = 1; n <= 4; ++n) {  // two allocations, two copies
    SCOPED_TRACE(n);
    const KvLab lab(small_kv_shape({0, 100}));
    const KvSequence first = text_of(lab, counting_ids(200));
    KvSequence second = lab.sequence();
    lab.ledger->failing_call = lab.ledger->calls + n;
    EXPECT_EQ(second.adopt(counting_ids(150)), 128U);
    failures += lab.ledger->calls >= lab.ledger->failing_call ? 1 : 0;
    EXPECT_TRUE(holds_its_text(second));
    EXPECT_EQ(lab.pool->counters().pages_in_use, 8U) << "those of the first";
    EXPECT_EQ(lab.pool->counters().pages_copied, 0U);
    EXPECT_EQ(lab.pool->counters().positions_found, 128U);
    EXPECT_EQ(second.adopt(counting_ids(150)), 149U) << "the next time it works";
    ASSERT_TRUE(extend(second, counting_ids(50, 700)));
    EXPECT_TRUE(holds_its_text(first));
    EXPECT_TRUE(holds_its_text(second));
  }
  EXPECT_EQ(failures, 4U);
}

TEST(KvPoolFailure, OfAnyAllocationOfTheHostWhileEndsAreKeptAndCopiedMixesNothing) {
  bool happened = true;
  int64_t passed = 0;
  for (; happened; ++passed) {
    SCOPED_TRACE(passed);
    const KvLab lab(small_kv_shape({0, 100}));
    KvSequence first = text_of(lab, counting_ids(100)), second = lab.sequence();
    const std::vector<TokenId> ids = counting_ids(150);
    {
      const FailingAllocation failing(passed);
      first.clear(0);
      second.adopt(ids);
      happened = failing.happened();
    }
    EXPECT_TRUE(second.length() == 0 || second.length() == 64 || second.length() == 100) << second.length();
    EXPECT_TRUE(holds_its_text(second));
    ASSERT_TRUE(extend(second, std::span(ids).subspan(second.length())));
    EXPECT_TRUE(holds_its_text(second));
    EXPECT_EQ(lab.pool->counters().pages_in_use, 6U);
  }
  EXPECT_GT(passed, 5);
}

}  // namespace
}  // namespace ballast::testing
