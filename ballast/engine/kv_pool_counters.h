// What the memory for the past of many sequences (engine/kv_pool.h) has done and holds.
#pragma once

#include <cstdint>

namespace ballast {

struct KvPoolCounters {
  uint64_t pages_in_use = 0;     // by sequences; a shared page counts once
  uint64_t pages_kept = 0;       // by nobody, for texts to come
  uint64_t kept_bytes = 0;       // of those
  uint64_t bytes = 0;            // in use or kept
  uint64_t most_bytes = 0;       // 0: no limit
  uint64_t peak_bytes = 0;       // taken from the device at once
  uint64_t positions_found = 0;  // that sequences took over instead of computing them
  uint64_t pages_copied = 0;     // because others have them too, or may want them again
  uint64_t pages_evicted = 0;
};

}  // namespace ballast
