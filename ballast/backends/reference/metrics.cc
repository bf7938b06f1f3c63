#include <algorithm>
#include <cmath>
#include <numbers>

#include "ballast/backends/reference/access.h"
#include "ballast/device/host_access.h"
#include "ballast/ops/gradient_routines.h"
#include "ballast/ops/metric.h"

namespace ballast::reference {

namespace {

// From the differences themselves: |a|^2 + |b|^2 - 2ab would lose the distance of rows that lie close to each other.
Result<Tensor> run_square_distances(Context& context, const SquareDistancesArgs& args) {
  const uint64_t n = args.a.dims()[0], m = args.b.dims()[0], d = args.a.dims()[1];
  BALLAST_TRY(Tensor y, context.workspace().make({n, m}, args.a.dtype()));
  with_type(y.dtype(), [&]<typename T>() {
    each(context, n * m, [&](size_t i) {
      const T* a = host_data<const T>(args.a) + i / m * d;
      const T* b = host_data<const T>(args.b) + i % m * d;
      double sum = 0;
      for (uint64_t k = 0; k < d; ++k) {
        const double step = static_cast<double>(a[k]) - static_cast<double>(b[k]);
        sum += step * step;
      }
      host_data<T>(y)[i] = static_cast<T>(sum);
    });
  });
  return y;
}

Status run_square_distances_gradient(Context& context, const SquareDistancesGradientArgs& args) {
  const uint64_t n = args.x.dims()[0], m = args.others.dims()[0], d = args.x.dims()[1];
  with_type(args.dy.dtype(), [&]<typename T>() {
    const T* dy = host_data<const T>(args.dy);
    each(context, n * d, [&](size_t at) {
      const uint64_t row = at / d;
      T sum = 0;
      for (uint64_t j = 0; j < m; ++j) {
        const T slope = 2 * (args.is_transposed ? dy[j * n + row] : dy[row * m + j]);
        sum += slope * (host_data<const T>(args.x)[at] - host_data<const T>(args.others)[j * d + at % d]);
      }
      host_data<T>(args.dx)[at] = sum;
    });
  });
  return {};
}

// ---------------------------------------------------------------- margins

// Cosines are kept from -1 and 1 by this much, where the slope of the angle has no end.
constexpr double kAngleEdge = 1e-7;

double kept_cosine(double cosine) { return std::clamp(cosine, kAngleEdge - 1, 1 - kAngleEdge); }

// Whether the class of a row is as far behind as it is, so that its cosine is followed in a straight line.
bool is_straight(AngularMargin kind, double cosine, double margin) {
  if (kind == AngularMargin::kEasyArcFace) return cosine <= 0;
  if (kind == AngularMargin::kArcFace) return cosine <= std::cos(std::numbers::pi - margin);
  return kind == AngularMargin::kCosFace;
}

double with_margin(AngularMargin kind, double cosine, double margin) {
  const double c = kept_cosine(cosine), angle = std::acos(c);
  if (kind == AngularMargin::kCosFace) return c - margin;
  if (kind == AngularMargin::kSphereFace) return std::cos(margin * angle);
  if (!is_straight(kind, c, margin)) return std::cos(angle + margin);
  return kind == AngularMargin::kEasyArcFace ? c : c - std::sin(std::numbers::pi - margin) * margin;
}

// d/dc of cos(f(acos c)) is sin(f) f' / sin(acos c).
double margin_slope(AngularMargin kind, double cosine, double margin) {
  const double c = kept_cosine(cosine), angle = std::acos(c);
  const double sine = std::max(std::sqrt(1 - c * c), kAngleEdge);
  if (is_straight(kind, c, margin)) return 1;
  if (kind == AngularMargin::kSphereFace) return margin * std::sin(margin * angle) / sine;
  return std::sin(angle + margin) / sine;
}

bool is_own_class(std::span<const uint32_t> labels, uint64_t classes, size_t i) {
  return labels[i / classes] == i % classes;
}

Result<Tensor> run_margin_logits(Context& context, const MarginLogitsArgs& args) {
  BALLAST_TRY(Tensor y, make_like(context, args.cosines));
  const uint64_t classes = args.cosines.dims()[1];
  with_type(y.dtype(), [&]<typename T>() {
    const T* cosines = host_data<const T>(args.cosines);
    T* out = host_data<T>(y);
    each_element(context, y.count(), [&](size_t i) {
      const double margined = with_margin(args.kind, static_cast<double>(cosines[i]), args.margin);
      const bool is_own = is_own_class(args.labels, classes, i);
      out[i] = is_own ? static_cast<T>(args.scale * margined) : cosines[i] * static_cast<T>(args.scale);
    });
  });
  return y;
}

Status run_margin_logits_gradient(Context& context, const MarginLogitsGradientArgs& args) {
  const uint64_t classes = args.cosines.dims()[1];
  with_type(args.dy.dtype(), [&]<typename T>() {
    const T* cosines = host_data<const T>(args.cosines);
    const T* dy = host_data<const T>(args.dy);
    T* dx = host_data<T>(args.dx);
    each_element(context, args.dy.count(), [&](size_t i) {
      const bool is_own = is_own_class(args.labels, classes, i);
      const double slope = is_own ? margin_slope(args.kind, static_cast<double>(cosines[i]), args.margin) : 1;
      dx[i] = dy[i] * static_cast<T>(args.scale) * static_cast<T>(slope);
    });
  });
  return {};
}

}  // namespace

void add_metrics(Registry& registry) {
  registry.add_builtin<SquareDistancesArgs>(nullptr, run_square_distances);
  registry.add_builtin<MarginLogitsArgs>(nullptr, run_margin_logits);
  registry.add_routine(run_square_distances_gradient);
  registry.add_routine(run_margin_logits_gradient);
}

}  // namespace ballast::reference
