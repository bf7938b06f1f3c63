#include "ballast/ops/shape.h"

#include <array>
#include <span>

#include "ballast/backends/opencl/families.h"
#include "ballast/backends/opencl/weight_access.h"

namespace ballast::opencl {

namespace {

using namespace ops;  // NOLINT: implementations speak of functionals and little else

uint64_t element_bytes(const Tensor& x) { return dtype_info(x.dtype()).bits / 8; }

Result<Tensor> run_reshape(Context&, const ReshapeArgs& args) { return args.x.reshaped(args.dims); }

// ---------------------------------------------------------------- transposing

std::string_view permute_function(uint64_t bytes) {
  switch (bytes) {
    case 1: return "permute_1";
    case 2: return "permute_2";
    case 4: return "permute_4";
    default: return "permute_8";
  }
}

bool supports_transpose(const Context&, const TransposeArgs& args) { return element_bytes(args.x) <= 8; }

Result<Tensor> run_transpose(Context& context, const TransposeArgs& args) {
  if (args.permutation.empty()) return args.x;
  Dims dims = args.x.dims();
  // Dimensions of y, and behind them how far apart neighbours lie in x.
  std::array<uint64_t, 2 * Dims::kMaxRank> places{};
  for (size_t axis = 0; axis < args.permutation.size(); ++axis) {
    const size_t from = args.permutation[axis];
    places[axis] = dims[axis] = args.x.dims()[from];
    uint64_t& stride = places[Dims::kMaxRank + axis];
    stride = 1;
    for (size_t behind = from + 1; behind < args.x.dims().rank(); ++behind) stride *= args.x.dims()[behind];
  }
  BALLAST_TRY(Tensor y, context.workspace().make(dims, args.x.dtype()));
  if (y.count() == 0) return y;
  const ByteSpan bytes = std::as_bytes(std::span(places));
  const size_t half = bytes.size() / 2;
  BALLAST_TRY(const Tensor sizes, context.workspace().from_bytes(bytes.first(half), {half}, DType::kU8));
  BALLAST_TRY(const Tensor strides, context.workspace().from_bytes(bytes.subspan(half), {half}, DType::kU8));
  BALLAST_CHECK(launch(context, {"elementwise", permute_function(element_bytes(y))}, grid_over(y.count()),
                       device_buffer(args.x), device_buffer(y), device_buffer(sizes), device_buffer(strides),
                       narrow(args.permutation.size()), y.count()));
  return y;
}

// ---------------------------------------------------------------- runs of bytes

struct Runs {
  Buffer from, to;
  uint64_t from_begin, to_begin, rows, bytes, from_stride, to_stride;
};

Status copy_runs(Context& context, const Runs& runs) {
  const uint64_t all = runs.from_begin | runs.to_begin | runs.bytes | runs.from_stride | runs.to_stride;
  const uint64_t unit = all % 4 == 0 ? 4 : 1;
  return launch(context, {"elementwise", unit == 4 ? "copy_runs_4" : "copy_runs_1"},
                grid_over(runs.rows * (runs.bytes / unit)), runs.from, runs.to, runs.from_begin / unit,
                runs.to_begin / unit, runs.rows, runs.bytes / unit, runs.from_stride / unit, runs.to_stride / unit);
}

// Bytes of all that stands under one index of the axis.
uint64_t bytes_behind(const Tensor& x, size_t axis) {
  uint64_t bytes = element_bytes(x);
  for (size_t i = axis + 1; i < x.dims().rank(); ++i) bytes *= x.dims()[i];
  return bytes;
}
uint64_t rows_before(const Dims& dims, size_t axis) {
  uint64_t rows = 1;
  for (size_t i = 0; i < axis; ++i) rows *= dims[i];
  return rows;
}

Result<Tensor> run_slice(Context& context, const SliceAlongAxisArgs& args) {
  Dims dims = args.x.dims();
  dims[args.axis] = args.count;
  BALLAST_TRY(Tensor y, context.workspace().make(dims, args.x.dtype()));
  if (y.count() == 0) return y;
  const uint64_t bytes = bytes_behind(args.x, args.axis);
  BALLAST_CHECK(copy_runs(context, {.from = device_buffer(args.x),
                                    .to = device_buffer(y),
                                    .from_begin = args.begin * bytes,
                                    .to_begin = 0,
                                    .rows = rows_before(dims, args.axis),
                                    .bytes = args.count * bytes,
                                    .from_stride = args.x.dims()[args.axis] * bytes,
                                    .to_stride = args.count * bytes}));
  return y;
}

Result<Tensor> run_concat(Context& context, const ConcatAlongAxisArgs& args) {
  Dims dims = args.parts[0].dims();
  dims[args.axis] = 0;
  for (const Tensor& part : args.parts) dims[args.axis] += part.dims()[args.axis];
  BALLAST_TRY(Tensor y, context.workspace().make(dims, args.parts[0].dtype()));
  if (y.count() == 0) return y;
  const uint64_t bytes = bytes_behind(y, args.axis);
  uint64_t begin = 0;
  for (const Tensor& part : args.parts) {
    const uint64_t width = part.dims()[args.axis] * bytes;
    if (part.count() == 0) continue;
    BALLAST_CHECK(copy_runs(context, {.from = device_buffer(part),
                                      .to = device_buffer(y),
                                      .from_begin = 0,
                                      .to_begin = begin,
                                      .rows = rows_before(dims, args.axis),
                                      .bytes = width,
                                      .from_stride = width,
                                      .to_stride = dims[args.axis] * bytes}));
    begin += width;
  }
  return y;
}

}  // namespace

void add_shape(Registry& registry) {
  add_functional<ReshapeArgs, run_reshape>(registry);
  add_functional<TransposeArgs, run_transpose, supports_transpose>(registry);
  add_functional<SliceAlongAxisArgs, run_slice>(registry);
  add_functional<ConcatAlongAxisArgs, run_concat>(registry);
}

}  // namespace ballast::opencl
