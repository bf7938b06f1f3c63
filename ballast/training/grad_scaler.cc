#include "ballast/training/grad_scaler.h"

#include <fmt/format.h>

#include <cmath>

#include "ballast/base/json_object.h"
#include "ballast/io/guard.h"

namespace ballast {

Result<bool> GradScaler::unscale(Context& context, std::span<const Param> params, ParamGradients& gradients) {
  return guarded([&]() -> Result<bool> {
    if (!config_.enabled) return true;
    // The squares of floats and their sum are finite in double, unless one of them was not.
    BALLAST_TRY(const double norm, grad_norm(context, params, gradients));
    if (!std::isfinite(norm)) return false;
    BALLAST_CHECK(scale_gradients(context, params, gradients, 1 / scale_));
    return true;
  });
}

void GradScaler::update(bool finite) {
  if (!config_.enabled) return;
  if (!finite) {
    scale_ *= config_.backoff;
    tracker_ = 0;
    return;
  }
  ++tracker_;
  if (config_.interval != 0 && tracker_ % config_.interval == 0) scale_ *= config_.growth;
}

Result<bool> GradScaler::step(Context& context, Optimizer& optimizer, ParamGradients& gradients) {
  return guarded([&]() -> Result<bool> {
    BALLAST_TRY(const bool finite, unscale(context, optimizer.params(), gradients));
    if (finite) BALLAST_CHECK(optimizer.step(context, gradients));
    update(finite);
    return finite;
  });
}

std::string GradScaler::state_dict() const {
  return fmt::format("{{\"scale\": {}, \"tracker\": {}}}", python_real(scale_), tracker_);
}

Status GradScaler::load_state_dict(std::string_view json) {
  return guarded([&]() -> Status {
    BALLAST_TRY(const JsonObject object, JsonObject::parse(json, "the scaler's state"));
    BALLAST_TRY(const auto scale, object.find_real("scale"));
    BALLAST_TRY(const auto tracker, object.find_count("tracker"));
    if (!scale || !tracker || !(*scale > 0)) {
      return make_error(ErrorCode::kInvalidArgument,
                        "the scaler's state: \"scale\" above 0 and \"tracker\" are needed");
    }
    scale_ = *scale;
    tracker_ = *tracker;
    return {};
  });
}

}  // namespace ballast
