// How much memory a piece of work takes at its peak, beyond what was taken when it began.
//
// Counts what goes through operator new, in all threads; one meter at a time.
#pragma once

#include <cstdint>

namespace ballast::testing {

class MemoryMeter {
 public:
  MemoryMeter();  // starts counting anew
  uint64_t peak() const;

 private:
  int64_t at_start_;
};

// While it lives, the allocation through operator new that comes after `passed` others fails, once.
class FailingAllocation {
 public:
  explicit FailingAllocation(int64_t passed);
  ~FailingAllocation();
  FailingAllocation(const FailingAllocation&) = delete;
  FailingAllocation& operator=(const FailingAllocation&) = delete;
  bool happened() const;
};

// The most memory that this process had since the last call, in bytes, whatever it came from. 0 where the system does
// not tell.
uint64_t take_process_peak();

}  // namespace ballast::testing
