#include "ballast/io/large_memory.h"

#include <sys/mman.h>

#include <cinttypes>
#include <cstdio>

#include "ballast/base/checked.h"

namespace ballast {

namespace {

constexpr size_t kHugePage = size_t{2} << 20;
constexpr size_t kCacheLine = 64;
constexpr size_t kSmallestPage = 4096;

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

void touch_pages(MutableByteSpan memory) {
  volatile std::byte* const bytes = memory.data();
  for (size_t at = 0; at < memory.size(); at += kSmallestPage) bytes[at] = std::byte{0};
}

std::optional<uint64_t> available_memory() {
  const std::unique_ptr<std::FILE, int (*)(std::FILE*)> file(std::fopen("/proc/meminfo", "re"), &std::fclose);
  if (file == nullptr) return std::nullopt;
  char line[128];
  while (std::fgets(line, sizeof line, file.get()) != nullptr) {
    uint64_t kibibytes = 0;
    if (std::sscanf(line, "MemAvailable: %" SCNu64 " kB", &kibibytes) == 1) return kibibytes << 10;
  }
  return std::nullopt;
}

}  // namespace ballast
