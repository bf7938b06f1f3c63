#include <algorithm>
#include <array>

#include "ballast/ops/registry.h"

namespace ballast {

namespace {

constexpr auto kRoutines = std::to_array<RoutineInfo>({
    {"unary_gradient", "gradients of activations"},
    {"choice_gradient", "gradients of the larger and the smaller of two"},
    {"clamp_gradient", "gradients of clamp"},
    {"prelu_gradient", "gradients of prelu"},
    {"softmax_gradient", "gradients of softmax"},
    {"column_sums", "sums of columns"},
    {"spread_all", "gradients of sums"},
    {"spread_rows", "gradients of sums of rows"},
    {"add_slice", "gradients of slices"},
    {"scatter_rows", "gradients of embeddings"},
    {"transposed_product", "gradients of weights"},
    {"attention_gradient", "gradients of attention"},
    {"halves_to_pairs", "gradients of the order of channels"},
    {"conv2d_gradient", "gradients of convolutions"},
    {"norm_gradient", "gradients of layer norm and RMS norm"},
    {"batch_norm_gradient", "gradients of batch norm"},
    {"group_norm_gradient", "gradients of group norm"},
    {"max_pool2d_gradient", "gradients of the largest of windows"},
    {"avg_pool2d_gradient", "gradients of the mean of windows"},
    {"global_mean_pool_gradient", "gradients of the mean over positions"},
    {"upsample2d_gradient", "gradients of larger images"},
    {"cross_entropy_gradient", "gradients of cross-entropy"},
    {"hinge_loss_gradient", "gradients of the hinge loss"},
    {"element_loss_gradient", "gradients of losses per element"},
    {"square_distances_gradient", "gradients of distances"},
    {"margin_logits_gradient", "gradients of margins"},
    {"accumulate", "sums of gradients"},
    {"scale", "scaled gradients"},
    {"square_sum", "the norm of gradients"},
    {"sgd", "the updates of SGD"},
    {"adam", "the updates of Adam"},
    {"rmsprop", "the updates of RMSProp"},
    {"fill", "tensors of one value", false},
    {"rope_tables", "the angles of positions", false},
});

}  // namespace

std::span<const RoutineInfo> all_routines() { return kRoutines; }

const RoutineInfo* find_routine(std::string_view name) {
  const auto at = std::ranges::find(kRoutines, name, &RoutineInfo::name);
  return at == kRoutines.end() ? nullptr : &*at;
}

}  // namespace ballast
