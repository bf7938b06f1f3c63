// What add_host_implementations adds: one function per family, with its functionals and their routines.
#pragma once

#include "ballast/ops/registry.h"

namespace ballast::host {

void add_activation(Registry& registry);
void add_attention(Registry& registry);
void add_batch_norm(Registry& registry);
void add_conv(Registry& registry);
void add_element_loss(Registry& registry);
void add_embedding(Registry& registry);
void add_experts(Registry& registry);
void add_group_norm(Registry& registry);
void add_linalg(Registry& registry);
void add_loss(Registry& registry);
void add_margin_logits(Registry& registry);
void add_normalization(Registry& registry);
void add_pooling(Registry& registry);
void add_reduction(Registry& registry);
void add_rotary(Registry& registry);
void add_rotary_order(Registry& registry);
void add_sampling(Registry& registry);
void add_shape(Registry& registry);
void add_square_distances(Registry& registry);
void add_stochastic(Registry& registry);
void add_tensor_ops(Registry& registry);
void add_updates(Registry& registry);

}  // namespace ballast::host
