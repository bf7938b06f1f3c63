// How much memory a piece of work takes at its peak, beyond what was taken when it began.
//
// Counts what goes through operator new, in all threads; one meter at a time.
#pragma once

#include <cstdint>
#include <functional>

namespace ballast::testing {

class MemoryMeter {
 public:
  MemoryMeter();  // starts counting anew
  uint64_t peak() const;

 private:
  int64_t at_start_;
};

// While it lives, the allocation through operator new that comes after `passed` others fails: it alone, or all from
// there on.
class FailingAllocation {
 public:
  enum class Until : uint8_t { kOnce, kForGood };
  explicit FailingAllocation(int64_t passed, Until until = Until::kOnce);
  ~FailingAllocation();
  FailingAllocation(const FailingAllocation&) = delete;
  FailingAllocation& operator=(const FailingAllocation&) = delete;
  bool happened() const;
  int64_t left() const;  // allocations until then
};

// Allocations through operator new that `work` makes.
int64_t count_allocations(const std::function<void()>& work);

// The most memory that this process had since the last call, in bytes, whatever it came from. 0 where the system does
// not tell.
uint64_t take_process_peak();

}  // namespace ballast::testing
