// How parameters are cut into tiles of rows, so that a budget holds.
#pragma once

#include <cstdint>
#include <vector>

#include "ballast/params/param_store.h"

namespace ballast {

// Rows of a parameter: of its first dimension, of a stack of matrices (three dimensions) those of all of them, or one
// where it cannot be cut (a scalar, a packing of its own).
struct ParamRows {
  uint64_t count = 1;
  uint64_t bytes_each = 0;
};
ParamRows param_rows(const TensorInfo& info);

struct TiledParam {
  ParamRows rows;
  uint64_t bytes = 0;
  uint64_t tile_rows = 1;   // of every tile but the last
  uint64_t stack_rows = 0;  // of one matrix of a stack; 0: no stack
  uint64_t read_extra = 0;  // memory that the source takes for itself while it reads a tile
  bool stays = false;       // once it was read

  uint64_t tile_count() const { return bytes == 0 ? 0 : (rows.count - 1) / tile_rows + 1; }
  uint64_t tile_begin(uint64_t tile) const { return tile * tile_rows; }
  uint64_t tile_end(uint64_t tile) const;
  // Of a stack, the matrix that the tile begins in: what follows in another one is not likely to be wanted next.
  uint64_t matrix_of(uint64_t tile) const { return stack_rows == 0 ? 0 : tile_begin(tile) / stack_rows; }
};

struct TilePlan {
  std::vector<TiledParam> params;
  uint64_t budget = 0;
  // What computing needs at once, whatever it computes: two tiles and a vector. Nothing that stays takes this room.
  uint64_t working_set = 0;
  uint64_t staying = 0;  // bytes of all that stay, once they were read
};

// kInvalidArgument when the budget is too small, with the parameter and the smallest budget that works.
Result<TilePlan> plan_tiles(const ParamSource& source, const ResidencyOptions& options, uint64_t budget);

}  // namespace ballast
