#include "ballast/backends/host/implementations.h"

#include <fmt/format.h>

#include "ballast/backends/host/kernel_access.h"

namespace ballast {

namespace host {

Error no_gradient_kernel(const Context& context, std::string_view kernel) {
  return make_error(ErrorCode::kUnsupported, fmt::format("the backend \"{}\" cannot train: it has no kernel for {}",
                                                         context.backend().name, kernel));
}

}  // namespace host

void add_host_implementations(Registry& registry) {
  for (const auto add_family :
       {host::add_activation,   host::add_attention, host::add_batch_norm,       host::add_conv,
        host::add_element_loss, host::add_embedding, host::add_experts,          host::add_group_norm,
        host::add_linalg,       host::add_loss,      host::add_margin_logits,    host::add_normalization,
        host::add_pooling,      host::add_reduction, host::add_rotary,           host::add_rotary_order,
        host::add_sampling,     host::add_shape,     host::add_square_distances, host::add_stochastic,
        host::add_tensor_ops,   host::add_updates}) {
    add_family(registry);
  }
}

}  // namespace ballast
