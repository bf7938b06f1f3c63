// The order of the channels that rotary embeddings turn together, with its arguments for those who add implementations.
#pragma once

#include <string>
#include <string_view>

#include "ballast/ops/ops.h"

namespace ballast::ops {

// Queries and keys of packed [t, q | k | v] from RopeLayout::kPairs to kHalves: of each head first the even channels,
// then the odd ones. Values stay. Heads must have an even number of channels.
Result<Tensor> pairs_to_halves(Context& context, const AttentionConfig& config, const Tensor& qkv);

struct PairsToHalvesArgs {
  static constexpr std::string_view kFunctional = "pairs_to_halves";
  const AttentionConfig& config;
  const Tensor& qkv;

  Status check() const;
  std::string text() const;
  void record(Tape& tape, const Tensor& y) const;
};

}  // namespace ballast::ops
