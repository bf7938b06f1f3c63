#include "ballast/models/hf_rope.h"

#include <fmt/format.h>

#include <cmath>

namespace ballast {

namespace {

// Published files always say; this only bounds what is asked for.
constexpr uint64_t kContextUnsaid = 32'768;

using Kind = ops::RopeScaling::Kind;

// One set of settings: its own object first, then the top of config.json.
class RopeFields {
 public:
  RopeFields(const HfRopeRules& rules, const ConfigReader& top, ConfigReader own, uint64_t context)
      : rules_(rules), top_(top), own_(std::move(own)), context_(context) {}

  Result<ops::RopeConfig> parse(uint64_t head_dim, double theta) const {
    ops::RopeConfig rope;
    BALLAST_TRY(rope.theta, either("rope_theta", theta));
    BALLAST_TRY(const double part, either("partial_rotary_factor", 1));
    if (!(part > 0 && part <= 1)) return own_.error("partial_rotary_factor", fmt::format("is {}", part));
    rope.rotary_dim = static_cast<uint64_t>(static_cast<double>(head_dim) * part);
    BALLAST_TRY(rope.scaling, scaling());
    return rope;
  }

 private:
  Result<double> either(std::string_view field, double otherwise) const {
    return own_.has(field) ? own_.number(field) : top_.number_or(field, otherwise);
  }

  Result<uint64_t> original_context() const {
    const uint64_t otherwise = rules_.original_context != 0 ? rules_.original_context : context_;
    BALLAST_TRY(const uint64_t own, own_.count_or("original_max_position_embeddings", otherwise));
    return top_.count_or("original_max_position_embeddings", own);
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
    if (own_.has("attention_factor")) BALLAST_CHECK(assign(s.attention_factor, own_.number("attention_factor")));
    if (s.kind == Kind::kDynamic) s.original_context = context_;
    if (s.kind == Kind::kLlama3) {
      BALLAST_TRY(s.low_frequency, own_.number("low_freq_factor"));
      BALLAST_TRY(s.high_frequency, own_.number("high_freq_factor"));
    }
    if (s.kind == Kind::kYarn) BALLAST_CHECK(set_yarn(s));
    if (s.kind == Kind::kLongRope) {
      BALLAST_TRY(s.short_factors, own_.numbers("short_factor"));
      BALLAST_TRY(s.long_factors, own_.numbers("long_factor"));
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
  const ConfigReader& top_;
  ConfigReader own_;
  uint64_t context_;
};

Result<ConfigReader> object_or_nothing(const ConfigReader& config, std::string_view field) {
  return config.has(field) ? config.object(field) : ConfigReader::parse(field, "null");
}

// A text may be longer than the positions that the file speaks of, where scaling stretches them on the way.
uint64_t stretched(uint64_t context, const ops::RopeScaling& scaling) {
  if (scaling.kind != Kind::kDynamic || !(scaling.factor > 1)) return context;
  const double most = std::floor(static_cast<double>(context) * scaling.factor);
  return most < 0x1p53 ? static_cast<uint64_t>(most) : context;
}

}  // namespace

Status set_hf_rope(const HfRopeRules& rules, const ConfigReader& config, double theta, DecoderDescription& d) {
  BALLAST_TRY(const uint64_t context, config.count_or("max_position_embeddings", kContextUnsaid));
  const auto parse = [&](ConfigReader own, double otherwise) {
    return RopeFields(rules, config, std::move(own), context).parse(d.head_dim, otherwise);
  };
  const bool is_new = config.has("rope_parameters");
  BALLAST_TRY(ConfigReader main, object_or_nothing(config, is_new ? "rope_parameters" : "rope_scaling"));
  BALLAST_TRY(ConfigReader local, object_or_nothing(main, "sliding_attention"));
  if (main.has("full_attention")) {
    BALLAST_TRY(ConfigReader full, main.object("full_attention"));
    main = std::move(full);
  }
  BALLAST_TRY(d.rope, parse(std::move(main), theta));
  d.context = stretched(context, d.rope.scaling);
  if (!rules.has_local) return {};
  if (is_new) return assign(d.local_rope, parse(std::move(local), theta));
  BALLAST_TRY(d.local_rope, parse(std::move(local), theta));
  return assign(d.local_rope.theta, config.number_or("rope_local_base_freq", 10'000));
}

}  // namespace ballast
