// The built-in implementation of every functional: one function per family, called by the registry's constructor.
#pragma once

#include "ballast/ops/registry.h"

namespace ballast::ops {

void add_activation(Registry& registry);
void add_attention(Registry& registry);
void add_batch_norm(Registry& registry);
void add_conv(Registry& registry);
void add_conv_transpose(Registry& registry);
void add_element_loss(Registry& registry);
void add_embedding(Registry& registry);
void add_experts(Registry& registry);
void add_group_norm(Registry& registry);
void add_linalg(Registry& registry);
void add_loss(Registry& registry);
void add_normalization(Registry& registry);
void add_pooling(Registry& registry);
void add_reduction(Registry& registry);
void add_rotary(Registry& registry);
void add_rotary_order(Registry& registry);
void add_sampling(Registry& registry);
void add_shape(Registry& registry);
void add_stochastic(Registry& registry);
void add_tensor_ops(Registry& registry);

// An implementation under the name that the table gives the built-in one.
template <typename Args>
void add_builtin(Registry& registry, bool (*supports)(const Context&, const Args&),
                 Result<Tensor> (*run)(Context&, const Args&)) {
  const std::string_view name = find_functional(Args::kFunctional)->builtin;
  (void)registry.add(Implementation<Args>{std::string(name), supports, run});  // cannot fail: it is the first
}

}  // namespace ballast::ops
