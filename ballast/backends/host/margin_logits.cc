#include <algorithm>
#include <cmath>
#include <numbers>

#include "ballast/backends/host/implementations.h"
#include "ballast/backends/host/kernel_access.h"
#include "ballast/device/host_access.h"
#include "ballast/ops/gradient_routines.h"

namespace ballast::host {

namespace {

// Cosines are kept from -1 and 1 by this much, where the slope of the angle has no end.
constexpr double kCosineEdge = 1e-7;

struct Margined {
  double value, slope;
};

Margined arc_face(double cosine, double sine, double margin) {
  return {cosine * std::cos(margin) - sine * std::sin(margin),
          std::cos(margin) + cosine * std::sin(margin) / std::max(sine, kCosineEdge)};
}

Margined apply_margin(AngularMargin kind, double cosine, double margin) {
  const double c = std::clamp(cosine, kCosineEdge - 1, 1 - kCosineEdge);
  const double sine = std::sqrt(1 - c * c);
  switch (kind) {
    case AngularMargin::kCosFace: return {c - margin, 1};
    case AngularMargin::kSphereFace: {
      const double turned = margin * std::acos(c);
      return {std::cos(turned), margin * std::sin(turned) / std::max(sine, kCosineEdge)};
    }
    case AngularMargin::kEasyArcFace:
      if (c <= 0) return {c, 1};
      return arc_face(c, sine, margin);
    case AngularMargin::kArcFace:
      if (c <= std::cos(std::numbers::pi - margin)) return {c - std::sin(std::numbers::pi - margin) * margin, 1};
      return arc_face(c, sine, margin);
  }
  return {c, 1};
}

Result<Tensor> run_margin_logits(Context& context, const MarginLogitsArgs& args) {
  BALLAST_TRY(Tensor y, context.workspace().make(args.cosines.dims(), args.cosines.dtype()));
  const uint64_t classes = args.cosines.dims()[1];
  with_type(y.dtype(), [&]<typename T>() {
    const T* from = host_data<const T>(args.cosines);
    T* to = host_data<T>(y);
    for (uint64_t i = 0; i < y.count(); ++i) to[i] = from[i] * static_cast<T>(args.scale);
    for (size_t row = 0; row < args.labels.size(); ++row) {
      if (args.labels[row] == kIgnoredLabel) continue;
      const uint64_t at = row * classes + args.labels[row];
      to[at] = static_cast<T>(args.scale * apply_margin(args.kind, static_cast<double>(from[at]), args.margin).value);
    }
  });
  return y;
}

Status run_margin_logits_gradient(Context&, const MarginLogitsGradientArgs& args) {
  const uint64_t classes = args.cosines.dims()[1];
  with_type(args.dy.dtype(), [&]<typename T>() {
    const T* cosines = host_data<const T>(args.cosines);
    const T* from = host_data<const T>(args.dy);
    T* to = host_data<T>(args.dx);
    for (uint64_t i = 0; i < args.dy.count(); ++i) to[i] = from[i] * static_cast<T>(args.scale);
    for (size_t row = 0; row < args.labels.size(); ++row) {
      if (args.labels[row] == kIgnoredLabel) continue;
      const uint64_t at = row * classes + args.labels[row];
      to[at] *= static_cast<T>(apply_margin(args.kind, static_cast<double>(cosines[at]), args.margin).slope);
    }
  });
  return {};
}

}  // namespace

void add_margin_logits(Registry& registry) {
  registry.add_builtin<MarginLogitsArgs>(nullptr, run_margin_logits);
  registry.add_routine(run_margin_logits_gradient);
}

}  // namespace ballast::host
