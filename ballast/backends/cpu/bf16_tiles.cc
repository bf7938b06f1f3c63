#include "ballast/backends/cpu/bf16_tiles.h"

#include "ballast/backends/cpu/targets.h"
#include "ballast/backends/cpu/tile_use.h"
// After targets.h.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "ballast/backends/cpu/bf16_tiles.cc"
#include <hwy/foreach_target.h>
// After foreach_target.h.
#include "ballast/backends/cpu/simd-inl.h"

#undef BALLAST_BF16_TILES
#if HWY_ARCH_X86 && HWY_TARGET == HWY_AVX3 && defined(__x86_64__)
#define BALLAST_BF16_TILES 1
#else
#define BALLAST_BF16_TILES 0
#endif

HWY_BEFORE_NAMESPACE();
namespace ballast::cpu::HWY_NAMESPACE {

#if BALLAST_BF16_TILES
#include "ballast/backends/cpu/bf16_tiles-inl.h"
Bf16Kernels bf16_kernels() { return {split_steps, multiply_bf16}; }
#else
Bf16Kernels bf16_kernels() { return {}; }
#endif

}  // namespace ballast::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
#include "ballast/backends/cpu/tile_level.h"

namespace ballast::cpu {

HWY_EXPORT(bf16_kernels);

bool is_by_bf16_tiles(const GemmTile<float>& tile) {
  if (tile.numerics != Numerics::kFast || tile.w.dtype != DType::kBF16) return false;
  if (tile.layout != WeightLayout::kOutIn || tile.k == 0) return false;
  return level_has_tiles() && HWY_DYNAMIC_DISPATCH(bf16_kernels)().multiply != nullptr;
}

void split_activations(const SplitActivations& split) { HWY_DYNAMIC_DISPATCH(bf16_kernels)().split(split); }

void multiply_bf16_tiles(const Bf16Product& product) { HWY_DYNAMIC_DISPATCH(bf16_kernels)().multiply(product); }

}  // namespace ballast::cpu
#endif
