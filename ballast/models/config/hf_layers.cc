#include <fmt/format.h>

#include "ballast/models/config/hf_family.h"

namespace ballast {

namespace {

Result<uint64_t> window_of(const HfFamily& family, const JsonObject& config) {
  const WindowRule rule = family.window_rule;
  const bool needs_switch = rule == WindowRule::kFromLayer || rule == WindowRule::kEveryIfUsed ||
                            rule == WindowRule::kEvenBelow || rule == WindowRule::kNope;
  BALLAST_TRY(const bool used, config.truth_or("use_sliding_window", !needs_switch));
  if (rule == WindowRule::kNever || (needs_switch && !used)) return uint64_t{0};
  if (!config.mentions("sliding_window")) return family.window;
  return config.count_or("sliding_window", 0);
}

// Whether layer `i` is one of those with a window, where no list says so.
struct WindowPattern {
  WindowRule rule = WindowRule::kNever;
  uint64_t from = 0;     // max_window_layers
  uint64_t pattern = 0;  // sliding_window_pattern
  uint64_t window = 0;

  static Result<WindowPattern> parse(const HfFamily& family, const JsonObject& config) {
    WindowPattern p;
    p.rule = family.window_rule;
    BALLAST_TRY(p.window, window_of(family, config));
    BALLAST_TRY(p.from, config.count_or("max_window_layers", 28));
    BALLAST_TRY(p.pattern, config.count_or("sliding_window_pattern", 6));
    if (p.pattern == 0) return config.error("sliding_window_pattern", "is 0");
    return p;
  }

  bool is_local(uint64_t layer, const DecoderLayer& made) const {
    switch (rule) {
      case WindowRule::kNever: return false;
      case WindowRule::kEvery:
      case WindowRule::kEveryIfUsed: return window != 0;
      case WindowRule::kFromLayer: return window != 0 && layer >= from;
      case WindowRule::kEvenBelow: return window != 0 && layer % 2 == 0 && layer < from;
      case WindowRule::kEven: return window != 0 && layer % 2 == 0;
      case WindowRule::kPattern: return (layer + 1) % pattern != 0;
      case WindowRule::kNope: return window != 0 && made.rope == DecoderLayer::Rope::kNone;
    }
    return false;
  }
};

// "layer_types": one word per layer; empty where there is none.
class LayerTypes {
 public:
  static Result<LayerTypes> parse(const JsonObject& config, uint64_t layers) {
    LayerTypes types;
    if (!config.has(kField)) return types;
    BALLAST_TRY(types.words_, config.texts(kField));
    if (types.words_.size() == layers) return types;
    return config.error(kField, fmt::format("has {} entries for {} layers", types.words_.size(), layers));
  }

  // `by_rule`: what holds without a list.
  Result<bool> is_local(const HfFamily& family, const JsonObject& config, uint64_t layer, uint64_t window,
                        bool by_rule) const {
    if (words_.empty()) return by_rule;
    const std::string& word = words_[layer];
    if (word != "sliding_attention" && word != "full_attention") {
      return config.error(kField, fmt::format("says \"{}\" for layer {}: sliding_attention or full_attention is what "
                                              "there is",
                                              word, layer));
    }
    const bool local = word == "sliding_attention";
    if (!family.lists_layers && local != by_rule) {
      return config.error(kField, fmt::format("says \"{}\" for layer {}, against the rule of {} models, which have no "
                                              "such list",
                                              word, layer, family.model_type));
    }
    if (!local || window != 0) return local;
    return config.error(kField, fmt::format("says \"{}\" for layer {}, but there is no sliding_window, or "
                                            "use_sliding_window is false",
                                            word, layer));
  }

 private:
  static constexpr std::string_view kField = "layer_types";
  std::vector<std::string> words_;
};

// Layers without rope, of families that have such.
class NopeLayers {
 public:
  static Result<NopeLayers> parse(const HfFamily& family, const JsonObject& config, uint64_t layers) {
    NopeLayers nope;
    if (family.window_rule != WindowRule::kNope) return nope;
    BALLAST_TRY(nope.interval_, config.count_or("no_rope_layer_interval", 4));
    if (nope.interval_ == 0) return config.error("no_rope_layer_interval", "is 0");
    if (!config.has("no_rope_layers")) return nope;
    BALLAST_TRY(nope.with_rope_, config.counts("no_rope_layers"));
    if (nope.with_rope_.size() >= layers) return nope;
    return config.error("no_rope_layers", fmt::format("has {} entries for {} layers", nope.with_rope_.size(), layers));
  }

  bool has(uint64_t layer) const {
    if (interval_ == 0) return false;
    return with_rope_.empty() ? (layer + 1) % interval_ == 0 : with_rope_[layer] == 0;
  }

 private:
  uint64_t interval_ = 0;
  std::vector<uint64_t> with_rope_;  // the key says the opposite of what it means
};

}  // namespace

Status set_hf_layers(const HfFamily& family, const JsonObject& config, uint64_t layers, DecoderDescription& d) {
  BALLAST_TRY(const WindowPattern pattern, WindowPattern::parse(family, config));
  BALLAST_TRY(const LayerTypes types, LayerTypes::parse(config, layers));
  BALLAST_TRY(const NopeLayers nope, NopeLayers::parse(family, config, layers));
  d.layers.resize(layers);
  for (uint64_t i = 0; i < layers; ++i) {
    DecoderLayer& layer = d.layers[i];
    if (nope.has(i)) layer.rope = DecoderLayer::Rope::kNone;
    BALLAST_TRY(const bool local, types.is_local(family, config, i, pattern.window, pattern.is_local(i, layer)));
    if (local) layer.window = pattern.window;
    if (local && family.rope.has_local) layer.rope = DecoderLayer::Rope::kLocal;
  }
  return {};
}

}  // namespace ballast
