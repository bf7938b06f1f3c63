#include "ballast/edit/quantize_presets.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>

#include "ballast/base/near_miss.h"
#include "ballast/tensor/blocks.h"

namespace ballast {

namespace {

// ---------------------------------------------------------------- the presets

constexpr QuantizationPreset kPresets[] = {
    {"q2_k", DType::kQ2K, 10, "2 bits, 3 and 4 where it hurts: the smallest, noticeably worse"},
    {"q3_k_s", DType::kQ3K, 11, "3 bits throughout"},
    {"q3_k_m", DType::kQ3K, 12, "3 bits, 4 and 5 in values, attention outputs and feed-forward outputs"},
    {"q3_k_l", DType::kQ3K, 13, "3 bits, 5 in values, attention outputs and feed-forward outputs"},
    {"q4_0", DType::kQ4_0, 2, "4 bits in blocks of 32, the oldest form"},
    {"q4_1", DType::kQ4_1, 3, "4 bits in blocks of 32 with a minimum"},
    {"q4_k_s", DType::kQ4K, 14, "4 bits, 5 in the first layers"},
    {"q4_k_m", DType::kQ4K, 15, "4 bits, 6 in half of the values and feed-forward outputs: the usual choice"},
    {"q5_0", DType::kQ5_0, 8, "5 bits in blocks of 32"},
    {"q5_1", DType::kQ5_1, 9, "5 bits in blocks of 32 with a minimum"},
    {"q5_k_s", DType::kQ5K, 16, "5 bits throughout"},
    {"q5_k_m", DType::kQ5K, 17, "5 bits, 6 in half of the values and feed-forward outputs"},
    {"q6_k", DType::kQ6K, 18, "6 bits: hardly worse than f16"},
    {"q8_0", DType::kQ8_0, 7, "8 bits: practically lossless"},
    {"f16", DType::kF16, 1, "half precision"},
    {"bf16", DType::kBF16, 32, "the upper half of f32"},
};

struct PresetAlias {
  std::string_view name;
  std::string_view preset;
};
constexpr PresetAlias kAliases[] = {{"q3_k", "q3_k_m"}, {"q4_k", "q4_k_m"}, {"q5_k", "q5_k_m"}};

// ---------------------------------------------------------------- the mixtures

// Which layers a rule is for; of n.
enum class Layers : uint8_t {
  kAll,
  kFirstTwo,
  kFirstFour,
  kFirstSixteenth,
  kFirstEighth,
  kMoreBits,  // the first eighth, the last, and every third between
};

enum class When : uint8_t {
  kAlways,
  kSharedKeys,      // four query heads or more to a key: values are small then
  kManySharedKeys,  // models of 80 layers with shared keys (llama's 70B)
  kEightExperts,    // the attention is small beside them
  kCalibrated,
};

struct MixRule {
  std::string_view preset;  // empty: every quantised one
  TensorRole role;
  Layers layers;
  When when;
  DType type;
};

using enum TensorRole;

// The first that applies decides. A model with eight experts gets its own types before all others.
constexpr MixRule kMixRules[] = {
    {"q8_0", kOutput, Layers::kAll, When::kAlways, DType::kQ8_0},
    {"", kOutput, Layers::kAll, When::kAlways, DType::kQ6K},
    {"", kValue, Layers::kAll, When::kEightExperts, DType::kQ8_0},
    {"", kKey, Layers::kAll, When::kEightExperts, DType::kQ8_0},
    {"q2_k", kAttentionOutput, Layers::kAll, When::kEightExperts, DType::kQ5K},
    {"q3_k_s", kAttentionOutput, Layers::kAll, When::kEightExperts, DType::kQ5K},
    {"q3_k_m", kAttentionOutput, Layers::kAll, When::kEightExperts, DType::kQ5K},
    {"q4_k_s", kAttentionOutput, Layers::kAll, When::kEightExperts, DType::kQ5K},
    {"q4_k_m", kAttentionOutput, Layers::kAll, When::kEightExperts, DType::kQ5K},

    {"q2_k", kValue, Layers::kAll, When::kManySharedKeys, DType::kQ5K},
    {"q2_k", kValue, Layers::kAll, When::kSharedKeys, DType::kQ4K},
    {"q2_k", kValue, Layers::kAll, When::kAlways, DType::kQ3K},
    {"q2_k", kFeedDown, Layers::kAll, When::kAlways, DType::kQ3K},
    {"q2_k", kAttentionOutput, Layers::kAll, When::kAlways, DType::kQ3K},

    {"q3_k_s", kValue, Layers::kAll, When::kManySharedKeys, DType::kQ5K},

    {"q3_k_m", kValue, Layers::kAll, When::kManySharedKeys, DType::kQ5K},
    {"q3_k_m", kValue, Layers::kFirstTwo, When::kAlways, DType::kQ5K},
    {"q3_k_m", kValue, Layers::kAll, When::kAlways, DType::kQ4K},
    {"q3_k_m", kFeedDown, Layers::kFirstSixteenth, When::kAlways, DType::kQ5K},
    {"q3_k_m", kFeedDown, Layers::kAll, When::kAlways, DType::kQ4K},
    {"q3_k_m", kAttentionOutput, Layers::kAll, When::kAlways, DType::kQ4K},

    {"q3_k_l", kValue, Layers::kAll, When::kAlways, DType::kQ5K},
    {"q3_k_l", kFeedDown, Layers::kAll, When::kAlways, DType::kQ5K},
    {"q3_k_l", kAttentionOutput, Layers::kAll, When::kEightExperts, DType::kQ3K},
    {"q3_k_l", kAttentionOutput, Layers::kAll, When::kAlways, DType::kQ5K},

    {"q4_0", kFeedDown, Layers::kFirstEighth, When::kCalibrated, DType::kQ4_1},
    {"q5_0", kFeedDown, Layers::kFirstEighth, When::kCalibrated, DType::kQ5_1},

    {"q4_k_s", kValue, Layers::kAll, When::kManySharedKeys, DType::kQ5K},
    {"q4_k_s", kValue, Layers::kFirstFour, When::kAlways, DType::kQ5K},
    {"q4_k_s", kFeedDown, Layers::kFirstEighth, When::kAlways, DType::kQ5K},

    {"q4_k_m", kValue, Layers::kMoreBits, When::kAlways, DType::kQ6K},
    {"q4_k_m", kValue, Layers::kAll, When::kManySharedKeys, DType::kQ5K},
    {"q4_k_m", kFeedDown, Layers::kMoreBits, When::kAlways, DType::kQ6K},

    {"q5_k_m", kValue, Layers::kMoreBits, When::kAlways, DType::kQ6K},
    {"q5_k_m", kFeedDown, Layers::kMoreBits, When::kAlways, DType::kQ6K},
};

bool is_among(Layers layers, uint64_t layer, uint64_t count) {
  switch (layers) {
    case Layers::kAll: return true;
    case Layers::kFirstTwo: return layer < 2;
    case Layers::kFirstFour: return layer < 4;
    case Layers::kFirstSixteenth: return layer < count / 16;
    case Layers::kFirstEighth: return layer < count / 8;
    case Layers::kMoreBits: break;
  }
  return layer < count / 8 || layer >= 7 * count / 8 || (layer - count / 8) % 3 == 2;
}

// ---------------------------------------------------------------- what a name says

struct RolePattern {
  TensorRole role;
  const char* pattern;
};
// Names of GGUF, Hugging Face (llama and its like, gpt2, bert) and gpt.rs. The first that finds a name decides.
constexpr RolePattern kRolePatterns[] = {
    {kEmbedding, "^token_embd\\.weight$|(^|\\.)(embed_tokens|wte|word_embeddings|tok_embeddings)\\.weight$"},
    {kOutput, "^output\\.weight$|(^|\\.)lm_head(\\.weight)?$"},
    // What holds queries, keys and values at once is as sensitive as its most sensitive part.
    {kValue, "\\.attn_(v|qkv)\\.weight$|\\.(v_proj|self\\.value|w_v|qkv_proj|c_attn|w_qkv)(\\.weight)?$"},
    {kKey, "\\.attn_k\\.weight$|\\.(k_proj|self\\.key|w_k)(\\.weight)?$"},
    {kAttentionOutput,
     "\\.attn_output\\.weight$|\\.(o_proj|attn\\.c_proj|attention\\.output\\.dense|attention\\.w_out)(\\.weight)?$"},
    {kFeedDown,
     "\\.ffn_down|\\.(down_proj|mlp\\.c_proj|output\\.dense|feed_forward\\.w_out|experts\\.\\d+\\.w2)(\\.weight)?$"},
};

// The first segment that is a number: "model.layers.3.mlp.experts.7.w2" -> 3.
std::optional<uint64_t> number_in(std::string_view name) {
  while (!name.empty()) {
    const std::string_view segment = name.substr(0, name.find('.'));
    uint64_t number = 0;
    const auto [end, failure] = std::from_chars(segment.data(), segment.data() + segment.size(), number);
    if (failure == std::errc() && end == segment.data() + segment.size()) return number;
    name.remove_prefix(std::min(name.size(), segment.size() + 1));
  }
  return std::nullopt;
}

// How many experts a name or a stack of matrices shows.
uint64_t experts_shown(const TensorInfo& tensor) {
  constexpr std::string_view kExperts = ".experts.";
  const size_t at = tensor.name.find(kExperts);
  if (at != std::string::npos) {
    const auto number = number_in(std::string_view(tensor.name).substr(at + kExperts.size()));
    if (number) return *number + 1;
  }
  return tensor.shape.rank() == 3 ? tensor.shape[0] : 0;
}

std::string lower_case(std::string_view text) {
  std::string lower(text);
  for (char& c : lower) c = c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
  return lower;
}

}  // namespace

std::span<const QuantizationPreset> all_quantization_presets() { return kPresets; }

Result<const QuantizationPreset*> find_quantization_preset(std::string_view name) {
  std::string wanted = lower_case(name);
  const auto* const alias = std::ranges::find(kAliases, wanted, &PresetAlias::name);
  if (alias != std::end(kAliases)) wanted = alias->preset;
  const auto* const found = std::ranges::find(kPresets, wanted, &QuantizationPreset::name);
  if (found != std::end(kPresets)) return found;
  std::vector<std::string_view> names;
  for (const QuantizationPreset& preset : kPresets) names.push_back(preset.name);
  const std::string_view near = nearest(wanted, names);
  return make_error(ErrorCode::kInvalidArgument,
                    fmt::format("unknown type \"{}\"{}; available: {} (in any case)", name,
                                near.empty() ? "" : fmt::format(", did you mean {}?", near), fmt::join(names, ", ")));
}

std::optional<DType> find_quantization_type(std::string_view name) {
  const auto type = parse_dtype(lower_case(name));
  if (!type) return std::nullopt;
  const bool is_float = *type == DType::kF64 || *type == DType::kF32 || *type == DType::kF16 || *type == DType::kBF16;
  return is_float || can_quantize(*type) ? type : std::nullopt;
}

Result<QuantizationMixture> QuantizationMixture::make(const QuantizationPreset& preset, const Description& model,
                                                      bool is_calibrated) {
  QuantizationMixture mixture;
  mixture.preset_ = &preset;
  mixture.is_calibrated_ = is_calibrated;
  for (const RolePattern& row : kRolePatterns) {
    BALLAST_TRY(Pattern pattern, Pattern::compile(row.pattern));
    mixture.patterns_.push_back(std::move(pattern));
  }
  BALLAST_CHECK(mixture.study(model));
  return mixture;
}

Result<QuantizationMixture::Place> QuantizationMixture::place_of(const std::string& name) const {
  for (size_t i = 0; i < patterns_.size(); ++i) {
    BALLAST_TRY(const bool found, patterns_[i].found_in(name));
    if (found) return Place{kRolePatterns[i].role, number_in(name).value_or(0)};
  }
  return Place{};
}

// Queries are as tall as the attention's output is wide, so heads need no names of their own.
Status QuantizationMixture::study(const Description& model) {
  uint64_t query_rows = 0;
  uint64_t key_rows = 0;
  for (const TensorInfo& tensor : model.tensors) {
    if (tensor.shape.rank() < 2) continue;
    BALLAST_TRY(const Place place, place_of(tensor.name));
    if (place.role == kOther) continue;
    has_output_ = has_output_ || place.role == kOutput;
    if (place.role == kEmbedding || place.role == kOutput) continue;
    layers_ = std::max(layers_, place.layer + 1);
    if (place.role == kFeedDown) experts_ = std::max(experts_, experts_shown(tensor));
    if (place.role == kKey) key_rows = tensor.shape[0];
    if (place.role == kAttentionOutput) query_rows = tensor.shape[1];
  }
  if (key_rows != 0 && query_rows != 0) heads_per_key_ = std::max<uint64_t>(1, query_rows / key_rows);
  return {};
}

Result<DType> QuantizationMixture::type_of(const std::string& name) const {
  if (!is_block(preset_->base)) return preset_->base;
  BALLAST_TRY(Place place, place_of(name));
  // Models without an output matrix use the embedding in its place.
  if (place.role == kEmbedding && !has_output_) place.role = kOutput;
  const auto holds = [this](When when) {
    switch (when) {
      case When::kAlways: return true;
      case When::kSharedKeys: return heads_per_key_ >= 4;
      case When::kManySharedKeys: return heads_per_key_ > 1 && layers_ == 80;
      case When::kEightExperts: return experts_ == 8;
      case When::kCalibrated: break;
    }
    return is_calibrated_;
  };
  for (const MixRule& rule : kMixRules) {
    if (rule.role != place.role || (!rule.preset.empty() && rule.preset != preset_->name)) continue;
    if (holds(rule.when) && is_among(rule.layers, place.layer, layers_)) return rule.type;
  }
  return preset_->base;
}

}  // namespace ballast
