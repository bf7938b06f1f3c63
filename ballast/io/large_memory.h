// Memory for buffers of many megabytes that are filled once and used again.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <memory>
#include <optional>
#include <string>

#include "ballast/base/bytes.h"

namespace ballast {

struct FreeLargeMemory {
  void operator()(std::byte* memory) const { std::free(memory); }
};
using LargeMemory = std::unique_ptr<std::byte[], FreeLargeMemory>;

// Not initialised, at least aligned to a line of the cache; null where there is none. From 4 MiB on the system is asked
// for huge pages: filling fresh memory then takes a fraction of the page faults, which cost more than the copy itself.
LargeMemory make_large_memory(size_t size);

// Has the system give fresh memory now and not when it is first written to, which takes several times as long as
// writing to it again. What the memory held is lost.
void touch_pages(MutableByteSpan memory);

// Bytes that the system could still give to this process without swapping, and without reaching the limit of the group
// of processes (a container, a service) it belongs to; none where the system does not say.
std::optional<uint64_t> available_memory();
// What its limit leaves to a group, of whose files (memory.max, memory.current) this is the folder; none: no limit.
std::optional<uint64_t> memory_left_to_group(const std::string& folder);

}  // namespace ballast
