#include "ballast/models/config/hf_rope.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

namespace ballast {

namespace {

using Kind = ops::RopeScaling::Kind;

// As transformers computes with it, and as GGUF files hold it.
double in_single(double value) { return static_cast<double>(static_cast<float>(value)); }

// One set of settings: its own object first, then the top of config.json.
class RopeFields {
 public:
  RopeFields(const HfRopeRules& rules, const JsonObject& top, JsonObject own, uint64_t context)
      : rules_(rules), top_(top), own_(std::move(own)), context_(context) {}

  Result<ops::RopeConfig> parse(uint64_t head_dim, double theta) const {
    ops::RopeConfig rope;
    BALLAST_TRY(rope.theta, either("rope_theta", theta));
    BALLAST_TRY(const double part, rotary_part());
    rope.rotary_dim = static_cast<uint64_t>(static_cast<double>(head_dim) * part);
    BALLAST_TRY(rope.scaling, scaling());
    return rope;
  }

 private:
  Result<double> either(std::string_view field, double otherwise) const {
    return own_.has(field) ? own_.number(field) : top_.number_or(field, otherwise);
  }

  Result<double> rotary_part() const {
    constexpr std::string_view kField = "partial_rotary_factor";
    const JsonObject& says = own_.has(kField) ? own_ : top_;
    BALLAST_TRY(const double part, says.number_or(kField, 1));
    if (part != 1 && !rules_.is_partial) {
      return says.error(kField, fmt::format("is {}: heads of this family turn as a whole", part));
    }
    if (!(part > 0 && part <= 1)) return says.error(kField, fmt::format("is {}", part));
    return part;
  }

  // The top comes first, and where a family has its own number there, that too.
  Result<uint64_t> original_context() const {
    constexpr std::string_view kField = "original_max_position_embeddings";
    if (rules_.original_context != 0) return top_.count_or(kField, rules_.original_context);
    BALLAST_TRY(const uint64_t own, own_.count_or(kField, context_));
    return top_.count_or(kField, own);
  }

  Result<Kind> kind() const {
    BALLAST_TRY(const std::string old_key, own_.text_or("type", "default"));
    BALLAST_TRY(const std::string name, own_.text_or("rope_type", old_key));
    if (name == "default") return Kind::kNone;
    if (name == "linear") return Kind::kLinear;
    if (name == "dynamic") return Kind::kDynamic;
    if (name == "llama3") return Kind::kLlama3;
    if (name == "longrope" || name == "su") return Kind::kLongRope;
    if (name == "yarn") return rules_.yarn_is_longrope ? Kind::kLongRope : Kind::kYarn;
    return own_.error("rope_type", fmt::format("is \"{}\": default, linear, dynamic, llama3, yarn or longrope", name));
  }

  Result<ops::RopeScaling> scaling() const {
    ops::RopeScaling s;
    BALLAST_TRY(s.kind, kind());
    if (s.kind == Kind::kNone) return s;
    BALLAST_TRY(s.original_context, original_context());
    BALLAST_CHECK(set_factor(s));
    if (own_.has("attention_factor")) {
      BALLAST_TRY(const double factor, own_.number("attention_factor"));
      s.attention_factor = in_single(factor);
    }
    if (s.kind == Kind::kDynamic) s.original_context = context_;
    if (s.kind == Kind::kLlama3) {
      BALLAST_TRY(s.low_frequency, own_.number("low_freq_factor"));
      BALLAST_TRY(s.high_frequency, own_.number("high_freq_factor"));
    }
    if (s.kind == Kind::kYarn) BALLAST_CHECK(set_yarn(s));
    if (s.kind == Kind::kLongRope) {
      BALLAST_TRY(s.short_factors, own_.numbers("short_factor"));
      BALLAST_TRY(s.long_factors, own_.numbers("long_factor"));
      std::ranges::transform(s.short_factors, s.short_factors.begin(), in_single);
      std::ranges::transform(s.long_factors, s.long_factors.begin(), in_single);
    }
    return s;
  }

  // Where it may be left out it is how much longer texts may be than they were.
  Status set_factor(ops::RopeScaling& s) const {
    if (own_.has("factor")) return assign(s.factor, own_.number("factor"));
    if (s.kind != Kind::kYarn && s.kind != Kind::kLongRope) return own_.error("factor", "is missing");
    if (s.original_context == 0) return own_.error("original_max_position_embeddings", "is 0");
    s.factor = static_cast<double>(context_) / static_cast<double>(s.original_context);
    return {};
  }

  Status set_yarn(ops::RopeScaling& s) const {
    BALLAST_TRY(s.beta_fast, own_.number_or("beta_fast", 32));
    BALLAST_TRY(s.beta_slow, own_.number_or("beta_slow", 1));
    BALLAST_TRY(s.truncate, own_.truth_or("truncate", true));
    if (own_.has("mscale")) BALLAST_CHECK(assign(s.mscale, own_.number("mscale")));
    if (own_.has("mscale_all_dim")) BALLAST_CHECK(assign(s.mscale_all_dim, own_.number("mscale_all_dim")));
    return {};
  }

  const HfRopeRules& rules_;
  const JsonObject& top_;
  JsonObject own_;
  uint64_t context_;
};

Result<JsonObject> object_or_nothing(const JsonObject& config, std::string_view field) {
  return config.has(field) ? config.object(field) : parse_kind_config(field, "null");
}

bool has_settings(const JsonObject& config, std::string_view field) {
  return config.has(field) && *config.find(field) != "{}";
}

// A text may be longer than the positions that the file speaks of, where scaling stretches them on the way.
uint64_t stretched(uint64_t context, const ops::RopeScaling& scaling) {
  const bool stretches = scaling.kind == Kind::kDynamic || scaling.kind == Kind::kYarn;
  if (!stretches || !(scaling.factor > 1)) return context;
  const double most = std::floor(static_cast<double>(scaling.original_context) * scaling.factor);
  return most < 0x1p53 ? std::max(context, static_cast<uint64_t>(most)) : context;
}

// Settings for layers that see everything, and for those with a window.
struct RopePair {
  JsonObject full, local;
  double local_theta;
};

// One object for each, in the new spelling; in the old one layers with a window have a theta and nothing else.
Result<RopePair> rope_pair(const JsonObject& config) {
  BALLAST_TRY(const double local_theta, config.number_or("rope_local_base_freq", 10'000));
  BALLAST_TRY(JsonObject nothing, parse_kind_config("rope_parameters", "null"));
  if (!has_settings(config, "rope_parameters")) {
    BALLAST_TRY(JsonObject full, object_or_nothing(config, "rope_scaling"));
    return RopePair{std::move(full), std::move(nothing), local_theta};
  }
  if (has_settings(config, "rope_scaling")) {
    return config.error("rope_scaling", "stands beside \"rope_parameters\", which says the same: one of them too many");
  }
  BALLAST_TRY(const JsonObject both, config.object("rope_parameters"));
  if (!both.has("full_attention") && !both.has("sliding_attention")) {
    return config.error("rope_parameters",
                        "has neither \"full_attention\" nor \"sliding_attention\", each with settings");
  }
  BALLAST_TRY(JsonObject full, object_or_nothing(both, "full_attention"));
  BALLAST_TRY(JsonObject local, object_or_nothing(both, "sliding_attention"));
  return RopePair{std::move(full), std::move(local), local_theta};
}

}  // namespace

Result<JsonObject> hf_rope_settings(const HfRopeRules& rules, const JsonObject& config) {
  for (const std::string_view field : {"rope_scaling", "rope_parameters"}) {
    if (!has_settings(config, field)) continue;
    BALLAST_TRY(JsonObject settings, config.object(field));
    if (!settings.has("full_attention") && !settings.has("sliding_attention")) return settings;
    return config.error(field, "has settings for kinds of layers: all of this family turn alike");
  }
  return parse_kind_config("rope_parameters", rules.unsaid.empty() ? "null" : rules.unsaid);
}

Status set_hf_rope(const HfRopeRules& rules, const JsonObject& config, const HfRopeDefaults& defaults,
                   DecoderDescription& d) {
  BALLAST_TRY(const uint64_t context, config.count_or("max_position_embeddings", defaults.context));
  const auto parse = [&](JsonObject own) {
    return RopeFields(rules, config, std::move(own), context).parse(d.head_dim, defaults.theta);
  };
  if (rules.has_local) {
    BALLAST_TRY(RopePair pair, rope_pair(config));
    const bool has_theta = pair.local.has("rope_theta");
    BALLAST_TRY(d.local_rope, parse(std::move(pair.local)));
    if (!has_theta) d.local_rope.theta = pair.local_theta;
    BALLAST_TRY(d.rope, parse(std::move(pair.full)));
  } else {
    BALLAST_TRY(JsonObject settings, hf_rope_settings(rules, config));
    BALLAST_TRY(d.rope, parse(std::move(settings)));
  }
  d.context = stretched(context, d.rope.scaling);
  return {};
}

}  // namespace ballast
