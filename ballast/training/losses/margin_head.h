// Classifiers with an angular margin: ArcFace, CosFace, SphereFace. They shape the rows that a model gives; once it is
// trained the rows themselves are compared, and the head is not needed.
//
//   BALLAST_TRY(const size_t at, add_margin_centers(*memory, "head.weight", config, features, classes, seed));
//   ...                                        // the model's own parameters, and a store over all of them
//   BALLAST_TRY(const MarginHead head, MarginHead::make(config, *store->get("head.weight")));
//   BALLAST_TRY(const Tensor loss, head.loss(context, rows, labels));
#pragma once

#include <cstdint>
#include <span>
#include <string>

#include "ballast/ops/metric.h"
#include "ballast/params/trained_params.h"

namespace ballast {

struct MarginHeadConfig {
  std::string kind = "arcface";  // "arcface", "cosface", "sphereface"
  double margin = 0.5;
  double scale = 64;
  uint64_t sub_centers = 1;  // of each class, of which the nearest counts: outliers get one of their own
  bool easy_margin = false;  // arcface: no margin beyond a right angle
};

// The centers of the classes, [classes * sub_centers, features], on the unit sphere by the seed. They lie in the memory
// of the model, so that one optimizer trains both. Gives their index.
Result<size_t> add_margin_centers(TrainedParams& memory, const std::string& name, const MarginHeadConfig& config,
                                  uint64_t features, uint64_t classes, uint64_t seed = 0);

class MarginHead {
 public:
  // kInvalidArgument says what is wrong with the configuration or the shape of the centers.
  static Result<MarginHead> make(const MarginHeadConfig& config, const Param& centers);

  const Param& centers() const { return centers_; }

  // Of each row [n, features] with each class: [n, classes].
  Result<Tensor> cosines(Context& context, const Tensor& rows) const;
  // Scaled, with the margin for the row's own class: what cross-entropy is taken of.
  Result<Tensor> logits(Context& context, const Tensor& rows, std::span<const uint32_t> labels) const;
  // Mean over the rows whose label counts; [1].
  Result<Tensor> loss(Context& context, const Tensor& rows, std::span<const uint32_t> labels) const;

 private:
  MarginHead(const MarginHeadConfig& config, ops::AngularMargin kind, const Param& centers)
      : config_(config), kind_(kind), centers_(centers) {}
  uint64_t classes() const { return centers_.shape().dims()[0] / config_.sub_centers; }

  MarginHeadConfig config_;
  ops::AngularMargin kind_;
  Param centers_;
};

}  // namespace ballast
