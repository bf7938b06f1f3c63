#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <numbers>

#include "ballast/ops/rotary.h"
#include "ballast/ops/update_routines.h"

namespace ballast::ops {

namespace {

using Kind = RopeScaling::Kind;

std::string wrong_yarn(const RopeConfig& config) {
  const RopeScaling& scaling = config.scaling;
  if (scaling.original_context == 0) return "YaRN scaling needs the original context";
  if (!(scaling.beta_fast > 0) || !(scaling.beta_slow > 0)) return "YaRN's betas must be above 0";
  if (config.theta == 1) return "YaRN scaling needs a theta other than 1";
  return "";
}

std::string wrong_llama3(const RopeScaling& scaling) {
  if (scaling.original_context == 0) return "llama3 scaling needs the original context";
  if (scaling.low_frequency > 0 && scaling.high_frequency > scaling.low_frequency) return "";
  return fmt::format("llama3 scaling needs 0 < low frequency factor < high frequency factor, not {} and {}",
                     scaling.low_frequency, scaling.high_frequency);
}

std::string wrong_factors(std::string_view which, const std::vector<double>& factors, uint64_t count) {
  if (factors.size() != count) {
    return fmt::format("{} {} factors do not fit {} rotary channels, which need {}", factors.size(), which, 2 * count,
                       count);
  }
  const auto bad = std::ranges::find_if(factors, [](double factor) { return !(factor > 0) || std::isinf(factor); });
  return bad == factors.end() ? "" : fmt::format("a {} factor is {} and must be above 0", which, *bad);
}

std::string wrong_longrope(const RopeConfig& config) {
  const RopeScaling& scaling = config.scaling;
  const uint64_t half = config.rotary_dim / 2;
  if (std::string wrong = wrong_factors("short", scaling.short_factors, half); !wrong.empty()) return wrong;
  if (scaling.long_factors.empty()) return "";
  if (scaling.original_context < 2) return "longrope scaling needs an original context above 1";
  return wrong_factors("long", scaling.long_factors, half);
}

std::string wrong_scaling(const RopeConfig& config) {
  const RopeScaling& scaling = config.scaling;
  if (!(scaling.factor > 0) || std::isinf(scaling.factor)) {
    return fmt::format("the scaling's factor is {} and must be above 0", scaling.factor);
  }
  if (scaling.attention_factor && !(std::abs(*scaling.attention_factor) < 1e6)) {
    return fmt::format("the attention factor is {}", *scaling.attention_factor);
  }
  switch (scaling.kind) {
    case Kind::kNone:
    case Kind::kLinear: break;
    case Kind::kDynamic:
      if (scaling.original_context == 0) return "dynamic scaling needs the original context";
      if (config.rotary_dim <= 2) return fmt::format("dynamic scaling needs more than {} channels", config.rotary_dim);
      if (scaling.factor < 1) return fmt::format("dynamic scaling needs a factor of 1 or more, not {}", scaling.factor);
      break;
    case Kind::kLlama3: return wrong_llama3(scaling);
    case Kind::kYarn: return wrong_yarn(config);
    case Kind::kLongRope: return wrong_longrope(config);
  }
  return "";
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

// theta^(-2 i / rotary_dim)
double plain_frequency(double theta, uint64_t i, uint64_t rotary_dim) {
  return std::pow(theta, -2.0 * static_cast<double>(i) / static_cast<double>(rotary_dim));
}

// Within its original context a text is not stretched.
double dynamic_theta(const RopeConfig& config, uint64_t text_length) {
  const auto original = static_cast<double>(config.scaling.original_context);
  const auto channels = static_cast<double>(config.rotary_dim);
  const double length = std::max(static_cast<double>(text_length), original);
  const double factor = config.scaling.factor;
  return config.theta * std::pow(factor * length / original - (factor - 1), channels / (channels - 2));
}

// In the precision of `T`.
template <typename T>
T divisor_of_llama3(const RopeConfig& config, uint64_t i) {
  const RopeScaling& scaling = config.scaling;
  const T part = static_cast<T>(2 * i) / static_cast<T>(config.rotary_dim);
  const T frequency = 1 / std::pow(static_cast<T>(config.theta), part);
  const T length = static_cast<T>(2 * std::numbers::pi) / frequency;
  const auto context = static_cast<T>(scaling.original_context);
  const auto low = static_cast<T>(scaling.low_frequency);
  const auto high = static_cast<T>(scaling.high_frequency);
  const auto factor = static_cast<T>(scaling.factor);
  if (length < context / high) return 1;
  if (length > context / low) return factor;
  const T kept = (context / length - low) / (high - low);
  return 1 / ((1 - kept) / factor + kept);
}

// Tables in single precision follow what files say in single precision, whatever form the model has.
template <typename T>
double frequency_of(const RopeConfig& config, uint64_t i, uint64_t text_length) {
  const RopeScaling& scaling = config.scaling;
  const double original = plain_frequency(config.theta, i, config.rotary_dim);
  switch (scaling.kind) {
    case Kind::kNone: return original;
    case Kind::kLinear: return original / scaling.factor;
    case Kind::kDynamic: return plain_frequency(dynamic_theta(config, text_length), i, config.rotary_dim);
    case Kind::kLlama3: return original / static_cast<double>(divisor_of_llama3<T>(config, i));
    case Kind::kYarn: {
      const double ramp = Ramp(config).at(static_cast<double>(i));
      return original / scaling.factor * ramp + original * (1 - ramp);
    }
    case Kind::kLongRope: {
      const bool is_long = !scaling.long_factors.empty() && text_length > scaling.original_context;
      return original / (is_long ? scaling.long_factors : scaling.short_factors)[i];
    }
  }
  return original;
}

double exact_magnitude(const RopeScaling& scaling) {
  if (scaling.kind != Kind::kYarn && scaling.kind != Kind::kLongRope) return 1;
  if (scaling.attention_factor) return *scaling.attention_factor;
  if (scaling.factor <= 1) return 1;
  if (scaling.kind == Kind::kLongRope) {
    if (scaling.original_context < 2) return 1;
    return std::sqrt(1 + std::log(scaling.factor) / std::log(static_cast<double>(scaling.original_context)));
  }
  const auto of = [&](double mscale) { return 0.1 * mscale * std::log(scaling.factor) + 1; };
  const double mscale = scaling.mscale.value_or(0);
  const double all_dim = scaling.mscale_all_dim.value_or(0);
  return mscale != 0 && all_dim != 0 ? of(mscale) / of(all_dim) : of(1);
}

}  // namespace

float llama3_divisor(const RopeConfig& config, uint64_t i) { return divisor_of_llama3<float>(config, i); }

double rope_frequency(const RopeConfig& config, uint64_t i, uint64_t text_length, DType dtype) {
  return dtype == DType::kF64 ? frequency_of<double>(config, i, text_length)
                              : frequency_of<float>(config, i, text_length);
}

double rope_magnitude(const RopeScaling& scaling, DType dtype) {
  return dtype == DType::kF64 ? exact_magnitude(scaling) : rope_magnitude(scaling);
}

double rope_magnitude(const RopeScaling& scaling) {
  return static_cast<double>(static_cast<float>(exact_magnitude(scaling)));
}

Status check_rope(const RopeConfig& config) {
  std::string wrong;
  if (config.rotary_dim % 2 != 0) wrong = fmt::format("{} rotary channels are not even", config.rotary_dim);
  else if (!(config.theta > 0)) wrong = fmt::format("theta is {} and must be above 0", config.theta);
  else wrong = wrong_scaling(config);
  if (wrong.empty()) return {};
  return make_error(ErrorCode::kInvalidArgument, "rope_tables: " + wrong);
}

Result<RopeTables> rope_tables(Context& context, const RopeConfig& config, std::span<const RopeStretch> stretches,
                               DType dtype) {
  BALLAST_CHECK(check_rope(config));
  uint64_t positions = 0;
  for (const RopeStretch& stretch : stretches) positions += stretch.positions;
  const Dims dims{positions, config.rotary_dim / 2};
  RopeTables tables;
  tables.layout = config.layout;
  BALLAST_TRY(tables.cosines, context.workspace().make(dims, dtype));
  BALLAST_TRY(tables.sines, context.workspace().make(dims, dtype));
  BALLAST_CHECK(context.registry().run(context, RopeTablesArgs{config, stretches, tables}));
  return tables;
}

}  // namespace ballast::ops
