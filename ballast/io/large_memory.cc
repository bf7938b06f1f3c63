#include "ballast/io/large_memory.h"

#include <sys/mman.h>

#include <algorithm>
#include <cinttypes>
#include <cstdio>
#include <string_view>

#include "ballast/base/checked.h"

namespace ballast {

namespace {

constexpr size_t kHugePage = size_t{2} << 20;
constexpr size_t kCacheLine = 64;
constexpr size_t kSmallestPage = 4096;
constexpr const char* kGroups = "/sys/fs/cgroup";

// Calls `use` with each line until that returns true. A file that is not there has none.
template <typename Use>
void find_line(const std::string& path, Use&& use) {
  const std::unique_ptr<std::FILE, int (*)(std::FILE*)> file(std::fopen(path.c_str(), "re"), &std::fclose);
  char line[4096];
  while (file != nullptr && std::fgets(line, sizeof line, file.get()) != nullptr) {
    if (use(line)) return;
  }
}

// The number in the first line of this form.
std::optional<uint64_t> read_number(const std::string& path, const char* form) {
  std::optional<uint64_t> found;
  find_line(path, [&](const char* line) {
    uint64_t number = 0;
    if (std::sscanf(line, form, &number) == 1) found = number;
    return found.has_value();
  });
  return found;
}

// "" or "/of/the/service": where it stands below kGroups. Systems with several hierarchies of groups have no such line.
std::string group_of_process() {
  std::string group;
  find_line("/proc/self/cgroup", [&](std::string_view line) {
    if (!line.starts_with("0::/")) return false;
    group = line.substr(3, line.find_last_not_of('\n') - 2);
    return true;
  });
  return group == "/" ? "" : group;
}

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

std::optional<uint64_t> memory_left_to_group(const std::string& folder) {
  const auto most = read_number(folder + "/memory.max", "%" SCNu64);
  const auto used = read_number(folder + "/memory.current", "%" SCNu64);
  if (!most || !used) return std::nullopt;  // "max": as much as there is
  return *most - std::min(*most, *used);
}

std::optional<uint64_t> available_memory() {
  std::optional<uint64_t> least = read_number("/proc/meminfo", "MemAvailable: %" SCNu64);
  if (!least) return std::nullopt;
  *least <<= 10;
  // The limits of all groups that this one belongs to hold, too.
  for (std::string group = group_of_process();; group.resize(group.rfind('/'))) {
    if (const auto left = memory_left_to_group(kGroups + group)) least = std::min(*least, *left);
    if (group.empty()) return least;
  }
}

}  // namespace ballast
