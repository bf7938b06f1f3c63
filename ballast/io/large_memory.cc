#include "ballast/io/large_memory.h"

#include <sys/mman.h>

#include "ballast/base/checked.h"

namespace ballast {

namespace {

constexpr size_t kHugePage = size_t{2} << 20;
constexpr size_t kCacheLine = 64;

}  // namespace

LargeMemory make_large_memory(size_t size) {
  const size_t alignment = size >= 2 * kHugePage ? kHugePage : kCacheLine;
  const auto rounded = checked_align_up(size, alignment);
  if (!rounded) return nullptr;
  LargeMemory memory(static_cast<std::byte*>(std::aligned_alloc(alignment, static_cast<size_t>(*rounded))));
  // Advice: a system without huge pages has ordinary ones.
  if (memory != nullptr && alignment == kHugePage) static_cast<void>(madvise(memory.get(), *rounded, MADV_HUGEPAGE));
  return memory;
}

}  // namespace ballast
