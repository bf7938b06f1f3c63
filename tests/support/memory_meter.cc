#include "tests/support/memory_meter.h"

#include <malloc.h>

#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <new>

namespace {

std::atomic<int64_t> taken{0};
std::atomic<int64_t> most_taken{0};

}  // namespace

// Replacements of the global operators. The forms that do not throw must be replaced too: memory from them is given
// back through the plain delete.
void* operator new(std::size_t size, const std::nothrow_t&) noexcept {
  void* memory = std::malloc(size == 0 ? 1 : size);
  if (memory == nullptr) return nullptr;
  const int64_t now = taken += static_cast<int64_t>(malloc_usable_size(memory));
  int64_t most = most_taken;
  while (now > most && !most_taken.compare_exchange_weak(most, now)) {
  }
  return memory;
}

void* operator new(std::size_t size) {
  void* memory = operator new(size, std::nothrow);
  if (memory == nullptr) throw std::bad_alloc();
  return memory;
}

void operator delete(void* memory) noexcept {
  if (memory != nullptr) taken -= static_cast<int64_t>(malloc_usable_size(memory));
  std::free(memory);
}

void operator delete(void* memory, std::size_t) noexcept { operator delete(memory); }
void operator delete(void* memory, const std::nothrow_t&) noexcept { operator delete(memory); }

namespace ballast::testing {

MemoryMeter::MemoryMeter() : at_start_(taken) { most_taken = at_start_; }

uint64_t MemoryMeter::peak() const { return static_cast<uint64_t>(std::max<int64_t>(0, most_taken - at_start_)); }

}  // namespace ballast::testing
