// Attention inside layers: a projection to queries, keys and values, the heads, and a projection back.
#pragma once

#include <string>

#include "ballast/nn/layer_args.h"
#include "ballast/nn/parts.h"

namespace ballast::nn {

class AttentionLayer : public PartsLayer {
 protected:
  struct AttentionPart {
    LinearPart qkv;      // one map for all three, or
    LinearPart q, k, v;  // one for each
    LinearPart out;
    uint64_t features = 0, heads = 1;
    bool causal = true;
    float dropout = 0;  // of the result
    // Turned by position where this is not 0, in adjacent pairs.
    double rope_base = 0;
    size_t q_norm = kNone, k_norm = kNone;
    float eps = 0;

    uint64_t head_dim() const { return features / heads; }
  };
  // x [sequences, length, features], or one sequence [length, features].
  Result<Tensor> run_attention(Pass& pass, const AttentionPart& part, const Tensor& x) const;

 private:
  Result<Tensor> project(Pass& pass, const AttentionPart& part, const Tensor& rows) const;
  Result<Tensor> rotate(Pass& pass, const AttentionPart& part, const Tensor& packed, uint64_t sequences) const;
};

// kInvalidArgument where the heads do not divide the features.
Status check_heads(const LayerArgs& args, uint64_t features, uint64_t heads);
Result<float> dropout_rate(const LayerArgs& args);

}  // namespace ballast::nn
