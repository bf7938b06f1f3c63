#include <algorithm>

#include "ballast/backends/host/implementations.h"
#include "ballast/backends/host/kernel_access.h"
#include "ballast/device/host_access.h"
#include "ballast/ops/gradient_routines.h"

namespace ballast::host {

namespace {

// From the differences themselves: |a|^2 + |b|^2 - 2ab would lose the distance of rows that lie close to each other.
Result<Tensor> run_square_distances(Context& context, const SquareDistancesArgs& args) {
  const uint64_t n = args.a.dims()[0], m = args.b.dims()[0], d = args.a.dims()[1];
  BALLAST_TRY(Tensor y, context.workspace().make({n, m}, args.a.dtype()));
  with_type(y.dtype(), [&]<typename T>() {
    const T* a = host_data<const T>(args.a);
    const T* b = host_data<const T>(args.b);
    T* to = host_data<T>(y);
    context.threads().for_ranges(n, row_grain(m * d), [=](size_t begin, size_t end) {
      for (size_t i = begin; i < end; ++i) {
        for (uint64_t j = 0; j < m; ++j) {
          double sum = 0;
          for (uint64_t k = 0; k < d; ++k) {
            const double step = static_cast<double>(a[i * d + k]) - static_cast<double>(b[j * d + k]);
            sum += step * step;
          }
          to[i * m + j] = static_cast<T>(sum);
        }
      }
    });
  });
  return y;
}

template <typename T>
void pull(Context& context, const SquareDistancesGradientArgs& args) {
  const uint64_t n = args.x.dims()[0], m = args.others.dims()[0], d = args.x.dims()[1];
  const T* x = host_data<const T>(args.x);
  const T* y = host_data<const T>(args.others);
  const T* dy = host_data<const T>(args.dy);
  const uint64_t row = args.is_transposed ? 1 : m, column = args.is_transposed ? n : 1;
  T* to = host_data<T>(args.dx);
  context.threads().for_ranges(n, row_grain(m * d), [=](size_t begin, size_t end) {
    std::fill(to + begin * d, to + end * d, T{0});
    for (size_t i = begin; i < end; ++i) {
      for (uint64_t j = 0; j < m; ++j) {
        const T slope = T{2} * dy[i * row + j * column];
        for (uint64_t k = 0; k < d; ++k) to[i * d + k] += slope * (x[i * d + k] - y[j * d + k]);
      }
    }
  });
}

Status run_square_distances_gradient(Context& context, const SquareDistancesGradientArgs& args) {
  with_type(args.dy.dtype(), [&]<typename T>() { pull<T>(context, args); });
  return {};
}

}  // namespace

void add_square_distances(Registry& registry) {
  registry.add_builtin<SquareDistancesArgs>(nullptr, run_square_distances);
  registry.add_routine(run_square_distances_gradient);
}

}  // namespace ballast::host
