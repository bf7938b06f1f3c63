#include <fmt/format.h>

#include <array>

#include "ballast/ops/check.h"
#include "ballast/ops/gradient_access.h"
#include "ballast/ops/loss.h"
#include "ballast/ops/metric.h"

namespace ballast::ops {

namespace {

constexpr std::array<std::string_view, 4> kMarginNames = {"arcface", "arcface, easy", "cosface", "sphereface"};

struct MarginLogitsStep {
  AngularMargin kind;
  Tensor cosines;
  std::span<const uint32_t> labels;
  double margin, scale;
  Tape::Input input;

  Status backward(Context& context, const Tensor& dy, Tape& tape) const {
    BALLAST_TRY(Tensor dx, context.workspace().make(dy.dims(), dy.dtype()));
    BALLAST_CHECK(
        context.registry().run(context, MarginLogitsGradientArgs{kind, cosines, labels, margin, scale, dy, dx}));
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

}  // namespace ballast::ops
