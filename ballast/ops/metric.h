// Functionals that losses over rows are written in, with their arguments for those who add implementations.
#pragma once

#include <span>
#include <string>
#include <string_view>

#include "ballast/ops/ops.h"

namespace ballast::ops {

// Squares of the distances between the rows of a [n, d] and of b [m, d]: [n, m].
Result<Tensor> square_distances(Context& context, const Tensor& a, const Tensor& b);

enum class AngularMargin : uint8_t {
  kArcFace,      // cos(angle + margin), and a straight line where that would rise again
  kEasyArcFace,  // cos(angle + margin) inside a right angle, cos(angle) beyond
  kCosFace,      // cos(angle) - margin
  kSphereFace,   // cos(margin * angle)
};
// Rows of cosines [n, classes] times scale; that of the row's own class is made smaller by the margin before. A row
// whose label is ignored is only scaled.
Result<Tensor> margin_logits(Context& context, AngularMargin kind, const Tensor& cosines,
                             std::span<const uint32_t> labels, double margin, double scale);

struct SquareDistancesArgs {
  static constexpr std::string_view kFunctional = "square_distances";
  const Tensor& a;
  const Tensor& b;

  Status check() const;
  std::string text() const;
  void record(Tape& tape, const Tensor& y) const;
};

struct MarginLogitsArgs {
  static constexpr std::string_view kFunctional = "margin_logits";
  AngularMargin kind;
  const Tensor& cosines;
  std::span<const uint32_t> labels;
  double margin;
  double scale;

  Status check() const;
  std::string text() const;
  void record(Tape& tape, const Tensor& y) const;
};

}  // namespace ballast::ops
