#include "ballast/ops/shape.h"

#include <algorithm>
#include <array>
#include <cstring>

#include "ballast/backends/host/implementations.h"
#include "ballast/backends/host/kernel_access.h"
#include "ballast/backends/host/transposed.h"
#include "ballast/device/host_access.h"
#include "ballast/ops/gradient_routines.h"

namespace ballast::host {

namespace {

uint64_t element_bytes(const Tensor& x) { return dtype_info(x.dtype()).bits / 8; }

// Product of the dimensions in [first, last).
uint64_t dims_product(const Dims& dims, size_t first, size_t last) {
  uint64_t count = 1;
  for (size_t axis = first; axis < last; ++axis) count *= dims[axis];
  return count;
}

Result<Tensor> run_reshape(Context&, const ReshapeArgs& args) { return args.x.reshaped(args.dims); }

// Walks over the output in its order and knows where each of its rows begins in the input.
struct Permutation {
  Dims out;
  std::array<uint64_t, Dims::kMaxRank> strides{};  // in the input, of each axis of the output

  Permutation(const Dims& in, std::span<const size_t> axes) : out(in) {
    for (size_t i = 0; i < axes.size(); ++i) {
      out[i] = in[axes[i]];
      strides[i] = dims_product(in, axes[i] + 1, in.rank());
    }
  }

  uint64_t row_begin(uint64_t row) const {
    uint64_t at = 0;
    for (size_t axis = out.rank() - 1; axis-- > 0;) {
      at += row % out[axis] * strides[axis];
      row /= out[axis];
    }
    return at;
  }
};

template <typename Element>
void permute(const Tensor& x, const Permutation& permutation, Tensor& y, ThreadPool& threads) {
  const auto* in = host_data<const Element>(x);
  auto* out = host_data<Element>(y);
  const uint64_t length = permutation.out.back();
  const uint64_t stride = permutation.strides[permutation.out.rank() - 1];
  const size_t rank = permutation.out.rank();
  const uint64_t run = rank > 1 ? permutation.out[rank - 2] : 1;  // rows at the same distance from each other
  const uint64_t run_stride = rank > 1 ? permutation.strides[rank - 2] : 0;
  const size_t grain = std::max<uint64_t>(1, (uint64_t{1} << 14) / length);
  threads.for_ranges(permutation.out.leading(), grain, [&](size_t begin, size_t end) {
    for (size_t row = begin; row < end;) {
      const Element* from = in + permutation.row_begin(row);
      const size_t stop = std::min<size_t>(end, row + run - row % run);
      for (; row < stop; ++row, from += run_stride) {
        Element* to = out + row * length;
        for (uint64_t i = 0; i < length; ++i) to[i] = from[i * stride];
      }
    }
  });
}

Result<Tensor> run_transpose(Context& context, const TransposeArgs& args) {
  return transposed(context, args.x, args.permutation);
}

Result<Tensor> slice_of(Context& context, const Tensor& x, size_t axis, uint64_t begin, uint64_t count) {
  Dims dims = x.dims();
  const uint64_t from_length = dims[axis];
  dims[axis] = count;
  BALLAST_TRY(Tensor y, context.workspace().make(dims, x.dtype()));
  const uint64_t inner = dims_product(dims, axis + 1, dims.rank()) * element_bytes(y);
  const std::byte* from = host_bytes(x).data() + begin * inner;
  std::byte* to = host_data<std::byte>(y);
  for (uint64_t outer = dims_product(dims, 0, axis); outer > 0; --outer) {
    std::memcpy(to, from, count * inner);
    from += from_length * inner;
    to += count * inner;
  }
  return y;
}

Result<Tensor> run_slice(Context& context, const SliceAlongAxisArgs& args) {
  return slice_of(context, args.x, args.axis, args.begin, args.count);
}

Result<Tensor> run_concat(Context& context, const ConcatAlongAxisArgs& args) {
  Dims dims = args.parts[0].dims();
  dims[args.axis] = 0;
  for (const Tensor& part : args.parts) dims[args.axis] += part.dims()[args.axis];
  BALLAST_TRY(Tensor y, context.workspace().make(dims, args.parts[0].dtype()));
  const uint64_t outer = dims_product(dims, 0, args.axis);
  const uint64_t inner = dims_product(dims, args.axis + 1, dims.rank()) * element_bytes(y);
  uint64_t at = 0;
  for (const Tensor& part : args.parts) {
    const uint64_t run = part.dims()[args.axis] * inner;
    for (uint64_t i = 0; i < outer; ++i) {
      std::memcpy(host_data<std::byte>(y) + i * dims[args.axis] * inner + at, host_bytes(part).data() + i * run, run);
    }
    at += run;
  }
  return y;
}

Status run_add_slice(Context&, const AddSliceArgs& args) {
  with_type(args.x.dtype(), [&]<typename T>() {
    const Dims& whole = args.y.dims();
    const uint64_t inner = dims_product(whole, args.axis + 1, whole.rank());
    const uint64_t run = args.x.dims()[args.axis] * inner;
    const T* from = host_data<const T>(args.x);
    T* to = host_data<T>(args.y) + args.begin * inner;
    for (uint64_t outer = dims_product(whole, 0, args.axis); outer > 0; --outer) {
      for (uint64_t i = 0; i < run; ++i) to[i] += from[i];
      from += run;
      to += whole[args.axis] * inner;
    }
  });
  return {};
}

}  // namespace

Result<Tensor> transposed(Context& context, const Tensor& x, std::span<const size_t> axes) {
  if (axes.empty()) return x;
  const Permutation permutation(x.dims(), axes);
  BALLAST_TRY(Tensor y, context.workspace().make(permutation.out, x.dtype()));
  if (y.count() == 0) return y;
  switch (element_bytes(x)) {
    case 1: permute<uint8_t>(x, permutation, y, context.threads()); break;
    case 2: permute<uint16_t>(x, permutation, y, context.threads()); break;
    case 4: permute<uint32_t>(x, permutation, y, context.threads()); break;
    default: permute<uint64_t>(x, permutation, y, context.threads()); break;
  }
  return y;
}

void add_shape(Registry& registry) {
  registry.add_builtin<ReshapeArgs>(nullptr, run_reshape);
  registry.add_builtin<TransposeArgs>(nullptr, run_transpose);
  registry.add_builtin<SliceAlongAxisArgs>(nullptr, run_slice);
  registry.add_builtin<ConcatAlongAxisArgs>(nullptr, run_concat);
  registry.add_routine(run_add_slice);
}

}  // namespace ballast::host
