// Work that runs out of memory at any of its allocations.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>

#include "ballast/base/result.h"
#include "tests/support/memory_meter.h"

namespace ballast::testing {

// Calls `visit` with places where an allocation of `work` may fail: all of them, or `most` that are spread over them.
template <typename Work, typename Visit>
void for_each_allocation(const Work& work, int64_t most, const Visit& visit) {
  const int64_t allocations = count_allocations([&] { static_cast<void>(work()); });
  ASSERT_GT(allocations, 0);
  const int64_t stride = std::max<int64_t>(1, allocations / most);
  for (int64_t passed = 0; passed < allocations; passed += stride) {
    visit(passed);
    if (::testing::Test::HasFatalFailure()) return;
  }
}

// An allocation of `work` fails, and it alone or all after it: what comes back is kOutOfMemory, or the work did
// without. Never an exception.
template <typename Work>
void expect_no_escape(const Work& work, int64_t most = 500) {
  const Status undisturbed = work();  // also fills what is kept from call to call
  ASSERT_TRUE(undisturbed) << undisturbed.error().message;
  for (const auto until : {FailingAllocation::Until::kOnce, FailingAllocation::Until::kForGood}) {
    for_each_allocation(work, most, [&](int64_t passed) {
      const Status status = [&] {
        const FailingAllocation failing(passed, until);
        return work();
      }();
      if (status) return;
      ASSERT_EQ(status.error().code, ErrorCode::kOutOfMemory) << passed << ": " << status.error().message;
    });
  }
  const Status after = work();
  EXPECT_TRUE(after) << after.error().message;
}

// Calls of which one runs out of memory: the one that makes the allocation after `passed` others. What the test itself
// allocates between calls does not count and does not fail.
class FailingCalls {
 public:
  explicit FailingCalls(int64_t passed = int64_t{1} << 60) : left_(passed) {}

  template <typename Ask>
  auto operator()(const Ask& ask) {
    if (has_failed_) return ask();
    const FailingAllocation failing(left_);
    auto got = ask();
    has_failed_ = failing.happened();
    left_ = failing.left();
    return got;
  }
  // Asks again where there was no memory.
  template <typename Ask>
  auto insist(const Ask& ask) {
    auto got = (*this)(ask);
    if (!got && got.error().code == ErrorCode::kOutOfMemory) got = ask();
    EXPECT_TRUE(got) << got.error().message;
    return got;
  }
  int64_t left() const { return left_; }

 private:
  int64_t left_;
  bool has_failed_ = false;
};

// Calls `run` with FailingCalls that fail at allocations of its calls: at all of them, or at `most`.
template <typename Run>
void for_each_failing_call(const Run& run, int64_t most) {
  FailingCalls counted;
  run(counted);
  const int64_t allocations = (int64_t{1} << 60) - counted.left();
  ASSERT_GT(allocations, 0);
  for (int64_t passed = 0; passed < allocations; passed += std::max<int64_t>(1, allocations / most)) {
    SCOPED_TRACE(passed);
    FailingCalls calls(passed);
    run(calls);
    if (::testing::Test::HasFailure()) return;
  }
}

}  // namespace ballast::testing
