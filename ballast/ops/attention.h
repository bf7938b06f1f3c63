// Arguments of the attentions, for those who add implementations.
#pragma once

#include <cmath>
#include <string>
#include <string_view>

#include "ballast/ops/ops.h"

namespace ballast::ops {

struct AttentionArgs {
  static constexpr std::string_view kFunctional = "attention";
  const AttentionConfig& config;
  const Tensor& qkv;

  Status check() const;
  std::string text() const;
  void record(Tape& tape, const Tensor& y) const;
};

// An implementation writes keys and values into the pages; running it again must leave the same there.
struct AttentionDecodeCacheArgs {
  static constexpr std::string_view kFunctional = "attention_decode_cache";
  const AttentionConfig& config;
  const Tensor& qkv;
  std::span<const KvRows> parts;  // one at least, all of one layout
  uint64_t layer;

  const KvLayout& layout() const { return *parts.front().past->layout; }
  // The pages of the layer.
  std::span<const KvPage> pages(const KvRows& part) const { return part.past->pages[layout().group_of(layer)]; }

  Status check() const;
  std::string text() const;

 private:
  Status check_layout() const;
  Status check_part(const KvRows& part) const;
};

struct AttentionDecodeTurnedArgs {
  static constexpr std::string_view kFunctional = "attention_decode_turned";
  const TurnOptions& turn;
  AttentionDecodeCacheArgs attention;  // of qkv as it is before it is turned

  Status check() const;
  std::string text() const;
  bool is_taken_apart(const Context& context) const;
  Result<Tensor> run_in_steps(Context& context) const;
};

template <typename T>
T score_scale(const AttentionConfig& config) {
  return config.scale != 0 ? static_cast<T>(config.scale) : T{1} / std::sqrt(static_cast<T>(config.head_dim));
}

// qkv is [t, q | k | v] for this configuration, t a multiple of its sequences.
Status check_packed(const AttentionConfig& config, const Tensor& qkv);

}  // namespace ballast::ops
