// Loss scaling: gradients too small for half precision are computed larger, and made small again before the step.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "ballast/training/optimizer.h"

namespace ballast {

struct GradScalerConfig {
  double init_scale = 65536, growth = 2, backoff = 0.5;
  uint64_t interval = 2000;
  bool enabled = true;
};

//   BALLAST_CHECK(tape.backward(context, loss, scaler.scale()));
//   BALLAST_TRY(const bool stepped, scaler.step(context, optimizer, gradients));
class GradScaler {
 public:
  explicit GradScaler(const GradScalerConfig& config = {}) : config_(config), scale_(config.init_scale) {}

  // What a loss is multiplied with: the seed of backward(). 1 where it is not enabled.
  double scale() const { return config_.enabled ? scale_ : 1; }
  uint64_t tracker() const { return tracker_; }

  // Makes the gradients what they would have been without scaling, so that they can be clipped. False where one of them
  // is not finite: then they are left as they are, and there must be no step.
  Result<bool> unscale(Context& context, std::span<const Param> params, ParamGradients& gradients);
  // After unscale(): the scale for the next step.
  void update(bool finite);
  // All of it. False where the step was skipped.
  Result<bool> step(Context& context, Optimizer& optimizer, ParamGradients& gradients);

  std::string state_dict() const;  // {"scale", "tracker"}
  Status load_state_dict(std::string_view json);

 private:
  GradScalerConfig config_;
  double scale_;
  uint64_t tracker_ = 0;
};

}  // namespace ballast
