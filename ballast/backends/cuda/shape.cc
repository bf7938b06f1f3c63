#include "ballast/ops/shape.h"

#include <algorithm>

#include "ballast/backends/cuda/families.h"
#include "ballast/backends/cuda/kernels/arguments.h"
#include "ballast/backends/cuda/weight_access.h"

namespace ballast::cuda {

namespace {

using namespace ops;  // NOLINT: implementations speak of functionals and little else

uint64_t element_bytes(const Tensor& x) { return dtype_info(x.dtype()).bits / 8; }

Result<Tensor> run_reshape(Context&, const ReshapeArgs& args) { return args.x.reshaped(args.dims); }

// ---------------------------------------------------------------- transposing

Kernel permute_kernel(uint64_t bytes) {
  switch (bytes) {
    case 1: return Kernel::permute_1;
    case 2: return Kernel::permute_2;
    case 4: return Kernel::permute_4;
    default: return Kernel::permute_8;
  }
}

bool supports_transpose(const Context&, const TransposeArgs& args) { return element_bytes(args.x) <= 8; }

Result<Tensor> run_transpose(Context& context, const TransposeArgs& args) {
  if (args.permutation.empty()) return args.x;
  Dims dims = args.x.dims();
  Permutation p{};
  p.rank = static_cast<uint32_t>(args.permutation.size());
  for (size_t axis = 0; axis < args.permutation.size(); ++axis) {
    const size_t from = args.permutation[axis];
    p.dims[axis] = dims[axis] = args.x.dims()[from];
    p.strides[axis] = 1;
    for (size_t behind = from + 1; behind < args.x.dims().rank(); ++behind) p.strides[axis] *= args.x.dims()[behind];
  }
  BALLAST_TRY(Tensor y, context.workspace().make(dims, args.x.dtype()));
  BALLAST_CHECK(launch(context, permute_kernel(element_bytes(y)), grid_over(y.count()), device_address(args.x),
                       device_address(y), p, y.count()));
  return y;
}

// ---------------------------------------------------------------- runs of bytes

struct Runs {
  CudaPointer from, to;
  uint64_t rows, bytes, from_stride, to_stride;
};

Status copy_runs(Context& context, Runs runs) {
  const uint64_t all = address_of(runs.from) | address_of(runs.to) | runs.bytes | runs.from_stride | runs.to_stride;
  const uint64_t unit = all % 16 == 0 ? 16 : all % 4 == 0 ? 4 : 1;
  const Kernel kernel = unit == 16 ? Kernel::copy_runs_16 : unit == 4 ? Kernel::copy_runs_4 : Kernel::copy_runs_1;
  return launch(context, kernel, grid_over(runs.rows * (runs.bytes / unit)), runs.from, runs.to, runs.rows,
                runs.bytes / unit, runs.from_stride / unit, runs.to_stride / unit);
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
  BALLAST_CHECK(copy_runs(context, {.from = device_address(args.x) + args.begin * bytes,
                                    .to = device_address(y),
                                    .rows = rows_before(dims, args.axis),
                                    .bytes = args.count * bytes,
                                    .from_stride = args.x.dims()[args.axis] * bytes,
                                    .to_stride = args.count * bytes}));
  return y;
}

// All parts in one launch, where they are few and made of words.
bool can_join(std::span<const Tensor> parts, size_t axis) {
  return parts.size() <= Columns::kMost && std::ranges::all_of(parts, [axis](const Tensor& part) {
           return part.dims()[axis] * bytes_behind(part, axis) % 4 == 0;
         });
}

Status join(Context& context, std::span<const Tensor> parts, size_t axis, const Tensor& y) {
  Columns columns{};
  for (const Tensor& part : parts) {
    const uint64_t words = part.dims()[axis] * bytes_behind(part, axis) / 4;
    columns.from[columns.count] = address_of(device_address(part));
    columns.widths[columns.count++] = words;
    columns.width += words;
  }
  const uint64_t rows = rows_before(y.dims(), axis);
  return launch(context, Kernel::join_columns_4, grid_over(rows * columns.width), columns, device_address(y), rows);
}

Result<Tensor> run_concat(Context& context, const ConcatAlongAxisArgs& args) {
  Dims dims = args.parts[0].dims();
  dims[args.axis] = 0;
  for (const Tensor& part : args.parts) dims[args.axis] += part.dims()[args.axis];
  BALLAST_TRY(Tensor y, context.workspace().make(dims, args.parts[0].dtype()));
  if (y.count() == 0) return y;
  if (can_join(args.parts, args.axis)) {
    BALLAST_CHECK(join(context, args.parts, args.axis, y));
    return y;
  }
  const uint64_t bytes = bytes_behind(y, args.axis);
  uint64_t begin = 0;
  for (const Tensor& part : args.parts) {
    const uint64_t width = part.dims()[args.axis] * bytes;
    if (part.count() == 0) continue;
    BALLAST_CHECK(copy_runs(context, {.from = device_address(part),
                                      .to = device_address(y) + begin,
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

}  // namespace ballast::cuda
