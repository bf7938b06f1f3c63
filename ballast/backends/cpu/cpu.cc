#include "ballast/backends/cpu/cpu.h"

#include "ballast/backends/cpu/block_kernels.h"
#include "ballast/backends/cpu/gradients.h"
#include "ballast/backends/cpu/kernels.h"
#include "ballast/backends/cpu/targets.h"
#include "ballast/backends/cpu/tile_level.h"
// After targets.h.
#include <hwy/highway.h>

namespace ballast {
namespace {

std::string_view level_name(int64_t target) {
  switch (target) {
    case HWY_AVX3: return "avx512";
    case HWY_AVX2: return "avx2";
    case HWY_SSE4: return "sse4";
    case HWY_EMU128:
    case HWY_SCALAR: return "scalar";
    // Each architecture has one more, under a name that depends on the version of Highway.
    default: return HWY_ARCH_X86 ? "sse2" : HWY_ARCH_ARM ? "neon" : "vector";
  }
}

// The best has the lowest bit.
int64_t best_of(int64_t targets) { return targets & -targets; }

int64_t runnable_targets() { return hwy::SupportedTargets() & HWY_TARGETS; }

// AVX-512 with tiles is a level of its own, because products with bf16 weights have other bits there.
constexpr std::string_view kTileLevel = "amx";
bool may_have_tiles(int64_t target) { return target == HWY_AVX3 && cpu::machine_has_tiles(); }

std::string_view chosen_level() {
  const int64_t target = best_of(runnable_targets());
  return may_have_tiles(target) && cpu::level_has_tiles() ? kTileLevel : level_name(target);
}

std::string_view block_arithmetic(DType dtype, Numerics numerics) {
  if (numerics == Numerics::kExact) return "f32";
  if (dtype == DType::kBF16) return chosen_level() == kTileLevel ? "bf16 in two parts, amx" : "f32";
  return cpu::block_instructions(dtype);
}

}  // namespace

std::vector<std::string_view> cpu_levels() {
  std::vector<std::string_view> levels;
  for (int64_t rest = runnable_targets(); rest != 0; rest &= rest - 1) {
    if (may_have_tiles(best_of(rest))) levels.push_back(kTileLevel);
    levels.push_back(level_name(best_of(rest)));
  }
  return levels;
}

bool use_cpu_level(std::string_view level) {
  hwy::SetSupportedTargetsForTest(0);  // back to what the machine has
  hwy::GetChosenTarget().Update(hwy::SupportedTargets());
  cpu::use_tiles(true);
  if (level.empty()) return true;
  for (int64_t rest = runnable_targets(); rest != 0; rest &= rest - 1) {
    const bool has_tiles = level == kTileLevel && may_have_tiles(best_of(rest));
    if (level_name(best_of(rest)) != level && !has_tiles) continue;
    cpu::use_tiles(has_tiles);
    hwy::SetSupportedTargetsForTest(best_of(rest));
    hwy::GetChosenTarget().Update(hwy::SupportedTargets());
    return true;
  }
  return false;
}

const HostBackend kCpuBackend = {
    {
        .name = "cpu",
        .summary = "vectorised for this machine and threaded",
        .open_device = open_host_device,
        .level = chosen_level,
        .block_arithmetic = block_arithmetic,
        .add_implementations = add_host_implementations,
    },
    {
        .gemm = cpu::gemm,
        .gemm_scratch = cpu::gemm_scratch,
        .gemm_packed_bytes = cpu::gemm_packed_bytes,
        .gemm_pack = cpu::gemm_pack,
        .batched_matmul = cpu::batched_matmul,
        .attention = cpu::attention,
        .conv2d = cpu::conv2d,
        .conv2d_scratch = cpu::conv2d_scratch,
        .conv2d_packed_bytes = cpu::conv2d_packed_bytes,
        .conv2d_pack = cpu::conv2d_pack,
        .max_pool2d = cpu::max_pool2d,
        .avg_pool2d = cpu::avg_pool2d,
        .mean_over_positions = cpu::mean_over_positions,
        .layer_norm = cpu::layer_norm,
        .rms_norm = cpu::rms_norm,
        .softmax = cpu::softmax,
        .rope = cpu::rope,
        .unary = cpu::unary,
        .binary = cpu::binary,
        .add_bias = cpu::add_bias,
        .swiglu = cpu::swiglu,
        .widen = cpu::widen,
        .gradients =
            {
                .transposed_product = cpu::gradients::transposed_product,
                .transposed_product_scratch = cpu::gradients::transposed_product_scratch,
                .column_sums = cpu::gradients::column_sums,
                .unary = cpu::gradients::unary,
                .softmax = cpu::gradients::softmax,
                .layer_norm = cpu::gradients::layer_norm,
                .rms_norm = cpu::gradients::rms_norm,
                .batch_statistics = cpu::gradients::batch_statistics,
                .batch_norm = cpu::gradients::batch_norm,
                .attention = cpu::gradients::attention,
                .attention_scratch = cpu::gradients::attention_scratch,
                .conv2d = cpu::gradients::conv2d,
                .conv2d_scratch = cpu::gradients::conv2d_scratch,
                .max_pool2d = cpu::gradients::max_pool2d,
                .scatter_rows = cpu::gradients::scatter_rows,
                .cross_entropy = cpu::gradients::cross_entropy,
                .cross_entropy_gradient = cpu::gradients::cross_entropy_gradient,
                .dropout = cpu::gradients::dropout,
                .square_sum = cpu::gradients::square_sum,
                .sgd = cpu::gradients::sgd,
                .adam = cpu::gradients::adam,
                .rmsprop = cpu::gradients::rmsprop,
            },
    },
    {},
};

}  // namespace ballast
