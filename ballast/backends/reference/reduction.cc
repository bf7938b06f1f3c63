#include "ballast/ops/reduction.h"

#include <algorithm>

#include "ballast/backends/reference/access.h"
#include "ballast/device/host_access.h"
#include "ballast/ops/gradient_routines.h"

namespace ballast::reference {

namespace {

template <typename T>
double sum_of(const T* x, uint64_t count) {
  double sum = 0;
  for (uint64_t i = 0; i < count; ++i) sum += static_cast<double>(x[i]);
  return sum;
}

// The sum of all elements over `divisor`.
Result<Tensor> reduce_all(Context& context, const Tensor& x, double divisor) {
  BALLAST_TRY(Tensor y, context.workspace().make({1}, x.dtype()));
  with_type(x.dtype(), [&]<typename T>() {
    *host_data<T>(y) = static_cast<T>(sum_of(host_data<const T>(x), x.count()) / divisor);
  });
  return y;
}

Result<Tensor> run_sum_all(Context& context, const SumAllArgs& args) { return reduce_all(context, args.x, 1); }

Result<Tensor> run_mean_all(Context& context, const MeanAllArgs& args) {
  return reduce_all(context, args.x, static_cast<double>(args.x.count()));
}

Result<Tensor> run_sum_last_dim(Context& context, const SumLastDimArgs& args) {
  BALLAST_TRY(Tensor y, context.workspace().make(row_dims(args.x.dims()), args.x.dtype()));
  const uint64_t features = args.x.dims().back();
  with_type(y.dtype(), [&]<typename T>() {
    each(context, y.count(), [&](size_t row) {
      host_data<T>(y)[row] = static_cast<T>(sum_of(host_data<const T>(args.x) + row * features, features));
    });
  });
  return y;
}

Result<Tensor> run_scale_rows(Context& context, const ScaleRowsArgs& args) {
  BALLAST_TRY(Tensor y, make_like(context, args.x));
  const uint64_t features = args.x.dims().back();
  with_type(y.dtype(), [&]<typename T>() {
    const T* x = host_data<const T>(args.x);
    const T* factors = host_data<const T>(args.factors);
    T* out = host_data<T>(y);
    each_element(context, y.count(), [&](size_t i) { out[i] = x[i] * factors[i / features]; });
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
  const uint64_t features = args.dx.dims().back();
  with_type(args.dy.dtype(), [&]<typename T>() {
    const T* dy = host_data<const T>(args.dy);
    T* dx = host_data<T>(args.dx);
    each_element(context, args.dx.count(), [&](size_t i) { dx[i] = dy[i / features]; });
  });
  return {};
}

}  // namespace

void add_reduction(Registry& registry) {
  registry.add_builtin<SumAllArgs>(nullptr, run_sum_all);
  registry.add_builtin<MeanAllArgs>(nullptr, run_mean_all);
  registry.add_builtin<SumLastDimArgs>(nullptr, run_sum_last_dim);
  registry.add_builtin<ScaleRowsArgs>(nullptr, run_scale_rows);
  registry.add_routine(run_spread_all);
  registry.add_routine(run_spread_rows);
}

}  // namespace ballast::reference
