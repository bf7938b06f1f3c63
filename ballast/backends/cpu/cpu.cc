#include "ballast/backends/cpu/cpu.h"

#include "ballast/backends/cpu/block_kernels.h"
#include "ballast/backends/cpu/gradients.h"
#include "ballast/backends/cpu/kernels.h"
#include "ballast/backends/cpu/targets.h"
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

std::string_view chosen_level() { return level_name(best_of(runnable_targets())); }

std::string_view block_arithmetic(DType dtype, Numerics numerics) {
  return numerics == Numerics::kFast ? cpu::block_instructions(dtype) : "f32";
}

}  // namespace

std::vector<std::string_view> cpu_levels() {
  std::vector<std::string_view> levels;
  for (int64_t rest = runnable_targets(); rest != 0; rest &= rest - 1) levels.push_back(level_name(best_of(rest)));
  return levels;
}

bool use_cpu_level(std::string_view level) {
  hwy::SetSupportedTargetsForTest(0);  // back to what the machine has
  hwy::GetChosenTarget().Update(hwy::SupportedTargets());
  if (level.empty()) return true;
  for (int64_t rest = runnable_targets(); rest != 0; rest &= rest - 1) {
    if (level_name(best_of(rest)) != level) continue;
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
