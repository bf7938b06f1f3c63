#include "ballast/ops/attention.h"

#include <algorithm>
#include <cmath>
#include <vector>

#include "ballast/backends/cuda/families.h"
#include "ballast/backends/cuda/kernels/arguments.h"
#include "ballast/backends/cuda/weight_access.h"

namespace ballast::cuda {

namespace {

using namespace ops;  // NOLINT: implementations speak of functionals and little else

static_assert(kChunkPositions == kPagePositions, "a chunk is a page");

constexpr uint64_t kMostHeadDim = 256;
constexpr uint32_t kAttentionThreads = 256, kMostOfGridSide = 65'535, kMostOfGridWidth = 0x7FFFFFFF;

// ---------------------------------------------------------------- how the work is divided

// Queries whose keys are the same, and how many chunks there are.
struct Plan {
  Attention kernel{};
  std::vector<AttentionPart> parts;
  std::vector<DeviceAddress> pages;
  uint64_t tiles = 0, chunks = 0;  // of the part that has the most
};

// Of the query heads that share keys, as many as a block takes: a divisor, so that blocks are alike.
uint32_t heads_of_tile(uint64_t group, uint64_t most) {
  uint64_t heads = std::min(group, most);
  while (group % heads != 0) --heads;
  return static_cast<uint32_t>(heads);
}

Plan make_plan(const AttentionConfig& config, const Tensor& qkv, const Tensor& out) {
  Plan plan;
  const uint64_t most = config.head_dim > 128 ? 8 : 16;
  const uint32_t heads = heads_of_tile(config.q_heads / config.kv_heads, most);
  plan.kernel.qkv = address_of(device_address(qkv));
  plan.kernel.out = address_of(device_address(out));
  plan.kernel.rows = qkv.dims()[0];
  plan.kernel.width = qkv.dims()[1];
  plan.kernel.q_heads = config.q_heads;
  plan.kernel.kv_heads = config.kv_heads;
  plan.kernel.head_dim = config.head_dim;
  plan.kernel.window = config.window;
  plan.kernel.heads_of_tile = heads;
  plan.kernel.rows_of_tile = static_cast<uint32_t>(most / heads);
  plan.kernel.is_causal = static_cast<uint32_t>(config.causal);
  plan.kernel.scale = score_scale<float>(config);
  plan.kernel.soft_cap = config.soft_cap;
  return plan;
}

// The first position that queries from `position` on see.
uint64_t oldest_of(uint64_t window, uint64_t position) {
  return window == 0 || position < window ? 0 : position + 1 - window;
}

void add_part(Plan& plan, AttentionPart part) {
  if (part.rows == 0) return;
  const uint64_t rows_of_tile = plan.kernel.rows_of_tile;
  const uint64_t first = oldest_of(plan.kernel.window, part.position) / kChunkPositions;
  const uint64_t last = (part.position + part.rows - 1) / kChunkPositions;
  part.first_tile = static_cast<uint32_t>(plan.tiles);
  plan.tiles += (part.rows + rows_of_tile - 1) / rows_of_tile;
  plan.chunks = std::max(plan.chunks, last - first + 1);
  plan.parts.push_back(part);
}

// ---------------------------------------------------------------- launching

// Tables that are too long for a launch; they must live until all launches are made.
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

Kernel attention_kernel(const Attention& kernel) {
  const bool in_fours = kernel.head_dim % 4 == 0;
  if (kernel.is_half != 0) return in_fours ? Kernel::attention_f16_4 : Kernel::attention_f16_1;
  return in_fours ? Kernel::attention_f32_4 : Kernel::attention_f32_1;
}

// A block for each chunk, where blocks for all chunks would leave most of the device idle. The bits are the same.
bool divides_chunks(const Context& context, const Plan& plan, uint64_t blocks) {
  return plan.chunks > 1 && plan.chunks <= kMostOfGridSide && blocks < 2 * uint64_t{facts(context).multiprocessors};
}

Status launch_attention(Context& context, Plan& plan, Tables& tables) {
  Attention& kernel = plan.kernel;
  const uint64_t queries = uint64_t{kernel.heads_of_tile} * kernel.rows_of_tile;
  const uint64_t floats = queries * (6 * kernel.head_dim + kChunkPositions + 6);
  const auto tiles_of_heads = static_cast<uint32_t>(kernel.q_heads / kernel.heads_of_tile);
  Grid grid{.grid = {static_cast<uint32_t>(plan.tiles), 1, tiles_of_heads},
            .block = {kAttentionThreads},
            .shared_bytes = static_cast<uint32_t>(floats * sizeof(float))};
  if (!divides_chunks(context, plan, plan.tiles * tiles_of_heads)) {
    return launch(context, attention_kernel(kernel), grid, kernel);
  }
  grid.grid.y = kernel.chunks = static_cast<uint32_t>(plan.chunks);
  const uint64_t outputs = kernel.rows * kernel.q_heads;
  BALLAST_TRY(tables.partial, context.workspace().make({outputs * plan.chunks * (kernel.head_dim + 2)}));
  kernel.partial = address_of(device_address(tables.partial));
  BALLAST_CHECK(launch(context, attention_kernel(kernel), grid, kernel));
  const auto threads = static_cast<uint32_t>((kernel.head_dim + 31) / 32 * 32);
  return launch(context, Kernel::attention_merge, {.grid = {blocks_for(outputs, 1)}, .block = {threads}}, kernel);
}

bool fits(const AttentionConfig& config, const Tensor& qkv) {
  return is_f32(qkv) && config.head_dim <= kMostHeadDim && config.q_heads <= kMostOfGridSide &&
         qkv.dims()[0] + config.sequences <= kMostOfGridWidth;
}

// ---------------------------------------------------------------- without a past

bool supports_attention(const Context& context, const AttentionArgs& args) {
  return fits(args.config, args.qkv) && context.product_dtype == DType::kF32;
}

Result<Tensor> run_attention(Context& context, const AttentionArgs& args) {
  const AttentionConfig& config = args.config;
  const uint64_t rows = args.qkv.dims()[0], length = rows / config.sequences;
  BALLAST_TRY(Tensor out, context.workspace().make({rows, config.q_width()}, args.qkv.dtype()));
  if (out.count() == 0) return out;
  Plan plan = make_plan(config, args.qkv, out);
  for (uint64_t i = 0; i < config.sequences; ++i) add_part(plan, {.row = i * length, .rows = length});
  BALLAST_TRY(Tables tables, place_tables(context, plan));
  BALLAST_CHECK(launch_attention(context, plan, tables));
  return out;
}

// ---------------------------------------------------------------- with a past

bool supports_decode(const Context&, const AttentionDecodeCacheArgs& args) {
  const DType dtype = args.layout().shape().dtype;
  return fits(args.config, args.qkv) && (dtype == DType::kF32 || dtype == DType::kF16);
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
