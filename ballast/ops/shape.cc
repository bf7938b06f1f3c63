#include "ballast/ops/shape.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstring>

#include "ballast/base/checked.h"
#include "ballast/ops/builtins.h"
#include "ballast/ops/check.h"
#include "ballast/ops/gradient_access.h"

namespace ballast::ops {

namespace {

uint64_t element_bytes(const Tensor& x) { return dtype_info(x.dtype()).bits / 8; }

// Product of the dimensions in [first, last).
uint64_t product(const Dims& dims, size_t first, size_t last) {
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
      strides[i] = product(in, axes[i] + 1, in.rank());
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
  const auto* in = x.data<Element>();
  auto* out = y.writable<Element>();
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
  const uint64_t inner = product(dims, axis + 1, dims.rank()) * element_bytes(y);
  const std::byte* from = x.bytes().data() + begin * inner;
  std::byte* to = y.writable<std::byte>();
  for (uint64_t outer = product(dims, 0, axis); outer > 0; --outer) {
    std::memcpy(to, from, count * inner);
    from += from_length * inner;
    to += count * inner;
  }
  return y;
}

Result<Tensor> run_slice(Context& context, const SliceAlongAxisArgs& args) {
  return slice_of(context, args.x, args.axis, args.begin, args.count);
}

struct PassStep {
  Tape::Input input;
  Status backward(Context& context, const Tensor& dy, Tape& tape) const { return tape.add(context, input, dy); }
};

struct TransposeStep {
  std::array<size_t, Dims::kMaxRank> back{};  // the permutation that undoes it
  Tape::Input input;

  Status backward(Context& context, const Tensor& dy, Tape& tape) const {
    BALLAST_TRY(const Tensor dx, transposed(context, dy, std::span(back).first(dy.dims().rank())));
    return tape.add(context, input, dx);
  }
};

struct SliceStep {
  size_t axis;
  uint64_t begin;
  Tape::Input input;

  Status backward(Context& context, const Tensor& dy, Tape& tape) const {
    BALLAST_TRY(const GradientPlace place, tape.place(context, input, dy.dtype()));
    if (!place.add) fill_zero(*place.gradient);
    with_type(dy.dtype(), [&]<typename T>() { add_to<T>(dy, *place.gradient); });
    return {};
  }

  template <typename T>
  void add_to(const Tensor& dy, Tensor& dx) const {
    const uint64_t inner = product(input.dims(), axis + 1, input.dims().rank());
    const uint64_t run = dy.dims()[axis] * inner;
    const T* from = dy.data<T>();
    T* to = dx.writable<T>() + begin * inner;
    for (uint64_t outer = product(dy.dims(), 0, axis); outer > 0; --outer) {
      for (uint64_t i = 0; i < run; ++i) to[i] += from[i];
      from += run;
      to += input.dims()[axis] * inner;
    }
  }
};

struct ConcatStep {
  size_t axis;
  std::span<const Tape::Input> inputs;

  Status backward(Context& context, const Tensor& dy, Tape& tape) const {
    uint64_t begin = 0;
    for (const Tape::Input& input : inputs) {
      const uint64_t count = input.dims()[axis];
      if (input.is_followed()) {
        BALLAST_TRY(const Tensor part, slice_of(context, dy, axis, begin, count));
        BALLAST_CHECK(tape.add(context, input, part));
      }
      begin += count;
    }
    return {};
  }
};

Result<Tensor> run_concat(Context& context, const ConcatAlongAxisArgs& args) {
  Dims dims = args.parts[0].dims();
  dims[args.axis] = 0;
  for (const Tensor& part : args.parts) dims[args.axis] += part.dims()[args.axis];
  BALLAST_TRY(Tensor y, context.workspace().make(dims, args.parts[0].dtype()));
  const uint64_t outer = product(dims, 0, args.axis);
  const uint64_t inner = product(dims, args.axis + 1, dims.rank()) * element_bytes(y);
  uint64_t at = 0;
  for (const Tensor& part : args.parts) {
    const uint64_t run = part.dims()[args.axis] * inner;
    for (uint64_t i = 0; i < outer; ++i) {
      std::memcpy(y.writable<std::byte>() + i * dims[args.axis] * inner + at, part.bytes().data() + i * run, run);
    }
    at += run;
  }
  return y;
}

Status check_axis(const Tensor& x, size_t axis) {
  if (axis < x.dims().rank()) return {};
  return refused(named("x", x), fmt::format("it has no axis {}", axis));
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

Status ReshapeArgs::check() const {
  BALLAST_CHECK(check_value("x", x));
  if (x.count() == dims.count()) return {};
  return does_not_fit(named("x", x), dims.to_string(),
                      fmt::format("it has {} elements and not {}", x.count(), dims.count()));
}
std::string ReshapeArgs::text() const { return fmt::format("{} to {}", typed(x), dims.to_string()); }

Status TransposeArgs::check() const {
  BALLAST_CHECK(check_value("x", x));
  std::array<bool, Dims::kMaxRank> seen{};
  bool valid = permutation.size() == x.dims().rank();
  for (size_t i = 0; valid && i < permutation.size(); ++i) {
    valid = permutation[i] < permutation.size() && !std::exchange(seen[permutation[i]], true);
  }
  if (valid) return {};
  return does_not_fit(named("x", x), fmt::format("the permutation [{}]", fmt::join(permutation, ", ")),
                      fmt::format("it must name each of {} axes once", x.dims().rank()));
}
std::string TransposeArgs::text() const { return fmt::format("{} to [{}]", typed(x), fmt::join(permutation, ", ")); }

Status SliceAlongAxisArgs::check() const {
  BALLAST_CHECK(check_value("x", x));
  BALLAST_CHECK(check_axis(x, axis));
  if (range_fits(begin, count, x.dims()[axis])) return {};
  return refused(named("x", x),
                 fmt::format("{} elements from {} on are outside axis {} of {}", count, begin, axis, x.dims()[axis]));
}
std::string SliceAlongAxisArgs::text() const {
  return fmt::format("{} elements of axis {} of {}", count, axis, typed(x));
}

Status ConcatAlongAxisArgs::check() const {
  if (parts.empty()) return make_error(ErrorCode::kInvalidArgument, "there is nothing to join");
  for (const Tensor& part : parts) BALLAST_CHECK(check_value("a part", part));
  BALLAST_CHECK(check_axis(parts[0], axis));
  for (const Tensor& part : parts.subspan(1)) {
    Dims dims = part.dims();
    if (dims.rank() == parts[0].dims().rank()) dims[axis] = parts[0].dims()[axis];
    if (dims == parts[0].dims() && part.dtype() == parts[0].dtype()) continue;
    return does_not_fit("a part " + typed(part), "the first, " + typed(parts[0]),
                        fmt::format("they may differ in axis {} only", axis));
  }
  return {};
}
std::string ConcatAlongAxisArgs::text() const {
  std::string text = fmt::format("axis {} of", axis);
  for (const Tensor& part : parts) text += " " + typed(part);
  return text;
}

// The same memory has one gradient, whatever its dimensions.
void ReshapeArgs::record(Tape& tape, const Tensor& y) const {
  const bool is_same_memory = y.data<std::byte>() == x.data<std::byte>();
  if (!is_same_memory && tape.follows(x)) tape.record(y, PassStep{tape.input(x)});
}

void TransposeArgs::record(Tape& tape, const Tensor& y) const {
  if (permutation.empty() || !tape.follows(x)) return;
  TransposeStep step;
  for (size_t i = 0; i < permutation.size(); ++i) step.back[permutation[i]] = i;
  step.input = tape.input(x);
  tape.record(y, std::move(step));
}

void SliceAlongAxisArgs::record(Tape& tape, const Tensor& y) const {
  if (tape.follows(x)) tape.record(y, SliceStep{axis, begin, tape.input(x)});
}

void ConcatAlongAxisArgs::record(Tape& tape, const Tensor& y) const {
  if (std::ranges::none_of(parts, [&](const Tensor& part) { return tape.follows(part); })) return;
  tape.record(y, ConcatStep{axis, tape.keep_inputs(parts)});
}

Result<Tensor> reshape(Context& context, const Tensor& x, const Dims& dims) {
  return context.registry().call(context, ReshapeArgs{x, dims});
}
Result<Tensor> transpose(Context& context, const Tensor& x, std::span<const size_t> permutation) {
  return context.registry().call(context, TransposeArgs{x, permutation});
}
Result<Tensor> slice_along_axis(Context& context, const Tensor& x, size_t axis, uint64_t begin, uint64_t count) {
  return context.registry().call(context, SliceAlongAxisArgs{x, axis, begin, count});
}
Result<Tensor> concat_along_axis(Context& context, std::span<const Tensor> parts, size_t axis) {
  return context.registry().call(context, ConcatAlongAxisArgs{parts, axis});
}

void add_shape(Registry& registry) {
  add_builtin<ReshapeArgs>(registry, nullptr, run_reshape);
  add_builtin<TransposeArgs>(registry, nullptr, run_transpose);
  add_builtin<SliceAlongAxisArgs>(registry, nullptr, run_slice);
  add_builtin<ConcatAlongAxisArgs>(registry, nullptr, run_concat);
}

}  // namespace ballast::ops
