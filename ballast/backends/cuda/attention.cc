#include "ballast/ops/attention.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <vector>

#include "ballast/backends/cuda/families.h"
#include "ballast/backends/cuda/kernels/arguments.h"
#include "ballast/backends/cuda/weight_access.h"

namespace ballast::cuda {

namespace {

using namespace ops;  // NOLINT: implementations speak of functionals and little else

static_assert(kChunkPositions == kPagePositions, "a chunk is a page");

constexpr uint32_t kMostOfGridSide = 65'535, kMostOfGridWidth = 0x7FFFFFFF;
constexpr uint64_t kMostPartialBytes = 256 << 20;

// ---------------------------------------------------------------- how the work is divided

// Queries whose keys are the same, and how they are divided.
struct Plan {
  Attention kernel{};
  std::vector<AttentionPart> parts;
  std::vector<DeviceAddress> pages;
  uint64_t tiles = 0;
  uint64_t chunks = 0;     // of the part that has the most
  uint64_t most_rows = 0;  // of a part
  uint64_t warps = 0;      // of a block that goes from chunk to chunk; 0: a block has one chunk
};

Plan make_plan(const AttentionConfig& config, const Tensor& qkv, const Tensor& out) {
  Plan plan;
  plan.kernel.qkv = address_of(device_address(qkv));
  plan.kernel.out = address_of(device_address(out));
  plan.kernel.rows = qkv.dims()[0];
  plan.kernel.width = qkv.dims()[1];
  plan.kernel.q_heads = config.q_heads;
  plan.kernel.kv_heads = config.kv_heads;
  plan.kernel.head_dim = config.head_dim;
  plan.kernel.window = config.window;
  plan.kernel.is_causal = static_cast<uint32_t>(config.causal);
  plan.kernel.scale = score_scale<float>(config);
  plan.kernel.soft_cap = config.soft_cap;
  return plan;
}

// The first position that queries from `position` on see.
uint64_t oldest_of(uint64_t window, uint64_t position) {
  return window == 0 || position < window ? 0 : position + 1 - window;
}

void add_part(Plan& plan, const AttentionPart& part) {
  if (part.rows == 0) return;
  const uint64_t first = oldest_of(plan.kernel.window, part.position) / kChunkPositions;
  const uint64_t last = (part.position + part.rows - 1) / kChunkPositions;
  plan.chunks = std::max(plan.chunks, last - first + 1);
  plan.most_rows = std::max(plan.most_rows, part.rows);
  plan.parts.push_back(part);
}

// For blocks of so many queries. Of the query heads that share keys, a block takes a divisor, so that blocks are alike.
void divide_parts(Plan& plan, uint64_t queries) {
  const uint64_t group = plan.kernel.q_heads / plan.kernel.kv_heads;
  uint64_t heads = std::min(group, queries);
  while (group % heads != 0) --heads;
  const uint64_t rows_of_tile = queries / heads;
  plan.kernel.heads_of_tile = static_cast<uint32_t>(heads);
  plan.kernel.rows_of_tile = static_cast<uint32_t>(rows_of_tile);
  plan.tiles = 0;
  for (AttentionPart& part : plan.parts) {
    part.first_tile = static_cast<uint32_t>(plan.tiles);
    plan.tiles += (part.rows + rows_of_tile - 1) / rows_of_tile;
  }
}
uint64_t tiles_of_heads(const Plan& plan) { return plan.kernel.q_heads / plan.kernel.heads_of_tile; }

uint64_t blocks_of_queries(const Plan& plan) { return plan.tiles * tiles_of_heads(plan); }

uint64_t bytes_of_block(const Attention& kernel, uint64_t queries) {
  return attention_bytes(queries, attention_width(kernel.head_dim), kernel.is_half != 0);
}
uint64_t partial_bytes(const Plan& plan) {
  return plan.kernel.rows * plan.kernel.q_heads * plan.chunks * (plan.kernel.head_dim + 2) * sizeof(float);
}

// Blocks of many queries that go from chunk to chunk, or blocks of few with a chunk each, where there are few queries
// or else most of the device were idle. The bits are the same.
void divide_queries(const Context& context, Plan& plan) {
  const uint64_t queries = plan.most_rows * (plan.kernel.q_heads / plan.kernel.kv_heads);
  divide_parts(plan, kQueriesOfTile);
  const bool has_few =
      queries <= kQueriesOfTile || 2 * blocks_of_queries(plan) < uint64_t{3} * facts(context).multiprocessors;
  if (has_few && plan.chunks <= kMostOfGridSide && partial_bytes(plan) <= kMostPartialBytes) return;
  plan.warps = std::min(kAttentionWarps, (queries + kQueriesOfTile - 1) / kQueriesOfTile);
  while (plan.warps > 1 && bytes_of_block(plan.kernel, plan.warps * kQueriesOfTile) > facts(context).shared_bytes) {
    --plan.warps;
  }
  divide_parts(plan, plan.warps * kQueriesOfTile);
}

// ---------------------------------------------------------------- launching

// Tables that are too long for a launch, and what kernels leave each other; they must live until all launches are made.
struct Tables {
  Tensor parts, pages, partial;
};

Result<Tables> place_tables(Context& context, Plan& plan) {
  Attention& kernel = plan.kernel;
  Tables tables;
  kernel.part_count = static_cast<uint32_t>(plan.parts.size());
  if (plan.parts.size() <= Attention::kParts) {
    std::ranges::copy(plan.parts, kernel.few_parts);
  } else {
    BALLAST_TRY(tables.parts, upload(context, std::span<const AttentionPart>(plan.parts)));
    kernel.parts = address_of(device_address(tables.parts));
  }
  if (plan.pages.size() <= Attention::kPages) {
    std::ranges::copy(plan.pages, kernel.few_pages);
  } else {
    BALLAST_TRY(tables.pages, upload(context, std::span<const DeviceAddress>(plan.pages)));
    kernel.pages = address_of(device_address(tables.pages));
  }
  return tables;
}

// Of heads of up to 64, 128 and 256 channels.
using KernelsOfWidths = std::array<Kernel, 3>;
Kernel kernel_of_width(const Attention& kernel, const KernelsOfWidths& f32, const KernelsOfWidths& f16) {
  const uint64_t width = attention_width(kernel.head_dim);
  return (kernel.is_half != 0 ? f16 : f32)[width == 64 ? 0 : width == 128 ? 1 : 2];
}

Status launch_query_tiles(Context& context, const Plan& plan) {
  const Kernel kernel = kernel_of_width(
      plan.kernel, {Kernel::attention_tiles_f32_64, Kernel::attention_tiles_f32_128, Kernel::attention_tiles_f32_256},
      {Kernel::attention_tiles_f16_64, Kernel::attention_tiles_f16_128, Kernel::attention_tiles_f16_256});
  const uint64_t bytes = bytes_of_block(plan.kernel, plan.warps * kQueriesOfTile);
  return launch(context, kernel,
                {.grid = {static_cast<uint32_t>(plan.tiles), 1, static_cast<uint32_t>(tiles_of_heads(plan))},
                 .block = {static_cast<uint32_t>(32 * plan.warps)},
                 .shared_bytes = static_cast<uint32_t>(bytes)},
                plan.kernel);
}

Status launch_chunk_blocks(Context& context, Plan& plan, Tables& tables) {
  const Kernel kernel = kernel_of_width(
      plan.kernel,
      {Kernel::attention_chunks_f32_64, Kernel::attention_chunks_f32_128, Kernel::attention_chunks_f32_256},
      {Kernel::attention_chunks_f16_64, Kernel::attention_chunks_f16_128, Kernel::attention_chunks_f16_256});
  // Where many blocks wait for their turn, half as many warps do the same for f16 with fewer instructions.
  const bool has_many = blocks_of_queries(plan) * plan.chunks > uint64_t{4} * facts(context).multiprocessors;
  const uint64_t warps = plan.kernel.is_half != 0 && has_many ? kAttentionWarps / 2 : kAttentionWarps;
  const Grid grid{.grid = {static_cast<uint32_t>(plan.tiles), static_cast<uint32_t>(plan.chunks),
                           static_cast<uint32_t>(tiles_of_heads(plan))},
                  .block = {static_cast<uint32_t>(32 * warps)},
                  .shared_bytes = static_cast<uint32_t>(bytes_of_block(plan.kernel, kQueriesOfTile) + kChunkBytes)};
  if (plan.chunks == 1) return launch(context, kernel, grid, plan.kernel);
  plan.kernel.chunks = grid.grid.y;
  const uint64_t outputs = plan.kernel.rows * plan.kernel.q_heads;
  BALLAST_TRY(tables.partial, context.workspace().make({partial_bytes(plan) / sizeof(float)}));
  plan.kernel.partial = address_of(device_address(tables.partial));
  BALLAST_CHECK(launch(context, kernel, grid, plan.kernel));
  const auto threads = static_cast<uint32_t>((plan.kernel.head_dim + 31) / 32 * 32);
  return launch(context, Kernel::attention_merge, {.grid = {blocks_for(outputs, 1)}, .block = {threads}}, plan.kernel);
}

Status launch_attention(Context& context, Plan& plan, Tables& tables) {
  return plan.warps == 0 ? launch_chunk_blocks(context, plan, tables) : launch_query_tiles(context, plan);
}

bool fits(const Context& context, const AttentionConfig& config, const Tensor& qkv) {
  if (!is_f32(qkv) || config.head_dim > kMostHeadDim || config.q_heads > kMostOfGridSide) return false;
  const uint64_t bytes = attention_bytes(kQueriesOfTile, attention_width(config.head_dim), false) + kChunkBytes;
  return qkv.dims()[0] + config.sequences <= kMostOfGridWidth && bytes <= facts(context).shared_bytes;
}

// ---------------------------------------------------------------- without a past

bool supports_attention(const Context& context, const AttentionArgs& args) {
  return fits(context, args.config, args.qkv) && context.product_dtype == DType::kF32;
}

Result<Tensor> run_attention(Context& context, const AttentionArgs& args) {
  const AttentionConfig& config = args.config;
  const uint64_t rows = args.qkv.dims()[0], length = rows / config.sequences;
  BALLAST_TRY(Tensor out, context.workspace().make({rows, config.q_width()}, args.qkv.dtype()));
  if (out.count() == 0) return out;
  Plan plan = make_plan(config, args.qkv, out);
  for (uint64_t i = 0; i < config.sequences; ++i) add_part(plan, {.row = i * length, .rows = length});
  divide_queries(context, plan);
  BALLAST_TRY(Tables tables, place_tables(context, plan));
  BALLAST_CHECK(launch_attention(context, plan, tables));
  return out;
}

// ---------------------------------------------------------------- with a past

bool supports_decode(const Context& context, const AttentionDecodeCacheArgs& args) {
  const DType dtype = args.layout().shape().dtype;
  const auto is_near = [](const KvRows& part) { return part.position + part.rows <= kMostOfGridWidth; };
  return fits(context, args.config, args.qkv) && std::ranges::all_of(args.parts, is_near) &&
         (dtype == DType::kF32 || dtype == DType::kF16);
}

void add_pages(Plan& plan, std::span<const KvPage> pages, const KvRows& rows) {
  const uint64_t count = kv_pages_for(rows.position + rows.rows);
  for (uint64_t i = 0; i < count; ++i) {
    plan.pages.push_back(pages[i] != nullptr ? address_of(device_address(*pages[i])) : 0);
  }
}

// Keys and values of the rows go into their pages. With `turn` they are turned on the way, and so are the queries,
// which attention then finds in `queries`.
Status store_rows(Context& context, Plan& plan, const TurnOptions* turn, Tensor& queries) {
  Attention& kernel = plan.kernel;
  if (turn == nullptr) {
    return launch(context, Kernel::store_past, grid_over(kernel.rows * 2 * kernel.kv_heads * kernel.head_dim), kernel);
  }
  const uint64_t q_width = kernel.q_heads * kernel.head_dim;
  BALLAST_TRY(queries, context.workspace().make({kernel.rows, q_width}));
  const Turning turning{.cosines = address_of(device_address(turn->rope->cosines)),
                        .sines = address_of(device_address(turn->rope->sines)),
                        .queries = address_of(device_address(queries)),
                        .half = turn->rope->cosines.dims()[1],
                        .in_pairs = static_cast<uint32_t>(turn->rope->layout == RopeLayout::kPairs),
                        .from_pairs = static_cast<uint32_t>(turn->from_pairs)};
  const Grid grid{.grid = {static_cast<uint32_t>(kernel.rows), blocks_for(kernel.width, 256)}, .block = {256}};
  BALLAST_CHECK(launch(context, Kernel::turn_and_store, grid, kernel, turning));
  kernel.qkv = turning.queries;
  kernel.width = q_width;
  return {};
}

Result<Tensor> decode(Context& context, const AttentionDecodeCacheArgs& args, const TurnOptions* turn) {
  BALLAST_TRY(Tensor out, context.workspace().make({args.qkv.dims()[0], args.config.q_width()}, args.qkv.dtype()));
  if (out.count() == 0) return out;
  Plan plan = make_plan(args.config, args.qkv, out);
  plan.kernel.is_paged = 1;
  plan.kernel.is_half = static_cast<uint32_t>(args.layout().shape().dtype == DType::kF16);
  plan.kernel.keys_offset = args.layout().keys_offset(args.layer);
  plan.kernel.values_offset = args.layout().values_offset(args.layer);
  uint64_t row = 0;
  for (const KvRows& part : args.parts) {
    const auto first_page = static_cast<uint32_t>(plan.pages.size());
    if (part.rows != 0) add_pages(plan, args.pages(part), part);
    add_part(plan, {.row = row, .position = part.position, .rows = part.rows, .first_page = first_page});
    row += part.rows;
  }
  divide_queries(context, plan);
  BALLAST_TRY(Tables tables, place_tables(context, plan));
  Tensor queries;
  BALLAST_CHECK(store_rows(context, plan, turn, queries));
  BALLAST_CHECK(launch_attention(context, plan, tables));
  return out;
}

Result<Tensor> run_decode(Context& context, const AttentionDecodeCacheArgs& args) {
  return decode(context, args, nullptr);
}

Result<Tensor> run_decode_turned(Context& context, const AttentionDecodeTurnedArgs& args) {
  const bool is_one = args.turn.rope != nullptr && is_f32(args.turn.rope->cosines) &&
                      args.attention.qkv.dims()[1] <= uint64_t{kMostOfGridSide} * 256;
  if (!is_one || !supports_decode(context, args.attention)) return args.run_in_steps(context);
  return decode(context, args.attention, &args.turn);
}

}  // namespace

void add_attention(Registry& registry) {
  add_functional<AttentionArgs, run_attention, supports_attention>(registry);
  add_functional<AttentionDecodeCacheArgs, run_decode, supports_decode>(registry);
  add_functional<AttentionDecodeTurnedArgs, run_decode_turned>(registry);
}

}  // namespace ballast::cuda
