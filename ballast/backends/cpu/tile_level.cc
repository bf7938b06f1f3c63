#include "ballast/backends/cpu/tile_level.h"

#include <atomic>

#include "ballast/io/processor.h"

namespace ballast::cpu {

namespace {
std::atomic<bool> tiles_allowed{true};
}  // namespace

bool machine_has_tiles() {
  static const bool has = may_use_tiles();
  return has;
}

bool level_has_tiles() { return machine_has_tiles() && tiles_allowed.load(std::memory_order_relaxed); }

void use_tiles(bool allowed) { tiles_allowed = allowed; }

}  // namespace ballast::cpu
