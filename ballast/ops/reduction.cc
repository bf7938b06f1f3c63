#include "ballast/ops/reduction.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "ballast/ops/builtins.h"
#include "ballast/ops/check.h"
#include "ballast/ops/gradient_access.h"

namespace ballast::ops {

namespace {

// Side by side, so that one addition need not wait for the one before.
constexpr size_t kChains = 8;

template <typename T>
double sum_of(const T* x, size_t count) {
  std::array<double, kChains> sums{};
  size_t i = 0;
  for (; i + kChains <= count; i += kChains) {
    for (size_t chain = 0; chain < kChains; ++chain) sums[chain] += static_cast<double>(x[i + chain]);
  }
  for (; i < count; ++i) sums[0] += static_cast<double>(x[i]);
  return ((sums[0] + sums[1]) + (sums[2] + sums[3])) + ((sums[4] + sums[5]) + (sums[6] + sums[7]));
}

Result<Tensor> run_sum_all(Context& context, const SumAllArgs& args) {
  BALLAST_TRY(const double sum, sum_in_pieces(context, args.x));
  return single(context, sum, args.x.dtype());
}

Result<Tensor> run_mean_all(Context& context, const MeanAllArgs& args) {
  BALLAST_TRY(const double sum, sum_in_pieces(context, args.x));
  return single(context, sum / static_cast<double>(args.x.count()), args.x.dtype());
}

// What sum_last_dim gives for x.
Dims row_dims(const Dims& x) { return x.rank() == 1 ? Dims{1} : Dims(x.span().first(x.rank() - 1)); }

// row(begin of x's row, which row) for each row of x.
template <typename Row>
void for_each_row(Context& context, const Dims& x, const Row& row) {
  const uint64_t features = x.back();
  context.threads().for_ranges(x.leading(), row_grain(features), [&](size_t begin, size_t end) {
    for (size_t i = begin; i < end; ++i) row(i * features, i);
  });
}

Result<Tensor> run_sum_last_dim(Context& context, const SumLastDimArgs& args) {
  BALLAST_TRY(Tensor y, context.workspace().make(row_dims(args.x.dims()), args.x.dtype()));
  with_type(y.dtype(), [&]<typename T>() {
    const T* x = args.x.data<T>();
    T* sums = y.writable<T>();
    const uint64_t features = args.x.dims().back();
    for_each_row(context, args.x.dims(),
                 [=](size_t at, size_t i) { sums[i] = static_cast<T>(sum_of(x + at, features)); });
  });
  return y;
}

Result<Tensor> scaled(Context& context, const Tensor& x, const Tensor& factors) {
  BALLAST_TRY(Tensor y, context.workspace().make(x.dims(), x.dtype()));
  with_type(y.dtype(), [&]<typename T>() {
    const T* from = x.data<T>();
    const T* by = factors.data<T>();
    T* to = y.writable<T>();
    const uint64_t features = x.dims().back();
    for_each_row(context, x.dims(), [=](size_t at, size_t i) {
      for (size_t j = at; j < at + features; ++j) to[j] = from[j] * by[i];
    });
  });
  return y;
}

Result<Tensor> run_scale_rows(Context& context, const ScaleRowsArgs& args) {
  return scaled(context, args.x, args.factors);
}

// Every element gets `share` of the one gradient.
struct SumAllStep {
  double share;
  Tape::Input input;

  Status backward(Context& context, const Tensor& dy, Tape& tape) const {
    BALLAST_TRY(Tensor dx, context.workspace().make(input.dims(), dy.dtype()));
    with_type(dy.dtype(), [&]<typename T>() {
      const auto value = static_cast<T>(static_cast<double>(*dy.data<T>()) * share);
      std::fill_n(dx.writable<T>(), dx.count(), value);
    });
    return tape.add(context, input, dx);
  }
};

struct SumLastDimStep {
  Tape::Input input;

  Status backward(Context& context, const Tensor& dy, Tape& tape) const {
    BALLAST_TRY(Tensor dx, context.workspace().make(input.dims(), dy.dtype()));
    with_type(dy.dtype(), [&]<typename T>() {
      const T* from = dy.data<T>();
      T* to = dx.writable<T>();
      const uint64_t features = input.dims().back();
      for_each_row(context, input.dims(), [=](size_t at, size_t i) { std::fill_n(to + at, features, from[i]); });
    });
    return tape.add(context, input, dx);
  }
};

struct ScaleRowsStep {
  Tensor x;        // where the gradient of the factors is wanted
  Tensor factors;  // where the gradient of x is wanted
  Tape::Input input, factors_input;

  Status backward(Context& context, const Tensor& dy, Tape& tape) const {
    if (input.is_followed()) {
      BALLAST_TRY(const Tensor dx, scaled(context, dy, factors));
      BALLAST_CHECK(tape.add(context, input, dx));
    }
    if (!factors_input.is_followed()) return {};
    BALLAST_TRY(const Tensor products, binary(context, BinaryOp::kMul, dy, x));
    BALLAST_TRY(const Tensor sums, sum_last_dim(context, products));
    return tape.add(context, factors_input, sums);
  }
};

}  // namespace

Result<double> sum_in_pieces(Context& context, const Tensor& x) {
  constexpr size_t kPiece = 1 << 13;
  const size_t pieces = (x.count() + kPiece - 1) / kPiece;
  BALLAST_TRY(Tensor sums, context.workspace().make({pieces}, DType::kF64));
  auto* const out = sums.writable<double>();
  with_type(x.dtype(), [&]<typename T>() {
    const T* from = x.data<T>();
    const size_t count = x.count();
    context.threads().for_ranges(pieces, 1, [=](size_t begin, size_t end) {
      for (size_t i = begin; i < end; ++i) out[i] = sum_of(from + i * kPiece, std::min(kPiece, count - i * kPiece));
    });
  });
  double sum = 0;
  for (size_t i = 0; i < pieces; ++i) sum += out[i];
  return sum;
}

Result<Tensor> single(Context& context, double value, DType dtype) {
  BALLAST_TRY(Tensor y, context.workspace().make({1}, dtype));
  with_type(dtype, [&]<typename T>() { *y.writable<T>() = static_cast<T>(value); });
  return y;
}

Status MeanAllArgs::check() const {
  BALLAST_CHECK(ActivationArgs::check());
  if (x.count() != 0) return {};
  return refused(named("x", x), "there are no elements to take the mean of");
}

Status SumLastDimArgs::check() const {
  BALLAST_CHECK(check_activation("x", x));
  return x.dims().rank() > 0 ? Status() : refused(named("x", x), "it must have a dimension");
}
std::string SumLastDimArgs::text() const { return typed(x); }

Status ScaleRowsArgs::check() const {
  BALLAST_CHECK(check_activation("x", x));
  BALLAST_CHECK(check_activation("factors", factors));
  if (x.dims().rank() == 0) return refused(named("x", x), "it must have a dimension");
  const Dims expected = row_dims(x.dims());
  if (factors.dims() == expected && factors.dtype() == x.dtype()) return {};
  return does_not_fit(
      "factors " + typed(factors), "x " + typed(x),
      fmt::format("there must be one for each row, {} {}", dtype_name(x.dtype()), expected.to_string()));
}
std::string ScaleRowsArgs::text() const { return typed(x); }

void SumAllArgs::record(Tape& tape, const Tensor& y) const {
  if (tape.follows(x)) tape.record(y, SumAllStep{1, tape.input(x)});
}
void MeanAllArgs::record(Tape& tape, const Tensor& y) const {
  if (tape.follows(x)) tape.record(y, SumAllStep{1 / static_cast<double>(x.count()), tape.input(x)});
}
void SumLastDimArgs::record(Tape& tape, const Tensor& y) const {
  if (tape.follows(x)) tape.record(y, SumLastDimStep{tape.input(x)});
}
void ScaleRowsArgs::record(Tape& tape, const Tensor& y) const {
  ScaleRowsStep step{{}, {}, tape.input(x), tape.input(factors)};
  if (step.factors_input.is_followed()) step.x = x;
  if (step.input.is_followed()) step.factors = factors;
  if (step.input.is_followed() || step.factors_input.is_followed()) tape.record(y, std::move(step));
}

Result<Tensor> sum_all(Context& context, const Tensor& x) { return context.registry().call(context, SumAllArgs{{x}}); }
Result<Tensor> mean_all(Context& context, const Tensor& x) {
  return context.registry().call(context, MeanAllArgs{{x}});
}
Result<Tensor> sum_last_dim(Context& context, const Tensor& x) {
  return context.registry().call(context, SumLastDimArgs{x});
}
Result<Tensor> scale_rows(Context& context, const Tensor& x, const Tensor& factors) {
  return context.registry().call(context, ScaleRowsArgs{x, factors});
}

void add_reduction(Registry& registry) {
  add_builtin<SumAllArgs>(registry, nullptr, run_sum_all);
  add_builtin<MeanAllArgs>(registry, nullptr, run_mean_all);
  add_builtin<SumLastDimArgs>(registry, nullptr, run_sum_last_dim);
  add_builtin<ScaleRowsArgs>(registry, nullptr, run_scale_rows);
}

}  // namespace ballast::ops
