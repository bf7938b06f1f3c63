// The built-in layers, by the file that has them.
#pragma once

#include <vector>

#include "ballast/nn/layer_table.h"

namespace ballast::nn {

void add_activation_layers(std::vector<LayerType>& rows);
void add_linear_layers(std::vector<LayerType>& rows);
void add_image_layers(std::vector<LayerType>& rows);
void add_pooling_layers(std::vector<LayerType>& rows);
void add_norm_layers(std::vector<LayerType>& rows);
void add_embedding_layers(std::vector<LayerType>& rows);
void add_attention_layers(std::vector<LayerType>& rows);
void add_block_layers(std::vector<LayerType>& rows);
void add_nested_layers(std::vector<LayerType>& rows);

}  // namespace ballast::nn
