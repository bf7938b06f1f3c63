#include "ballast/exchange/folder_rope.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <numbers>

#include "ballast/base/bytes.h"

namespace ballast {

namespace {

using Kind = ops::RopeScaling::Kind;

// Converters compute the divisors in single precision.
constexpr double kSameDivisor = 1e-5;

Result<std::vector<double>> read_divisors(const Archive& archive, std::string_view name, uint64_t count) {
  std::vector<double> values;
  const auto position = archive.find(name);
  if (!position) return values;
  const TensorInfo& tensor = archive.tensors()[*position];
  if (tensor.dtype != DType::kF32 || tensor.shape.element_count() != count) {
    return make_error(ErrorCode::kCorrupt, fmt::format("tensor \"{}\" is {} {}; {} f32 values are needed", tensor.name,
                                                       dtype_name(tensor.dtype), tensor.shape.to_string(), count));
  }
  ByteVector bytes(static_cast<size_t>(tensor.byte_size));
  BALLAST_CHECK(archive.read_into(*position, bytes));
  for (size_t at = 0; at < bytes.size(); at += sizeof(float)) {
    values.push_back(static_cast<double>(std::bit_cast<float>(load_le<uint32_t>(&bytes[at]))));
  }
  return values;
}

// What Llama 3's rule divides the frequency of channel `i` by.
double llama3_divisor(const ops::RopeConfig& rope, const ops::RopeScaling& scaling, uint64_t i) {
  const double frequency = std::pow(rope.theta, -2.0 * static_cast<double>(i) / static_cast<double>(rope.rotary_dim));
  const double turns = static_cast<double>(scaling.original_context) * frequency / (2 * std::numbers::pi);
  const double kept =
      std::clamp((turns - scaling.low_frequency) / (scaling.high_frequency - scaling.low_frequency), 0.0, 1.0);
  return 1 / ((1 - kept) / scaling.factor + kept);
}

// The file has the divisors, not what they were computed from. Every model so far has the same two frequency factors,
// and a power of two as its original context: 8192 first, which Llama 3 has.
std::optional<ops::RopeScaling> llama3_of(const ops::RopeConfig& rope, const std::vector<double>& divisors) {
  ops::RopeScaling scaling;
  scaling.kind = Kind::kLlama3;
  scaling.factor = *std::ranges::max_element(divisors);
  if (!(scaling.factor > 1)) return std::nullopt;
  const auto fits = [&](uint64_t context) {
    scaling.original_context = context;
    for (uint64_t i = 0; i < divisors.size(); ++i) {
      const double expected = llama3_divisor(rope, scaling, i);
      if (!(std::abs(divisors[i] - expected) <= kSameDivisor * expected)) return false;
    }
    return true;
  };
  if (fits(8192)) return scaling;
  for (uint64_t context = 16; context <= uint64_t{1} << 24; context *= 2) {
    if (fits(context)) return scaling;
  }
  return std::nullopt;
}

// What cosines are multiplied by where nothing says it, for texts that may be so many times longer than they were.
double longrope_magnitude(double factor, uint64_t original_context) {
  if (factor <= 1 || original_context < 2) return 1;
  return std::sqrt(1 + std::log(factor) / std::log(static_cast<double>(original_context)));
}

void add_yarn(const ops::RopeScaling& scaling, FolderJson& json) {
  json.real("factor", scaling.factor);
  json.count("original_max_position_embeddings", scaling.original_context);
  json.real("beta_fast", scaling.beta_fast);
  json.real("beta_slow", scaling.beta_slow);
  if (scaling.attention_factor) json.real("attention_factor", *scaling.attention_factor);
  if (scaling.mscale) json.real("mscale", *scaling.mscale);
  if (scaling.mscale_all_dim) json.real("mscale_all_dim", *scaling.mscale_all_dim);
}

// Old versions of transformers refuse any key but three, so the others are there only where they say something.
void add_longrope(const ops::RopeScaling& scaling, uint64_t context, FolderJson& json) {
  const bool has_long = !scaling.long_factors.empty();
  json.reals("short_factor", scaling.short_factors);
  json.reals("long_factor", has_long ? scaling.long_factors : scaling.short_factors);
  const uint64_t original = scaling.original_context;
  const double of_file = scaling.attention_factor.value_or(longrope_magnitude(scaling.factor, original));
  const double unsaid = longrope_magnitude(static_cast<double>(context) / static_cast<double>(original), original);
  if (std::abs(of_file - unsaid) > 1e-6 * unsaid) json.real("attention_factor", of_file);
}

}  // namespace

Result<ops::RopeScaling> folder_rope_scaling(const DecoderDescription& d, const Archive& archive) {
  ops::RopeScaling scaling = d.rope.scaling;
  const uint64_t count = d.rope.rotary_dim / 2;
  BALLAST_TRY(std::vector<double> divisors, read_divisors(archive, "rope_freqs.weight", count));
  if (!divisors.empty()) {
    if (const auto found = llama3_of(d.rope, divisors); found && scaling.kind == Kind::kNone) return *found;
    if (scaling.kind == Kind::kLinear) {
      for (double& divisor : divisors) divisor *= scaling.factor;
    }
    scaling.kind = Kind::kLongRope;
    scaling.short_factors = std::move(divisors);
    scaling.attention_factor = scaling.attention_factor.value_or(1);
    scaling.original_context = d.context;
    return scaling;
  }
  BALLAST_TRY(std::vector<double> longer, read_divisors(archive, "rope_factors_long.weight", count));
  BALLAST_TRY(std::vector<double> shorter, read_divisors(archive, "rope_factors_short.weight", count));
  if (longer.empty() || shorter.empty()) return scaling;
  scaling.kind = Kind::kLongRope;
  scaling.long_factors = std::move(longer);
  scaling.short_factors = std::move(shorter);
  return scaling;
}

void add_rope_scaling(const ops::RopeScaling& scaling, uint64_t context, std::string_view kind_key, FolderJson& json) {
  switch (scaling.kind) {
    case Kind::kNone: return;
    case Kind::kLinear:
      json.text(kind_key, "linear");
      json.real("factor", scaling.factor);
      return;
    case Kind::kDynamic:
      json.text(kind_key, "dynamic");
      json.real("factor", scaling.factor);
      return;
    case Kind::kLlama3:
      json.text(kind_key, "llama3");
      json.real("factor", scaling.factor);
      json.real("low_freq_factor", scaling.low_frequency);
      json.real("high_freq_factor", scaling.high_frequency);
      json.count("original_max_position_embeddings", scaling.original_context);
      return;
    case Kind::kYarn: json.text(kind_key, "yarn"); return add_yarn(scaling, json);
    case Kind::kLongRope:
      json.text(kind_key, "longrope");
      if (kind_key == "rope_type") json.count("original_max_position_embeddings", scaling.original_context);
      return add_longrope(scaling, context, json);
  }
}

}  // namespace ballast
