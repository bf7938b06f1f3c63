#include "ballast/ops/shape.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "ballast/base/checked.h"
#include "ballast/ops/check.h"
#include "ballast/ops/gradient_access.h"

namespace ballast::ops {

namespace {

struct PassStep {
  Tape::Input input;
  Status backward(Context& context, const Tensor& dy, Tape& tape) const { return tape.add(context, input, dy); }
};

struct TransposeStep {
  std::array<size_t, Dims::kMaxRank> back{};  // the permutation that undoes it
  Tape::Input input;

  Status backward(Context& context, const Tensor& dy, Tape& tape) const {
    BALLAST_TRY(const Tensor dx, transpose(context, dy, std::span(back).first(dy.dims().rank())));
    return tape.add(context, input, dx);
  }
};

struct SliceStep {
  size_t axis;
  uint64_t begin;
  Tape::Input input;

  Status backward(Context& context, const Tensor& dy, Tape& tape) const {
    BALLAST_TRY(const GradientPlace place, tape.place(context, input, dy.dtype()));
    if (!place.add) BALLAST_CHECK(fill_zero(context, *place.gradient));
    return context.registry().run(context, AddSliceArgs{dy, axis, begin, *place.gradient});
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
        BALLAST_TRY(const Tensor part, slice_along_axis(context, dy, axis, begin, count));
        BALLAST_CHECK(tape.add(context, input, part));
      }
      begin += count;
    }
    return {};
  }
};

Status check_axis(const Tensor& x, size_t axis) {
  if (axis < x.dims().rank()) return {};
  return refused(named("x", x), fmt::format("it has no axis {}", axis));
}

}  // namespace

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
  if (!y.shares_memory_with(x) && tape.follows(x)) tape.record(y, PassStep{tape.input(x)});
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

}  // namespace ballast::ops
