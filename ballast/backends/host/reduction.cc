#include "ballast/ops/reduction.h"

#include <algorithm>
#include <array>

#include "ballast/backends/host/implementations.h"
#include "ballast/backends/host/kernel_access.h"
#include "ballast/backends/host/sums.h"
#include "ballast/device/host_access.h"
#include "ballast/ops/gradient_routines.h"

namespace ballast::host {

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
    const T* x = host_data<const T>(args.x);
    T* sums = host_data<T>(y);
    const uint64_t features = args.x.dims().back();
    for_each_row(context, args.x.dims(),
                 [=](size_t at, size_t i) { sums[i] = static_cast<T>(sum_of(x + at, features)); });
  });
  return y;
}

Result<Tensor> run_scale_rows(Context& context, const ScaleRowsArgs& args) {
  BALLAST_TRY(Tensor y, context.workspace().make(args.x.dims(), args.x.dtype()));
  with_type(y.dtype(), [&]<typename T>() {
    const T* from = host_data<const T>(args.x);
    const T* by = host_data<const T>(args.factors);
    T* to = host_data<T>(y);
    const uint64_t features = args.x.dims().back();
    for_each_row(context, args.x.dims(), [=](size_t at, size_t i) {
      for (size_t j = at; j < at + features; ++j) to[j] = from[j] * by[i];
    });
  });
  return y;
}

Status run_spread_all(Context&, const SpreadAllArgs& args) {
  with_type(args.dy.dtype(), [&]<typename T>() {
    const auto value = static_cast<T>(static_cast<double>(*host_data<const T>(args.dy)) * args.share);
    std::fill_n(host_data<T>(args.dx), args.dx.count(), value);
  });
  return {};
}

Status run_spread_rows(Context& context, const SpreadRowsArgs& args) {
  with_type(args.dy.dtype(), [&]<typename T>() {
    const T* from = host_data<const T>(args.dy);
    T* to = host_data<T>(args.dx);
    const uint64_t features = args.dx.dims().back();
    for_each_row(context, args.dx.dims(), [=](size_t at, size_t i) { std::fill_n(to + at, features, from[i]); });
  });
  return {};
}

}  // namespace

Result<double> sum_in_pieces(Context& context, const Tensor& x) {
  constexpr size_t kPiece = 1 << 13;
  const size_t pieces = (x.count() + kPiece - 1) / kPiece;
  BALLAST_TRY(Tensor sums, context.workspace().make({pieces}, DType::kF64));
  auto* const out = host_data<double>(sums);
  with_type(x.dtype(), [&]<typename T>() {
    const T* from = host_data<const T>(x);
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
  with_type(dtype, [&]<typename T>() { *host_data<T>(y) = static_cast<T>(value); });
  return y;
}

void add_reduction(Registry& registry) {
  registry.add_builtin<SumAllArgs>(nullptr, run_sum_all);
  registry.add_builtin<MeanAllArgs>(nullptr, run_mean_all);
  registry.add_builtin<SumLastDimArgs>(nullptr, run_sum_last_dim);
  registry.add_builtin<ScaleRowsArgs>(nullptr, run_scale_rows);
  registry.add_routine(run_spread_all);
  registry.add_routine(run_spread_rows);
}

}  // namespace ballast::host
