#include "ballast/params/tile_plan.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <utility>

#include "ballast/base/checked.h"
#include "ballast/params/budget.h"
#include "ballast/params/buffer.h"

namespace ballast {

namespace {

constexpr uint64_t kLargestTile = 8 << 20;
// Where everything fits, tiles need only be small enough to be read while others are computed with.
constexpr uint64_t kLargestTileOfAll = 64 << 20;
// Kernels take several rows at a time; a rest of fewer rows costs them as much.
constexpr uint64_t kRowsAtOnce = 16;
constexpr uint64_t kMost = std::numeric_limits<uint64_t>::max();

uint64_t saturating_add(uint64_t a, uint64_t b) { return checked_add(a, b).value_or(kMost); }

// A vector is wanted whole (a bias, a scale), a matrix by tiles.
bool is_vector(const TensorInfo& info, const ParamRows& rows) { return info.shape.rank() <= 1 || rows.count <= 1; }

// A source that cannot read parts takes up to twice the payload for a moment.
uint64_t extra_of(const ParamSource& source, size_t index) {
  const uint64_t bytes = source.params()[index].byte_size;
  return source.reads_parts(index) ? 0 : checked_mul(bytes, 2).value_or(kMost);
}

struct Need {
  uint64_t bytes = 0;
  size_t param = 0;
};

// What computing with one parameter takes at once, other parameters aside: a tile in use and the next one.
uint64_t need_of(const ParamSource& source, size_t index) {
  const TensorInfo& info = source.params()[index];
  const ParamRows rows = param_rows(info);
  if (info.byte_size == 0) return 0;
  if (const uint64_t extra = extra_of(source, index); extra != 0) {
    return saturating_add(Buffer::capacity_for(info.byte_size), extra);
  }
  if (is_vector(info, rows)) return Buffer::capacity_for(info.byte_size);
  return checked_mul(Buffer::capacity_for(rows.bytes_each), 2).value_or(kMost);
}

struct Needs {
  Need most;            // of the parameter that needs most
  Need beside;          // of the vector that may be in use beside it
  uint64_t vector = 0;  // of the largest vector
  uint64_t total() const { return saturating_add(most.bytes, beside.bytes); }
};

Needs find_needs(const ParamSource& source) {
  Need matrix, vector, second_vector;
  const auto params = source.params();
  for (size_t i = 0; i < params.size(); ++i) {
    const Need need{need_of(source, i), i};
    if (!is_vector(params[i], param_rows(params[i]))) {
      if (need.bytes > matrix.bytes) matrix = need;
    } else if (need.bytes > vector.bytes) {
      second_vector = std::exchange(vector, need);
    } else if (need.bytes > second_vector.bytes) {
      second_vector = need;
    }
  }
  if (matrix.bytes > second_vector.bytes) return {matrix, vector, vector.bytes};
  return {vector, second_vector, vector.bytes};
}

Error too_small(const ParamSource& source, const Needs& needs, uint64_t budget) {
  const auto params = source.params();
  std::string beside;
  if (needs.beside.bytes != 0) {
    beside = fmt::format(" beside {} of \"{}\"", needs.beside.bytes, params[needs.beside.param].name);
  }
  return make_error(ErrorCode::kInvalidArgument,
                    fmt::format("{}: a budget of {} bytes for parameters is too small: \"{}\" {} needs {} bytes at "
                                "once{}; the smallest budget that works is {} bytes",
                                source.name(), budget, params[needs.most.param].name,
                                params[needs.most.param].shape.to_string(), needs.most.bytes, beside, needs.total()));
}

// The most rows of a tile, at most `fit`, of which whole tiles make one matrix of a stack; 0: only small ones would.
uint64_t rows_of_one(uint64_t matrix_rows, uint64_t fit) {
  for (uint64_t tiles = (matrix_rows - 1) / fit + 1; matrix_rows / tiles >= std::min(kRowsAtOnce, matrix_rows);
       ++tiles) {
    if (matrix_rows % tiles == 0) return matrix_rows / tiles;
  }
  return 0;
}

TiledParam tile_param(const ParamSource& source, size_t index, uint64_t tile_bytes) {
  const TensorInfo& info = source.params()[index];
  TiledParam param{.rows = param_rows(info), .bytes = info.byte_size, .read_extra = extra_of(source, index)};
  param.tile_rows = std::max<uint64_t>(param.rows.count, 1);
  if (param.read_extra != 0 || param.bytes == 0 || is_vector(info, param.rows)) return param;
  const uint64_t fit = std::max<uint64_t>(tile_bytes / param.rows.bytes_each, 1);
  const uint64_t tiles = (param.rows.count - 1) / fit + 1;
  param.tile_rows = (param.rows.count - 1) / tiles + 1;  // about the same for all, instead of a small rest
  if (info.shape.rank() == 3 && info.shape[1] != 0) {
    param.stack_rows = info.shape[1];
    if (const uint64_t whole = rows_of_one(param.stack_rows, fit); whole != 0) param.tile_rows = whole;
    return param;
  }
  if (tiles > 1 && fit >= kRowsAtOnce) {
    const uint64_t rounded = checked_align_up(param.tile_rows, kRowsAtOnce).value_or(kMost);
    param.tile_rows = rounded <= fit ? rounded : param.tile_rows - param.tile_rows % kRowsAtOnce;
  }
  return param;
}

uint64_t capacity_of_all(const TiledParam& param) {
  const uint64_t tiles = param.tile_count();
  if (tiles == 0) return 0;
  const uint64_t last = (param.rows.count - param.tile_begin(tiles - 1)) * param.rows.bytes_each;
  const auto others = checked_mul(Buffer::capacity_for(param.tile_rows * param.rows.bytes_each), tiles - 1);
  return saturating_add(others.value_or(kMost), Buffer::capacity_for(last));
}

// In the order of the source, as long as half of the budget and the working set are left for what comes and goes.
void choose_what_stays(const ParamSource& source, const ResidencyOptions& options, TilePlan& plan) {
  const uint64_t most = std::min(plan.budget / 2, plan.budget - plan.working_set);
  const auto params = source.params();
  for (size_t i = 0; i < params.size(); ++i) {
    TiledParam& param = plan.params[i];
    if (param.bytes > options.keep_below && !(options.keep && options.keep(params[i].name))) continue;
    const uint64_t bytes = capacity_of_all(param);
    if (bytes > most - plan.staying) continue;
    param.stays = true;
    plan.staying += bytes;
  }
}

}  // namespace

ParamRows param_rows(const TensorInfo& info) {
  if (info.shape.rank() == 0 || !has_fixed_size(info.dtype)) return {1, info.byte_size};
  // A stack of matrices has the rows of all of them, so that one of them can be had in tiles.
  const bool is_stack = info.shape.rank() == 3;
  const uint64_t count = is_stack ? checked_mul(info.shape[0], info.shape[1]).value_or(0) : info.shape[0];
  if (count == 0) return {0, 0};
  if (info.byte_size % count != 0) return {1, info.byte_size};  // rows that end inside a byte
  return {count, info.byte_size / count};
}

uint64_t TiledParam::tile_end(uint64_t tile) const {
  return tile_rows > rows.count - tile_begin(tile) ? rows.count : tile_begin(tile) + tile_rows;
}

uint64_t smallest_budget(const ParamSource& source) { return find_needs(source).total(); }

Result<TilePlan> plan_tiles(const ParamSource& source, const ResidencyOptions& options, uint64_t budget) {
  const Needs needs = find_needs(source);
  if (budget < needs.total()) return too_small(source, needs, budget);
  TilePlan plan;
  plan.budget = budget;
  plan.working_set = needs.total();
  uint64_t total = 0;
  for (const TensorInfo& info : source.params()) total = saturating_add(total, Buffer::capacity_for(info.byte_size));
  const uint64_t largest = total <= budget ? kLargestTileOfAll : kLargestTile;
  const uint64_t tile_bytes = Buffer::bytes_within(std::min({largest, budget / 8, (budget - needs.vector) / 2}));
  plan.params.reserve(source.params().size());
  for (size_t i = 0; i < source.params().size(); ++i) {
    const TiledParam& param = plan.params.emplace_back(tile_param(source, i, tile_bytes));
    if (param.bytes == 0 || param.read_extra != 0 || is_vector(source.params()[i], param.rows)) continue;
    const uint64_t tile = Buffer::capacity_for(param.tile_rows * param.rows.bytes_each);
    plan.working_set = std::max(plan.working_set, 2 * tile + needs.vector);
  }
  choose_what_stays(source, options, plan);
  return plan;
}

}  // namespace ballast
