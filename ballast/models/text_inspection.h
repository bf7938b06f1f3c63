// What happens inside a text model on the way to its prediction: the states that each layer leaves, and what its heads
// look at.
#pragma once

#include <span>
#include <vector>

#include "ballast/models/model.h"

namespace ballast {

struct TextInspection {
  struct Layer {
    Tensor states;  // [t, width], what the layer leaves: for LayerViews::predict_from()
    Tensor qkv;     // packed, as its attention takes them
  };
  Tensor logits;  // [t, v]
  std::vector<Layer> layers;
};

// One pass over a text. kUnsupported for a model without layer_views(). Nobody else may trace the context meanwhile.
Result<TextInspection> inspect_text(const CausalLm& model, Context& context, std::span<const TokenId> ids);

// Of all heads of a layer, [heads, t, t]: how much of each position (a column) goes into each query (a row). A row has
// the sum 1.
Result<std::vector<float>> attention_weights(const ops::AttentionConfig& config, const Tensor& qkv);

}  // namespace ballast
