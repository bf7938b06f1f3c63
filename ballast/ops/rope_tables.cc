#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <numbers>

#include "ballast/ops/kernel_access.h"

namespace ballast::ops {

namespace {

Status check_config(const RopeConfig& config) {
  const RopeScaling& scaling = config.scaling;
  std::string wrong;
  if (config.rotary_dim % 2 != 0) wrong = fmt::format("{} rotary channels are not even", config.rotary_dim);
  else if (!(config.theta > 0)) wrong = fmt::format("theta is {} and must be above 0", config.theta);
  else if (scaling.kind == RopeScaling::Kind::kNone) return {};
  else if (!(scaling.factor > 0)) wrong = fmt::format("the scaling's factor is {} and must be above 0", scaling.factor);
  else if (scaling.kind != RopeScaling::Kind::kYarn) return {};
  else if (scaling.original_context == 0) wrong = "YaRN scaling needs the original context";
  else if (!(scaling.beta_fast > 0) || !(scaling.beta_slow > 0)) wrong = "YaRN's betas must be above 0";
  else if (config.theta == 1) wrong = "YaRN scaling needs a theta other than 1";
  if (wrong.empty()) return {};
  return make_error(ErrorCode::kInvalidArgument, "rope_tables: " + wrong);
}

// Where YaRN goes over from the original frequencies to the stretched ones.
struct Ramp {
  double low, high;

  explicit Ramp(const RopeConfig& config)
      : low(boundary(config, config.scaling.beta_fast)), high(boundary(config, config.scaling.beta_slow)) {
    if (config.scaling.truncate) {
      low = std::floor(low);
      high = std::ceil(high);
    }
    low = std::max(low, 0.0);
    high = std::min(high, static_cast<double>(config.rotary_dim) - 1);
    if (std::abs(low - high) < std::numeric_limits<float>::epsilon()) high += 0.001;
  }

  double at(double i) const { return std::clamp((i - low) / (high - low), 0.0, 1.0); }

  // The channel that turns `turns` times within the original context.
  static double boundary(const RopeConfig& config, double turns) {
    const auto context = static_cast<double>(config.scaling.original_context);
    return static_cast<double>(config.rotary_dim) * std::log(context / (turns * 2 * std::numbers::pi)) /
           (2 * std::log(config.theta));
  }
};

double frequency(const RopeConfig& config, uint64_t i) {
  const double original =
      std::pow(config.theta, -2.0 * static_cast<double>(i) / static_cast<double>(config.rotary_dim));
  if (config.scaling.kind == RopeScaling::Kind::kNone) return original;
  const double stretched = original / config.scaling.factor;
  if (config.scaling.kind == RopeScaling::Kind::kLinear) return stretched;
  const double ramp = Ramp(config).at(static_cast<double>(i));
  return stretched * ramp + original * (1 - ramp);
}

double magnitude(const RopeScaling& scaling) {
  if (scaling.kind != RopeScaling::Kind::kYarn) return 1;
  const auto of = [&](double mscale) {
    return scaling.factor <= 1 ? 1.0 : 0.1 * mscale * std::log(scaling.factor) + 1;
  };
  const double mscale = scaling.mscale.value_or(0);
  const double all_dim = scaling.mscale_all_dim.value_or(0);
  return mscale != 0 && all_dim != 0 ? of(mscale) / of(all_dim) : of(1);
}

// In double all the way: an angle at a far position has lost its digits in single precision.
template <typename T>
void fill(const RopeConfig& config, uint64_t first_position, RopeTables& tables) {
  const uint64_t positions = tables.cosines.dims()[0];
  const uint64_t half = tables.cosines.dims()[1];
  T* const cosines = tables.cosines.writable<T>();
  T* const sines = tables.sines.writable<T>();
  const double scale = magnitude(config.scaling);
  for (uint64_t i = 0; i < half; ++i) {
    const double turn = frequency(config, i);
    for (uint64_t p = 0; p < positions; ++p) {
      const double angle = static_cast<double>(first_position + p) * turn;
      cosines[p * half + i] = static_cast<T>(std::cos(angle) * scale);
      sines[p * half + i] = static_cast<T>(std::sin(angle) * scale);
    }
  }
}

}  // namespace

Result<RopeTables> rope_tables(Context& context, const RopeConfig& config, uint64_t first_position, uint64_t positions,
                               DType dtype) {
  BALLAST_CHECK(check_config(config));
  const Dims dims{positions, config.rotary_dim / 2};
  RopeTables tables;
  BALLAST_TRY(tables.cosines, context.workspace().make(dims, dtype));
  BALLAST_TRY(tables.sines, context.workspace().make(dims, dtype));
  with_type(dtype, [&]<typename T>() { fill<T>(config, first_position, tables); });
  return tables;
}

}  // namespace ballast::ops
