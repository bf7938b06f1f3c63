// The tiles of AMX while they have shapes: what all kernels that use them begin with.
#pragma once

#include <cstdint>

namespace ballast::cpu {

// What the processor reads: of each of the tiles 0 to 7 the bytes of a row, and the rows.
struct alignas(64) TileShapes {
  uint8_t palette = 1, start = 0;
  uint8_t reserved[14] = {};
  uint16_t row_bytes[16] = {};
  uint8_t rows[16] = {};
};
static_assert(sizeof(TileShapes) == 64);

// Instructions are written out, because compilers know them only since lately, and gcc 12 may move the stores that a
// configuration is made of behind its use.
class TileUse {
 public:
  explicit TileUse(const TileShapes& shapes) { asm volatile("ldtilecfg %0" ::"m"(shapes)); }
  ~TileUse() { asm volatile("tilerelease" ::); }
  TileUse(const TileUse&) = delete;
  TileUse& operator=(const TileUse&) = delete;
};

}  // namespace ballast::cpu
