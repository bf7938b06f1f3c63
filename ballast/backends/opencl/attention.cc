#include "ballast/ops/attention.h"

#include <algorithm>
#include <array>

#include "ballast/backends/opencl/families.h"
#include "ballast/backends/opencl/weight_access.h"

namespace ballast::opencl {

namespace {

using namespace ops;  // NOLINT: implementations speak of functionals and little else

// As in kernels/attention.cl.
constexpr uint64_t kMostHeadDim = 256, kPagesOfLaunch = 8;
static_assert(kPagePositions == kGroupSize, "a work-item has a position of a page");

bool fits(const AttentionConfig& config, const Tensor& qkv) {
  return is_f32(qkv) && config.head_dim <= kMostHeadDim && fit_kernels({config.q_heads, config.kv_heads});
}

// ---------------------------------------------------------------- without a past

bool supports_attention(const Context& context, const AttentionArgs& args) {
  return fits(args.config, args.qkv) && context.product_dtype == DType::kF32;
}

Result<Tensor> run_attention(Context& context, const AttentionArgs& args) {
  const AttentionConfig& config = args.config;
  const uint64_t rows = args.qkv.dims()[0];
  BALLAST_TRY(Tensor out, context.workspace().make({rows, config.q_width()}, args.qkv.dtype()));
  if (out.count() == 0) return out;
  BALLAST_CHECK(launch(context, {"attention", "attend_rows"}, {.x = rows, .y = config.q_heads}, device_buffer(args.qkv),
                       device_buffer(out), rows / config.sequences, narrow(config.q_heads), narrow(config.kv_heads),
                       narrow(config.head_dim), config.window, static_cast<uint32_t>(config.causal),
                       score_scale<float>(config), config.soft_cap));
  return out;
}

// ---------------------------------------------------------------- with a past

bool supports_decode(const Context&, const AttentionDecodeCacheArgs& args) {
  const DType dtype = args.layout().shape().dtype;
  return fits(args.config, args.qkv) && (dtype == DType::kF32 || dtype == DType::kF16);
}

// A text's rows of the pass, and some of its pages, as kernels are given them.
struct PageRun {
  std::array<Buffer, kPagesOfLaunch> pages{};
  uint64_t first = 0, count = 0;
};

PageRun page_run(std::span<const KvPage> pages, uint64_t first, uint64_t end) {
  PageRun run{{}, first, std::min(end - first, kPagesOfLaunch)};
  for (uint64_t i = 0; i < run.count; ++i) {
    if (pages[first + i] != nullptr) run.pages[i] = device_buffer(*pages[first + i]);
  }
  return run;
}

struct Part {
  const AttentionDecodeCacheArgs& args;
  const KvRows& rows;
  uint64_t first_row;  // in qkv

  uint64_t end_position() const { return rows.position + rows.rows; }
  uint64_t keys_offset() const { return args.layout().keys_offset(args.layer); }
  uint64_t values_offset() const { return args.layout().values_offset(args.layer); }
  uint32_t is_half() const { return static_cast<uint32_t>(args.layout().shape().dtype == DType::kF16); }
};

// Keys and values of the rows into their pages, so many pages at a time.
Status store_part(Context& context, const Part& part) {
  const AttentionConfig& config = part.args.config;
  const auto pages = part.args.pages(part.rows);
  const uint64_t end_page = kv_pages_for(part.end_position());
  for (uint64_t first = part.rows.position / kPagePositions; first < end_page; first += kPagesOfLaunch) {
    const PageRun run = page_run(pages, first, end_page);
    const uint64_t begin = std::max(part.rows.position, first * kPagePositions);
    const uint64_t end = std::min(part.end_position(), (first + run.count) * kPagePositions);
    const uint64_t count = (end - begin) * 2 * config.kv_width();
    const auto& p = run.pages;
    BALLAST_CHECK(launch(context, {"attention", "store_rows"}, grid_over(count), device_buffer(part.args.qkv), p[0],
                         p[1], p[2], p[3], p[4], p[5], p[6], p[7], first, part.keys_offset(), part.values_offset(),
                         part.first_row + begin - part.rows.position, begin, narrow(config.q_heads),
                         narrow(config.kv_heads), narrow(config.head_dim), part.is_half(), count));
  }
  return {};
}

// From the oldest page that a row sees to the newest; `state` has what is seen so far of every query of the part.
Status attend_part(Context& context, const Part& part, const Tensor& state, const Tensor& out) {
  const AttentionConfig& config = part.args.config;
  const auto pages = part.args.pages(part.rows);
  const uint64_t position = part.rows.position, end_page = kv_pages_for(part.end_position());
  const uint64_t oldest = config.window == 0 || position < config.window ? 0 : position + 1 - config.window;
  const uint64_t first_page = oldest / kPagePositions;
  for (uint64_t first = first_page; first < end_page; first += kPagesOfLaunch) {
    const PageRun run = page_run(pages, first, end_page);
    const auto& p = run.pages;
    BALLAST_CHECK(launch(context, {"attention", "attend_pages"}, {.x = part.rows.rows, .y = config.q_heads},
                         device_buffer(part.args.qkv), device_buffer(out), device_buffer(state), p[0], p[1], p[2], p[3],
                         p[4], p[5], p[6], p[7], first, narrow(run.count), static_cast<uint32_t>(first == first_page),
                         static_cast<uint32_t>(first + run.count >= end_page), part.keys_offset(), part.values_offset(),
                         part.first_row, position, narrow(config.q_heads), narrow(config.kv_heads),
                         narrow(config.head_dim), config.window, score_scale<float>(config), config.soft_cap,
                         part.is_half()));
  }
  return {};
}

Result<Tensor> run_decode(Context& context, const AttentionDecodeCacheArgs& args) {
  const AttentionConfig& config = args.config;
  BALLAST_TRY(Tensor out, context.workspace().make({args.qkv.dims()[0], config.q_width()}, args.qkv.dtype()));
  if (out.count() == 0) return out;
  uint64_t most_rows = 0;
  for (const KvRows& rows : args.parts) most_rows = std::max(most_rows, rows.rows);
  BALLAST_TRY(const Tensor state, context.workspace().make({most_rows, config.q_heads, config.head_dim + 2}));
  uint64_t row = 0;
  for (const KvRows& rows : args.parts) {
    const Part part{args, rows, row};
    row += rows.rows;
    if (rows.rows == 0) continue;
    BALLAST_CHECK(store_part(context, part));
    BALLAST_CHECK(attend_part(context, part, state, out));
  }
  return out;
}

}  // namespace

void add_attention(Registry& registry) {
  add_functional<AttentionArgs, run_attention, supports_attention>(registry);
  add_functional<AttentionDecodeCacheArgs, run_decode, supports_decode>(registry);
  add_functional<AttentionDecodeTurnedArgs, run_by_parts<AttentionDecodeTurnedArgs>>(registry);
}

}  // namespace ballast::opencl
