#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <numbers>

#include "ballast/ops/builtins.h"
#include "ballast/ops/check.h"
#include "ballast/ops/gradient_access.h"
#include "ballast/ops/loss.h"
#include "ballast/ops/metric.h"

namespace ballast::ops {

namespace {

constexpr std::array<std::string_view, 4> kMarginNames = {"arcface", "arcface, easy", "cosface", "sphereface"};

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
    const T* from = args.cosines.data<T>();
    T* to = y.writable<T>();
    for (uint64_t i = 0; i < y.count(); ++i) to[i] = from[i] * static_cast<T>(args.scale);
    for (size_t row = 0; row < args.labels.size(); ++row) {
      if (args.labels[row] == kIgnoredLabel) continue;
      const uint64_t at = row * classes + args.labels[row];
      to[at] = static_cast<T>(args.scale * apply_margin(args.kind, static_cast<double>(from[at]), args.margin).value);
    }
  });
  return y;
}

struct MarginLogitsStep {
  AngularMargin kind;
  Tensor cosines;
  std::span<const uint32_t> labels;
  double margin, scale;
  Tape::Input input;

  Status backward(Context& context, const Tensor& dy, Tape& tape) const {
    BALLAST_TRY(Tensor dx, context.workspace().make(dy.dims(), dy.dtype()));
    const uint64_t classes = cosines.dims()[1];
    with_type(dy.dtype(), [&]<typename T>() {
      const T* from = dy.data<T>();
      T* to = dx.writable<T>();
      for (uint64_t i = 0; i < dy.count(); ++i) to[i] = from[i] * static_cast<T>(scale);
      for (size_t row = 0; row < labels.size(); ++row) {
        if (labels[row] == kIgnoredLabel) continue;
        const uint64_t at = row * classes + labels[row];
        to[at] *= static_cast<T>(apply_margin(kind, static_cast<double>(cosines.data<T>()[at]), margin).slope);
      }
    });
    return tape.add(context, input, dx);
  }
};

}  // namespace

Status MarginLogitsArgs::check() const { return check_labels(cosines, labels); }
std::string MarginLogitsArgs::text() const {
  return fmt::format("{} {} margin {} scale {}", kMarginNames[static_cast<size_t>(kind)], typed(cosines), margin,
                     scale);
}

void MarginLogitsArgs::record(Tape& tape, const Tensor& y) const {
  if (!tape.follows(cosines)) return;
  tape.record(y, MarginLogitsStep{kind, cosines, tape.keep(labels), margin, scale, tape.input(cosines)});
}

Result<Tensor> margin_logits(Context& context, AngularMargin kind, const Tensor& cosines,
                             std::span<const uint32_t> labels, double margin, double scale) {
  return context.registry().call(context, MarginLogitsArgs{kind, cosines, labels, margin, scale});
}

void add_margin_logits(Registry& registry) { add_builtin<MarginLogitsArgs>(registry, nullptr, run_margin_logits); }

}  // namespace ballast::ops
