// Memory for buffers of many megabytes that are filled once and used again.
#pragma once

#include <cstddef>
#include <cstdlib>
#include <memory>

namespace ballast {

struct FreeLargeMemory {
  void operator()(std::byte* memory) const { std::free(memory); }
};
using LargeMemory = std::unique_ptr<std::byte[], FreeLargeMemory>;

// Not initialised, at least aligned to a line of the cache; null where there is none. From 4 MiB on the system is asked
// for huge pages: filling fresh memory then takes a fraction of the page faults, which cost more than the copy itself.
LargeMemory make_large_memory(size_t size);

}  // namespace ballast
