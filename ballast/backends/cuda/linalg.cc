#include "ballast/ops/linalg.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <string>

#include "ballast/backends/cuda/families.h"
#include "ballast/backends/cuda/kernel_image.h"
#include "ballast/backends/cuda/kernels/arguments.h"
#include "ballast/backends/cuda/product.h"

namespace ballast::cuda {

namespace {

using namespace ops;  // NOLINT: implementations speak of functionals and little else

// ---------------------------------------------------------------- kernels by type

struct ProductKernels {
  Kernel row, tile, wide;     // for kRowsOfRow rows of x, kRowsOfTile, and more
  Kernel many_64, many_most;  // for more rows, 64 or `most` rows a block
  uint32_t most;
  Kernel split;
  uint32_t parts;   // that x is split into
  uint32_t totals;  // sums of those parts that split makes for each group of terms
  Kernel repack;    // of blocks alone
};

ProductKernels kernels_for(WeightType type, Numerics numerics) {
#define BALLAST_PRODUCT_KERNELS(name, most, split, parts, totals, repack)                       \
  {                                                                                             \
    Kernel::product_##name##_row, Kernel::product_##name##_tile, Kernel::product_##name##_wide, \
        Kernel::product_##name##_many_64, Kernel::product_##name##_many_##most, most,           \
        Kernel::split_activations_##split, parts, totals, Kernel::repack                        \
  }
#define BALLAST_BLOCK_KERNELS(name) BALLAST_PRODUCT_KERNELS(name, 128, blocks, 2, 0, repack_##name)
#define BALLAST_OFFSET_KERNELS(name) BALLAST_PRODUCT_KERNELS(name, 128, blocks_32, 2, 2, repack_##name)
  switch (type) {
    case WeightType::kF32: return BALLAST_PRODUCT_KERNELS(f32, 64, bf16_3, 3, 0, fill_f32);
    case WeightType::kF16: return BALLAST_PRODUCT_KERNELS(f16, 128, f16, 2, 0, fill_f32);
    case WeightType::kBF16:
      if (numerics == Numerics::kExact) return BALLAST_PRODUCT_KERNELS(bf16_exact, 128, bf16_3, 3, 0, fill_f32);
      return BALLAST_PRODUCT_KERNELS(bf16_fast, 128, bf16_2, 2, 0, fill_f32);
    case WeightType::kQ8_0: return BALLAST_BLOCK_KERNELS(q8_0);
    case WeightType::kQ4_0: return BALLAST_BLOCK_KERNELS(q4_0);
    case WeightType::kQ4_1: return BALLAST_OFFSET_KERNELS(q4_1);
    case WeightType::kQ5_0: return BALLAST_BLOCK_KERNELS(q5_0);
    case WeightType::kQ5_1: return BALLAST_OFFSET_KERNELS(q5_1);
    case WeightType::kQ2K: return BALLAST_PRODUCT_KERNELS(q2_k, 128, blocks_16, 2, 4, repack_q2_k);
    case WeightType::kQ3K: return BALLAST_BLOCK_KERNELS(q3_k);
    case WeightType::kQ4K: return BALLAST_OFFSET_KERNELS(q4_k);
    case WeightType::kQ5K: return BALLAST_OFFSET_KERNELS(q5_k);
    case WeightType::kQ6K: break;
  }
  return BALLAST_BLOCK_KERNELS(q6_k);
#undef BALLAST_OFFSET_KERNELS
#undef BALLAST_BLOCK_KERNELS
#undef BALLAST_PRODUCT_KERNELS
}

// ---------------------------------------------------------------- weights as the kernels read them

// Rows of weights that products on tensor cores read: plain ones as they are, in-out ones transposed, blocks repacked.
struct FastWeight {
  CudaPointer address = CudaPointer::kNull;
  uint64_t row_bytes = 0;
};

Result<FastWeight> transposed_weight(Context& context, const Param& weight) {
  const uint64_t k = weight.shape()[0], n = weight.shape()[1], element = dtype_info(weight.dtype()).bits / 8;
  const auto make = [=](Context& on, const WeightSpan& stored, CudaPointer out) -> Status {
    const Grid grid{.grid = {blocks_for(n, 32), blocks_for(k, 32)}, .block = {256}};
    BALLAST_CHECK(
        launch(on, element == 4 ? Kernel::transpose_4 : Kernel::transpose_2, grid, stored.address, out, k, n));
    return finish_form(on);
  };
  BALLAST_TRY(const CudaPointer address,
              weight_form(context, weight, {.name = "product.out_in.1", .bytes = n * k * element, .make = make}));
  return FastWeight{address, k * element};
}

Result<FastWeight> repacked_weight(Context& context, const Param& weight, uint64_t k, const RowRange& rows) {
  const WeightType type = *weight_type_of(weight.dtype());
  const uint64_t group = packed_group_bytes(static_cast<uint32_t>(type));
  const uint64_t tile = (k + kGroupTerms - 1) / kGroupTerms * group;
  const uint64_t n = weight.rows(), tiles = (n + kTileRows - 1) / kTileRows;
  const auto make = [=](Context& on, const WeightSpan& stored, CudaPointer out) -> Status {
    BALLAST_CHECK(launch(on, kernels_for(type, Numerics::kFast).repack, grid_over(tiles * tile / group * 32),
                         stored.address, out, n, k, stored.row_bytes));
    return finish_form(on);
  };
  BALLAST_TRY(const CudaPointer address,
              weight_form(context, weight, {.name = "product.tiles.1", .bytes = tiles * tile, .make = make}));
  return FastWeight{address + rows.first / kTileRows * tile, 0};
}

// Whether there is such a form: shapes and types alone tell, because other kernels have other bits.
bool has_fast_weight(const Param& weight, uint64_t k, const LinearOptions& options) {
  if (k == 0 || !is_plain_or_absent(options.bias)) return false;
  if (is_plain(weight_type_of(weight.dtype()))) return k % 8 == 0;
  return options.layout == WeightLayout::kOutIn && k % 32 == 0 && options.rows.first % kTileRows == 0;
}

Result<FastWeight> fast_weight(Context& context, const Param& weight, uint64_t k, const LinearOptions& options) {
  if (!is_plain(weight_type_of(weight.dtype()))) return repacked_weight(context, weight, k, options.rows);
  if (options.layout == WeightLayout::kInOut) return transposed_weight(context, weight);
  BALLAST_TRY(const WeightSpan span, weights(context, weight, options.rows));
  return FastWeight{span.address, span.row_bytes};
}

// ---------------------------------------------------------------- on tensor cores

constexpr uint64_t kRowsOfRow = 4, kRowsOfTile = 16, kRowsOfWide = 32;
// From so many outputs on, blocks of 64 rows of x and more are faster.
constexpr uint64_t kOutputsOfMany = 150'000;

uint64_t groups_of(uint64_t k) { return (k + kGroupTerms - 1) / kGroupTerms; }
uint64_t segments_of(uint64_t k) { return (k + kSegmentTerms - 1) / kSegmentTerms; }

// Kernels are given an activation as its number.
static_assert(static_cast<uint32_t>(Bend::kSilu) == static_cast<uint32_t>(Activation::kSilu) &&
              static_cast<uint32_t>(Bend::kGeluErf) == static_cast<uint32_t>(Activation::kGeluErf));

// Instructions of 64 outputs and many rows: Hopper's alone, and of code that is for it alone.
bool has_warpgroups(const Context& context) {
  return facts(context).major == 9 && facts(context).minor == 0 &&
         kernel_architectures().find("sm_90a") != std::string_view::npos;
}

// Blocks of 64 rows of x where larger ones would leave multiprocessors without work for longer; a small one takes three
// quarters of a large one's time.
Status launch_many(Context& context, const ProductKernels& kernels, const Product& p) {
  const uint64_t across = (p.n + kManyOutputs - 1) / kManyOutputs;
  const auto blocks = [&](uint64_t rows) { return across * ((p.m + rows - 1) / rows); };
  const auto rounds = [&](uint64_t rows) {
    return (blocks(rows) + facts(context).multiprocessors - 1) / facts(context).multiprocessors;
  };
  const bool is_small = 3 * rounds(64) < 4 * rounds(kernels.most);
  const uint32_t rows = is_small ? 64 : kernels.most;
  const Grid grid{.grid = {blocks_for(blocks(rows), 1)},
                  .block = {kManyThreads},
                  .shared_bytes = many_shared_bytes(rows, kernels.parts, kernels.totals)};
  return launch(context, is_small ? kernels.many_64 : kernels.many_most, grid, p);
}

// The parts of x, which must live until the launch.
Result<Tensor> split_activations(Context& context, const ProductKernels& kernels, Product& p) {
  const uint64_t sets = (p.m + kPartsRows - 1) / kPartsRows * groups_of(p.k), tiles = (p.m + 7) / 8;
  BALLAST_TRY(const Tensor parts,
              context.workspace().make({sets * parts_bytes(kernels.parts, kernels.totals)}, DType::kU8));
  BALLAST_CHECK(launch(context, kernels.split, {.grid = {blocks_for(tiles * segments_of(p.k), 1)}, .block = {256}},
                       CudaPointer{p.x}, device_address(parts), p.m, p.k));
  p.parts = address_of(device_address(parts));
  return parts;
}

Status launch_tiles(Context& context, const ProductKernels& kernels, Product& p) {
  BALLAST_TRY(const Tensor parts, split_activations(context, kernels, p));
  const bool is_wide = p.m > kRowsOfTile;
  if (is_wide && p.m * p.n >= kOutputsOfMany && has_warpgroups(context)) return launch_many(context, kernels, p);
  const Grid grid{.grid = {blocks_for(p.n, kTileRows), blocks_for(p.m, is_wide ? kRowsOfWide : kRowsOfTile)},
                  .block = {static_cast<uint32_t>(32 * kProductWarps)}};
  return launch(context, is_wide ? kernels.wide : kernels.tile, grid, p);
}

// ---------------------------------------------------------------- of a few rows
constexpr uint64_t kStagedBytes = 44 << 10;

RowPart row_part(const FastWeight& weight, const VectorWeight& bias, uint64_t n, Activation activation) {
  return {.weights = address_of(weight.address),
          .bias = address_of(bias.address),
          .n = n,
          .row_bytes = weight.row_bytes,
          .bias_type = bias.type,
          .bend = static_cast<uint32_t>(activation)};
}

uint64_t tiles_of(uint64_t n) { return (n + kTileRows - 1) / kTileRows; }

// Warps that share the segments of an output. Few, so that a block splits x for many outputs and goes on reading; but
// enough to have a block for each multiprocessor, and no more than there are segments.
uint32_t spread_for(const Context& context, const RowProduct& p) {
  uint64_t tiles = 0;
  for (uint32_t i = 0; i < p.part_count; ++i) tiles += tiles_of(p.parts[i].n);
  const uint64_t blocks = facts(context).multiprocessors;
  const uint64_t most = p.is_gated != 0 ? kProductWarps / 2 : kProductWarps;  // a block has both tiles of a gate
  uint32_t spread = 1;
  while (spread < most && spread < segments_of(p.k) && tiles * spread < blocks * kProductWarps) spread *= 2;
  return spread;
}

// Which blocks and columns each part has; the number of blocks.
uint32_t place_parts(RowProduct& p) {
  const uint64_t slots = kProductWarps / p.spread;
  if (p.is_gated != 0) {
    p.n = p.parts[0].n;
    return blocks_for(tiles_of(p.n), slots / 2);
  }
  uint32_t blocks = 0;
  for (uint32_t i = 0; i < p.part_count; ++i) {
    p.parts[i].column = p.n;
    p.parts[i].first_block = blocks;
    p.n += p.parts[i].n;
    blocks += blocks_for(tiles_of(p.parts[i].n), slots);
  }
  return blocks;
}

// Each block normalises and splits the rows by itself. `p` has everything but how the work is divided.
Status launch_row(Context& context, const ProductKernels& kernels, RowProduct& p) {
  p.spread = spread_for(context, p);
  const uint32_t blocks = place_parts(p);
  const uint64_t parts = kSegmentTerms * kernels.parts * 2 * p.m, scales = 8 * sizeof(float);
  const uint64_t sums = kProductWarps / p.spread * p.m * kTileRows * sizeof(float);
  const uint64_t round = p.spread * (parts + scales + sums);
  const uint64_t rounds = (segments_of(p.k) + p.spread - 1) / p.spread;
  const uint64_t staged = std::clamp<uint64_t>(kStagedBytes / round, 1, rounds);
  p.stage_segments = static_cast<uint32_t>(staged * p.spread);
  const Grid grid{.grid = {blocks},
                  .block = {static_cast<uint32_t>(32 * kProductWarps)},
                  .shared_bytes = static_cast<uint32_t>(staged * round + sums)};
  return launch(context, kernels.row, grid, p);
}

// ---------------------------------------------------------------- of any number of rows
Result<ProductEnds> ends_of(Context& context, const Param& weight, const LinearOptions& options, const Tensor& y) {
  BALLAST_TRY(const VectorWeight bias, vector_weight(context, options.bias));
  const auto [k, n] = size_of(weight, options.layout, options.rows);
  return ProductEnds{.bias = address_of(bias.address),
                     .residual = address_of(device_address_or_null(options.residual)),
                     .y = address_of(device_address(y)),
                     .m = y.count() / n,
                     .n = n,
                     .k = k,
                     .bias_type = bias.type,
                     .bend = static_cast<uint32_t>(options.activation)};
}

Status multiply_row(Context& context, const ProductKernels& kernels, const Tensor& x, const FastWeight& weight,
                    const ProductEnds& ends) {
  RowProduct p{.x = address_of(device_address(x)),
               .y = ends.y,
               .residual = ends.residual,
               .m = ends.m,
               .k = ends.k,
               .part_count = 1};
  p.parts[0] = {.weights = address_of(weight.address),
                .bias = ends.bias,
                .n = ends.n,
                .row_bytes = weight.row_bytes,
                .bias_type = ends.bias_type,
                .bend = ends.bend};
  return launch_row(context, kernels, p);
}

Status multiply_fast(Context& context, const Tensor& x, const Param& weight, const LinearOptions& options,
                     const ProductEnds& ends) {
  BALLAST_TRY(const FastWeight fast, fast_weight(context, weight, ends.k, options));
  const ProductKernels kernels = kernels_for(*weight_type_of(weight.dtype()), context.numerics);
  if (ends.m <= kRowsOfRow) return multiply_row(context, kernels, x, fast, ends);
  Product p{ends};
  p.x = address_of(device_address(x));
  p.weights = address_of(fast.address);
  p.row_bytes = fast.row_bytes;
  return launch_tiles(context, kernels, p);
}

// ---------------------------------------------------------------- term by term

constexpr uint32_t kPlainTile = 16, kMostOfGrid = 65'535;

Status launch_plain(Context& context, const PlainProduct& p) {
  const Grid grid{.grid = {blocks_for(p.n, kPlainTile), blocks_for(p.m, kPlainTile),
                           static_cast<uint32_t>(std::min<uint64_t>(p.batch, kMostOfGrid))},
                  .block = {kPlainTile * kPlainTile}};
  return launch(context, Kernel::product_plain, grid, p);
}

Status multiply_plain(Context& context, const Tensor& x, const Param& weight, const LinearOptions& options,
                      const ProductEnds& ends) {
  WeightSpan span;
  if (ends.k != 0) {
    BALLAST_TRY(span, weights(context, weight, options.rows));
  }
  PlainProduct p{ends};
  p.x = address_of(device_address(x));
  p.weights = address_of(span.address);
  p.row_bytes = span.row_bytes;
  p.batch = 1;
  p.weight_type = static_cast<uint32_t>(*weight_type_of(weight.dtype()));
  p.in_out = static_cast<uint32_t>(options.layout == WeightLayout::kInOut);
  return launch_plain(context, p);
}

// ---------------------------------------------------------------- functionals

// The second dimension of a grid is limited.
constexpr uint64_t kMostRows = uint64_t{kMostOfGrid} * kPlainTile;

bool has_few_rows(const Tensor& x) { return x.dims().leading() <= kMostRows; }

bool supports_linear(const Context& context, const LinearArgs& args) {
  return is_f32(args.x) && has_few_rows(args.x) && supports_product(context, args.weight, args.options);
}
Result<Tensor> run_linear(Context& context, const LinearArgs& args) {
  return product(context, args.x, args.weight, args.options);
}

bool supports_matmul(const Context& context, const MatmulArgs& args) {
  if (!is_f32(args.a) || !has_few_rows(args.a) || context.product_dtype != DType::kF32) return false;
  return args.b.param() == nullptr || supports_product(context, *args.b.param(), {.layout = args.layout});
}

Result<Tensor> run_matmul(Context& context, const MatmulArgs& args) {
  if (args.b.param() != nullptr) return product(context, args.a, *args.b.param(), {.layout = args.layout});
  const Tensor& b = *args.b.tensor();
  Dims dims = args.a.dims();
  dims[dims.rank() - 1] = b.dims().back();
  BALLAST_TRY(Tensor c, context.workspace().make(dims, args.a.dtype()));
  if (c.count() == 0) return c;
  const uint64_t m = args.a.dims().back(1), k = args.a.dims().back(), n = b.dims().back();
  PlainProduct p{{.y = address_of(device_address(c)), .m = m, .n = n, .k = k}};
  p.x = address_of(device_address(args.a));
  p.weights = address_of(device_address(b));
  p.row_bytes = n * sizeof(float);
  p.x_batch = m * k;
  p.weight_batch = k * n * sizeof(float);
  p.y_batch = m * n;
  p.batch = c.count() / (m * n);
  p.weight_type = static_cast<uint32_t>(WeightType::kF32);
  p.in_out = 1;
  BALLAST_CHECK(launch_plain(context, p));
  return c;
}

// ---------------------------------------------------------------- several weights, a norm in front, a gate behind

bool reads_norm(const NormStep& norm) { return is_plain_or_absent(norm.gamma) && is_plain_or_absent(norm.beta); }

// Whether one launch computes them: of few rows, from weights of one type that are there in the form that it reads.
bool is_one_launch(const Context& context, const LinearPartsArgs& args) {
  const LinearPart& first = args.parts.front();
  const uint64_t k = args.x.dims().back(), rows = args.x.dims().leading();
  if (!is_f32(args.x) || rows == 0 || rows > kRowsOfRow || args.parts.size() > RowProduct::kParts) return false;
  return reads_norm(args.options.norm) && std::ranges::all_of(args.parts, [&](const LinearPart& part) {
           return part.weight.dtype() == first.weight.dtype() && supports_product(context, part.weight, part.options) &&
                  has_fast_weight(part.weight, k, part.options);
         });
}

Status set_norm(Context& context, const NormStep& norm, RowProduct& p) {
  if (norm.gamma == nullptr) return {};
  BALLAST_TRY(const VectorWeight gamma, vector_weight(context, norm.gamma));
  BALLAST_TRY(const VectorWeight beta, vector_weight(context, norm.beta));
  p.gamma = address_of(gamma.address);
  p.beta = address_of(beta.address);
  p.gamma_type = gamma.type;
  p.beta_type = beta.type;
  p.eps = norm.eps;
  p.shift = norm.shift;
  p.norm = norm.beta != nullptr ? NormOfRow::kLayer : NormOfRow::kRms;
  p.norm_threads = threads_for_row(p.k);
  return {};
}

Dims dims_of_parts(const LinearPartsArgs& args) {
  Dims dims = args.x.dims();
  uint64_t& width = dims[dims.rank() - 1];
  width = 0;
  for (const LinearPart& part : args.parts) {
    const uint64_t n = size_of(part.weight, part.options.layout, part.options.rows).n;
    width = args.options.is_gated ? n : width + n;
  }
  return dims;
}

Result<Tensor> run_linear_parts(Context& context, const LinearPartsArgs& args) {
  if (!is_one_launch(context, args)) return args.run_in_steps(context);
  BALLAST_TRY(Tensor y, context.workspace().make(dims_of_parts(args), args.x.dtype()));
  if (y.count() == 0) return y;
  RowProduct p{.x = address_of(device_address(args.x)),
               .y = address_of(device_address(y)),
               .m = args.x.dims().leading(),
               .k = args.x.dims().back(),
               .is_gated = static_cast<uint32_t>(args.options.is_gated),
               .gate_bend = static_cast<uint32_t>(args.options.gate)};
  BALLAST_CHECK(set_norm(context, args.options.norm, p));
  for (const LinearPart& part : args.parts) {
    BALLAST_TRY(const FastWeight fast, fast_weight(context, part.weight, p.k, part.options));
    BALLAST_TRY(const VectorWeight bias, vector_weight(context, part.options.bias));
    const uint64_t n = size_of(part.weight, part.options.layout, part.options.rows).n;
    p.parts[p.part_count++] = row_part(fast, bias, n, part.options.activation);
  }
  const WeightType type = *weight_type_of(args.parts.front().weight.dtype());
  BALLAST_CHECK(launch_row(context, kernels_for(type, context.numerics), p));
  return y;
}

}  // namespace

bool supports_product(const Context& context, const Param& weight, const LinearOptions& options) {
  return context.product_dtype == DType::kF32 && is_readable(weight) && is_readable_or_absent(options.bias);
}

Result<Tensor> product(Context& context, const Tensor& x, const Param& weight, const LinearOptions& options) {
  BALLAST_TRY(Tensor y, context.workspace().make(product_dims(x, weight, options.layout, options.rows), x.dtype()));
  if (y.count() == 0) return y;
  BALLAST_TRY(const ProductEnds ends, ends_of(context, weight, options, y));
  if (has_fast_weight(weight, ends.k, options)) {
    BALLAST_CHECK(multiply_fast(context, x, weight, options, ends));
  } else {
    BALLAST_CHECK(multiply_plain(context, x, weight, options, ends));
  }
  return y;
}

void add_linalg(Registry& registry) {
  add_functional<LinearArgs, run_linear, supports_linear>(registry);
  add_functional<LinearPartsArgs, run_linear_parts>(registry);
  add_functional<MatmulArgs, run_matmul, supports_matmul>(registry);
}

}  // namespace ballast::cuda
