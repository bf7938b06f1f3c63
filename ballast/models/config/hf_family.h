// A row of hf_config.cc's table: what a model_type means where config.json does not say, and which rules its keys
// follow.
#pragma once

#include <string_view>

#include "ballast/models/config/hf_rope.h"

namespace ballast {

// Which layers see only a window.
enum class WindowRule : uint8_t {
  kNever,
  kEvery,        // layer
  kFromLayer,    // max_window_layers on, if use_sliding_window
  kEveryIfUsed,  // if use_sliding_window
  kEvenBelow,    // even layers below max_window_layers, if use_sliding_window
  kEven,
  kPattern,  // all but every sixth (sliding_window_pattern)
  kNope,     // those without rope, if use_sliding_window
};

enum class BiasRule : uint8_t {
  kNone,
  kAttention,  // "attention_bias": all four
  kByConfig,   // and "mlp_bias": the feed-forward part
  kQkv,
  kQkvByConfig,  // "qkv_bias"
};

struct HfSizes {
  uint64_t vocab, width, hidden, layers, heads, context;
};

struct HfFamily;
using DescribeHf = Result<DecoderDescription> (*)(const HfFamily& family, const JsonObject& config);
using RefineHf = Status (*)(const HfFamily& family, const JsonObject& config, DecoderDescription& d);

struct HfFamily {
  std::string_view model_type;
  const DecoderNaming* naming = &kHuggingFaceNaming;
  // Where config.json does not say: files have what differs from this, above all inside "text_config".
  HfSizes sizes;
  double eps = 1e-6;
  double theta = 10'000;
  uint64_t kv_heads = 0;  // 0: as many as query heads
  uint64_t head_dim = 0;  // 0: width / heads
  bool tied = false;
  uint64_t window = 0;

  WindowRule window_rule = WindowRule::kNever;
  bool lists_layers = false;  // "layer_types" has a say in it
  BiasRule bias = BiasRule::kNone;
  bool qk_norm = false;
  RefineHf refine = nullptr;      // what no other family has
  DescribeHf describe = nullptr;  // instead of describe_like_llama
  HfRopeRules rope{};
};

// hf_layers.cc: which layers have a window, and which no rope.
Status set_hf_layers(const HfFamily& family, const JsonObject& config, uint64_t layers, DecoderDescription& d);

}  // namespace ballast
