#include "ballast/ops/shape.h"

#include <array>
#include <cstring>

#include "ballast/backends/reference/access.h"
#include "ballast/device/host_access.h"
#include "ballast/ops/gradient_routines.h"

namespace ballast::reference {

namespace {

uint64_t element_bytes(const Tensor& x) { return dtype_info(x.dtype()).bits / 8; }

// The indices of element i of a tensor with these dimensions, and back.
using Index = std::array<uint64_t, Dims::kMaxRank>;

Index index_of(const Dims& dims, uint64_t i) {
  Index index{};
  for (size_t axis = dims.rank(); axis-- > 0; i /= dims[axis]) index[axis] = i % dims[axis];
  return index;
}

uint64_t place_of(const Dims& dims, const Index& index) {
  uint64_t place = 0;
  for (size_t axis = 0; axis < dims.rank(); ++axis) place = place * dims[axis] + index[axis];
  return place;
}

void copy_element(const Tensor& from, uint64_t at, Tensor& to, uint64_t place) {
  const uint64_t bytes = element_bytes(from);
  std::memcpy(host_data<std::byte>(to) + place * bytes, host_data<const std::byte>(from) + at * bytes, bytes);
}

Result<Tensor> run_reshape(Context&, const ReshapeArgs& args) { return args.x.reshaped(args.dims); }

Result<Tensor> run_transpose(Context& context, const TransposeArgs& args) {
  if (args.permutation.empty()) return args.x;
  Dims dims = args.x.dims();
  for (size_t axis = 0; axis < args.permutation.size(); ++axis) dims[axis] = args.x.dims()[args.permutation[axis]];
  BALLAST_TRY(Tensor y, context.workspace().make(dims, args.x.dtype()));
  each_element(context, y.count(), [&](size_t i) {
    const Index out = index_of(dims, i);
    Index in{};
    for (size_t axis = 0; axis < args.permutation.size(); ++axis) in[args.permutation[axis]] = out[axis];
    copy_element(args.x, place_of(args.x.dims(), in), y, i);
  });
  return y;
}

Result<Tensor> run_slice(Context& context, const SliceAlongAxisArgs& args) {
  Dims dims = args.x.dims();
  dims[args.axis] = args.count;
  BALLAST_TRY(Tensor y, context.workspace().make(dims, args.x.dtype()));
  each_element(context, y.count(), [&](size_t i) {
    Index index = index_of(dims, i);
    index[args.axis] += args.begin;
    copy_element(args.x, place_of(args.x.dims(), index), y, i);
  });
  return y;
}

Result<Tensor> run_concat(Context& context, const ConcatAlongAxisArgs& args) {
  Dims dims = args.parts[0].dims();
  dims[args.axis] = 0;
  for (const Tensor& part : args.parts) dims[args.axis] += part.dims()[args.axis];
  BALLAST_TRY(Tensor y, context.workspace().make(dims, args.parts[0].dtype()));
  uint64_t begin = 0;
  for (const Tensor& part : args.parts) {
    for (uint64_t i = 0; i < part.count(); ++i) {
      Index index = index_of(part.dims(), i);
      index[args.axis] += begin;
      copy_element(part, i, y, place_of(dims, index));
    }
    begin += part.dims()[args.axis];
  }
  return y;
}

Status run_add_slice(Context&, const AddSliceArgs& args) {
  with_type(args.x.dtype(), [&]<typename T>() {
    for (uint64_t i = 0; i < args.x.count(); ++i) {
      Index index = index_of(args.x.dims(), i);
      index[args.axis] += args.begin;
      host_data<T>(args.y)[place_of(args.y.dims(), index)] += host_data<const T>(args.x)[i];
    }
  });
  return {};
}

}  // namespace

void add_shape(Registry& registry) {
  registry.add_builtin<ReshapeArgs>(nullptr, run_reshape);
  registry.add_builtin<TransposeArgs>(nullptr, run_transpose);
  registry.add_builtin<SliceAlongAxisArgs>(nullptr, run_slice);
  registry.add_builtin<ConcatAlongAxisArgs>(nullptr, run_concat);
  registry.add_routine(run_add_slice);
}

}  // namespace ballast::reference
