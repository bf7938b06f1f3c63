#include "ballast/backends/reference/reference.h"

#include "ballast/backends/reference/access.h"

namespace ballast {

namespace {

void add_reference_implementations(Registry& registry) {
  using namespace reference;  // NOLINT: a list of its families
  for (const auto add_family :
       {add_activation, add_attention, add_conv, add_embedding, add_experts, add_linalg, add_losses, add_metrics,
        add_normalization, add_pooling, add_reduction, add_rotary, add_shape, add_tensor_ops, add_updates}) {
    add_family(registry);
  }
}

}  // namespace

constinit const Backend kReferenceBackend = {
    .name = "reference",
    .summary = "slow and obvious, f32 and f64: the measure of the others",
    .open_device = open_host_device,
    .level = [] { return std::string_view("scalar"); },
    .block_arithmetic = [](DType, Numerics) { return std::string_view("f32"); },
    .add_implementations = add_reference_implementations,
};

}  // namespace ballast
