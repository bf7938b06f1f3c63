#include "tests/support/memory_meter.h"

#include <malloc.h>

#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <fstream>
#include <new>
#include <string>

namespace {

std::atomic<int64_t> taken{0};
std::atomic<int64_t> most_taken{0};

std::atomic<int64_t> until_failure{-1};  // allocations; below 0: none fails

std::atomic<bool> fails_for_good{false};

bool fails_now() noexcept {
  if (until_failure.load() >= 0) return until_failure.fetch_sub(1) == 0;
  return fails_for_good.load();
}

void* count_taken(void* memory) noexcept {
  if (memory == nullptr) return nullptr;
  const int64_t now = taken += static_cast<int64_t>(malloc_usable_size(memory));
  int64_t most = most_taken;
  while (now > most && !most_taken.compare_exchange_weak(most, now)) {
  }
  return memory;
}

void* or_throw(void* memory) {
  if (memory == nullptr) throw std::bad_alloc();
  return memory;
}

}  // namespace

// Replacements of the global operators. The forms that do not throw must be replaced too: memory from them is given
// back through the plain delete.
void* operator new(std::size_t size, const std::nothrow_t&) noexcept {
  return fails_now() ? nullptr : count_taken(std::malloc(size == 0 ? 1 : size));
}
void* operator new(std::size_t size) { return or_throw(operator new(size, std::nothrow)); }

void* operator new(std::size_t size, std::align_val_t alignment, const std::nothrow_t&) noexcept {
  if (fails_now()) return nullptr;
  const auto unit = static_cast<std::size_t>(alignment);
  return count_taken(std::aligned_alloc(unit, (size + unit - 1) / unit * unit));
}
void* operator new(std::size_t size, std::align_val_t alignment) {
  return or_throw(operator new(size, alignment, std::nothrow));
}

void operator delete(void* memory) noexcept {
  if (memory != nullptr) taken -= static_cast<int64_t>(malloc_usable_size(memory));
  std::free(memory);
}

void operator delete(void* memory, std::size_t) noexcept { operator delete(memory); }
void operator delete(void* memory, const std::nothrow_t&) noexcept { operator delete(memory); }
void operator delete(void* memory, std::align_val_t) noexcept { operator delete(memory); }
void operator delete(void* memory, std::size_t, std::align_val_t) noexcept { operator delete(memory); }
void operator delete(void* memory, std::align_val_t, const std::nothrow_t&) noexcept { operator delete(memory); }

namespace ballast::testing {

MemoryMeter::MemoryMeter() : at_start_(taken) { most_taken = at_start_; }

uint64_t MemoryMeter::peak() const { return static_cast<uint64_t>(std::max<int64_t>(0, most_taken - at_start_)); }

FailingAllocation::FailingAllocation(int64_t passed, Until until) {
  until_failure = passed;
  fails_for_good = until == Until::kForGood;
}
FailingAllocation::~FailingAllocation() {
  fails_for_good = false;
  until_failure = -1;
}
bool FailingAllocation::happened() const { return until_failure < 0; }
int64_t FailingAllocation::left() const { return until_failure; }

int64_t count_allocations(const std::function<void()>& work) {
  constexpr int64_t kMany = int64_t{1} << 60;
  const FailingAllocation counter(kMany);
  work();
  return kMany - until_failure.load();
}

uint64_t take_process_peak() {
  uint64_t peak = 0;
  std::ifstream status("/proc/self/status");
  for (std::string word; status >> word;) {
    if (word == "VmHWM:") status >> peak;
  }
  std::ofstream reset("/proc/self/clear_refs");
  reset << "5" << std::flush;
  return reset ? peak * 1024 : 0;
}

}  // namespace ballast::testing
