#include "ballast/backends/cpu/block_kernels.h"

#include "ballast/backends/cpu/targets.h"
#include "ballast/backends/cpu/tile_use.h"
// After targets.h.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "ballast/backends/cpu/block_kernels.cc"
#include <hwy/foreach_target.h>
// After foreach_target.h.
#include "ballast/backends/cpu/simd-inl.h"

// Targets whose vectors multiply bytes; of those, the ones that may have an instruction for four at once, which Highway
// does not tell.
#undef BALLAST_HAS_BYTES
#undef BALLAST_DOT_TARGET
#if HWY_ARCH_X86 && HWY_TARGET == HWY_AVX2
#define BALLAST_HAS_BYTES 1
#elif HWY_ARCH_ARM_A64 && HWY_TARGET < HWY_EMU128
#define BALLAST_HAS_BYTES 1
#else
#define BALLAST_HAS_BYTES 0
#endif
#if HWY_ARCH_X86 && HWY_TARGET == HWY_AVX3
#define BALLAST_DOT_TARGET HWY_TARGET_STR ",avx512vnni"
#elif HWY_ARCH_ARM_A64 && HWY_TARGET < HWY_EMU128
#define BALLAST_DOT_TARGET "arch=armv8.2-a+crypto+dotprod"
#endif

HWY_BEFORE_NAMESPACE();
namespace ballast::cpu::HWY_NAMESPACE {

constexpr float kMostRounded = 127 * 128;

// Where the two halves of a rounded block go.
struct RoundedPlace {
  int8_t *high[2], *low[2];
};
struct RoundedBlock {
  float scale;
  int32_t sums[2];  // of each half
};

HWY_INLINE RoundedBlock round_block(const float* x, const RoundedPlace& out) {
  const Floats d;
  const Ints ints;
  Vector sizes = zeros();
  for (size_t i = 0; i < 32; i += kLanes) {
    const Vector size = hn::Abs(load(x + i));
    // Infinity and NaN end up as infinity, whatever comes after.
    const Vector finite = hn::IfThenElse(hn::Lt(size, splat(__builtin_inff())), size, splat(__builtin_inff()));
    sizes = hn::Max(sizes, finite);
  }
  const float most = hn::GetLane(hn::MaxOfLanes(d, sizes));
  const bool broken = most == __builtin_inff();
  // What is smaller is nothing beside any number that it could be added to.
  const bool none = most < 1e-30F || broken;
  RoundedBlock block{broken ? __builtin_nanf("") : none ? 0 : most / kMostRounded, {0, 0}};
  const Vector factor = splat(none ? 0 : kMostRounded / most);
  for (size_t i = 0; i < 32; i += kLanes) {
    const Vector scaled = broken ? zeros() : hn::Mul(load(x + i), factor);
    const auto number = hn::NearestInt(scaled);
    const auto high = hn::ShiftRight<7>(hn::Add(number, hn::Set(ints, 64)));
    const auto low = hn::Sub(number, hn::ShiftLeft<7>(high));
    const hn::Rebind<int8_t, Ints> octets;
    hn::StoreU(hn::DemoteTo(octets, high), octets, out.high[i / 16] + i % 16);
    hn::StoreU(hn::DemoteTo(octets, low), octets, out.low[i / 16] + i % 16);
    block.sums[i / 16] += hn::GetLane(hn::SumOfLanes(ints, number));
  }
  return block;
}

HWY_INLINE float scaled_sum(const RoundedBlock& block) {
  return block.scale * static_cast<float>(block.sums[0] + block.sums[1]);
}

HWY_INLINE void round_into(const float* x, size_t block, RoundedStripe& out) {
  const size_t at = block * 16;
  const RoundedBlock rounded =
      round_block(x, {{out.high[0] + at, out.high[1] + at}, {out.low[0] + at, out.low[1] + at}});
  for (size_t r = 0; r < 4; ++r) {
    out.scales[4 * block + r] = rounded.scale;
    out.scaled_sums[4 * block + r] = scaled_sum(rounded);
    out.sums[0][4 * block + r] = rounded.sums[0];
    out.sums[1][4 * block + r] = rounded.sums[1];
  }
}

HWY_INLINE void round_into(const float* x, size_t row, RoundedTile& out) {
  const RoundedBlock rounded = round_block(x, {{out.high[row], out.high[row] + 16}, {out.low[row], out.low[row] + 16}});
  out.scales[row] = rounded.scale;
  out.scaled_sums[row] = scaled_sum(rounded);
  out.minus_sums[row] = -(rounded.sums[0] + rounded.sums[1]);
}

void round_row(const float* x, size_t k, RoundedStripe* out) {
  const size_t blocks = k / 32;
  if (blocks % 4 != 0) std::memset(out + blocks / 4, 0, sizeof(RoundedStripe));
  for (size_t block = 0; block < blocks; ++block) round_into(x + block * 32, block % 4, out[block / 4]);
}

// The four blocks of a stripe, of which `blocks` are there, of up to 16 rows.
void round_tiles(const float* x, size_t stride, size_t rows, size_t blocks, RoundedTile* out) {
  if (rows < kTileGroup || blocks < 4) std::memset(out, 0, 4 * sizeof(*out));
  for (size_t row = 0; row < rows; ++row) {
    for (size_t block = 0; block < blocks; ++block) round_into(x + row * stride + block * 32, row, out[block]);
  }
}

#if BALLAST_HAS_BYTES
namespace plain {
#define BALLAST_DOT 0
#include "ballast/backends/cpu/block_kernels-inl.h"
#undef BALLAST_DOT
}  // namespace plain
#endif

}  // namespace ballast::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#ifdef BALLAST_DOT_TARGET
HWY_PUSH_ATTRIBUTES(BALLAST_DOT_TARGET)
namespace ballast::cpu::HWY_NAMESPACE::dotted {
#define BALLAST_DOT 1
#include "ballast/backends/cpu/block_kernels-inl.h"
#undef BALLAST_DOT
}  // namespace ballast::cpu::HWY_NAMESPACE::dotted
HWY_POP_ATTRIBUTES
#endif

HWY_BEFORE_NAMESPACE();
namespace ballast::cpu::HWY_NAMESPACE {

BlockKernels plain_kernels(DType dtype) {
#if BALLAST_HAS_BYTES
  return plain::kernels_of(dtype);
#else
  (void)dtype;
  return {};
#endif
}
BlockKernels dotted_kernels(DType dtype) {
#ifdef BALLAST_DOT_TARGET
  return dotted::kernels_of(dtype);
#else
  (void)dtype;
  return {};
#endif
}

}  // namespace ballast::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
#include <atomic>

#include "ballast/backends/cpu/tile_level.h"
#include "ballast/io/processor.h"

namespace ballast::cpu {

HWY_EXPORT(round_row);
HWY_EXPORT(round_tiles);
HWY_EXPORT(plain_kernels);
HWY_EXPORT(dotted_kernels);

namespace {

std::atomic<ByteInstructions> most_allowed{ByteInstructions::kTiles};

bool uses_dot() {
  static const bool has = has_dot_products();
  return has && most_allowed.load(std::memory_order_relaxed) <= ByteInstructions::kDotProducts;
}
bool uses_tiles() {
  static const bool has = has_dot_products();
  return has && level_has_tiles() && most_allowed.load(std::memory_order_relaxed) == ByteInstructions::kTiles;
}

// With fewer rows, unpacking weights for tiles costs more than vectors need to multiply them.
constexpr size_t kLeastTileRows = 12;
constexpr size_t kLeastPackedTileRows = 5;

// AVX-512 without the instruction does as AVX2: few machines are worth a third form.
#if HWY_ARCH_X86 && (HWY_TARGETS & HWY_AVX2)
BlockKernels stand_in(DType dtype) {
  const bool is_below = HWY_DYNAMIC_DISPATCH(dotted_kernels)(dtype).multiply == nullptr;
  return is_below ? BlockKernels{} : N_AVX2::plain_kernels(dtype);
}
#else
BlockKernels stand_in(DType) { return {}; }
#endif

}  // namespace

void use_at_most(ByteInstructions most) { most_allowed = most; }

BlockKernels block_kernels(DType dtype) {
  if (uses_dot()) {
    const BlockKernels dotted = HWY_DYNAMIC_DISPATCH(dotted_kernels)(dtype);
    if (dotted.multiply != nullptr) return dotted;
  }
  const BlockKernels plain = HWY_DYNAMIC_DISPATCH(plain_kernels)(dtype);
  return plain.multiply != nullptr ? plain : stand_in(dtype);
}

namespace {
bool has_tile_kernel(DType dtype) { return uses_tiles() && block_kernels(dtype).multiply_tiles != nullptr; }
}  // namespace

bool multiplies_blocks(DType dtype) { return block_kernels(dtype).multiply != nullptr; }

std::string_view block_instructions(DType dtype) {
  if (!multiplies_blocks(dtype)) return "f32";
  const bool is_dotted = uses_dot() && HWY_DYNAMIC_DISPATCH(dotted_kernels)(dtype).multiply != nullptr;
  if (is_dotted && has_tile_kernel(dtype)) return "integers, avx512 vnni, amx";
  if (HWY_ARCH_ARM) return is_dotted ? "integers, neon dotprod" : "integers, neon";
  return is_dotted ? "integers, avx512 vnni" : "integers, avx2";
}

RoundedForm rounded_form(DType dtype, size_t m, bool packed) {
  if (packed) return RoundedForm::kTiles;
  return m >= kLeastTileRows && has_tile_kernel(dtype) ? RoundedForm::kTiles : RoundedForm::kStripes;
}

size_t rounded_bytes(RoundedForm form, size_t m, size_t k) {
  if (form == RoundedForm::kStripes) return m * stripes_of(k) * sizeof(RoundedStripe);
  return tile_groups_of(m) * tile_blocks_of(k) * sizeof(RoundedTile);
}

size_t rounded_pieces(RoundedForm form, size_t m, size_t k) {
  return form == RoundedForm::kTiles ? tile_groups_of(m) * stripes_of(k) : m;
}

namespace {

void round_piece_of_tiles(const Activations& a, size_t piece, RoundedTile* out) {
  const size_t stripes = stripes_of(a.k), group_rows = tile_rows_of(a.m);
  const size_t stripe = piece % stripes, row = piece / stripes * group_rows;
  const size_t rows = a.m - row < group_rows ? a.m - row : group_rows;
  const size_t blocks = a.k / 32 - 4 * stripe < 4 ? a.k / 32 - 4 * stripe : 4;
  HWY_DYNAMIC_DISPATCH(round_tiles)(a.x + row * a.stride + stripe * kStripe, a.stride, rows, blocks, out + 4 * piece);
}

}  // namespace

void round_activations(const Activations& a, RoundedForm form, size_t begin, size_t end, void* out) {
  for (size_t piece = begin; piece < end; ++piece) {
    if (form == RoundedForm::kTiles) {
      round_piece_of_tiles(a, piece, static_cast<RoundedTile*>(out));
    } else {
      HWY_DYNAMIC_DISPATCH(round_row)
      (a.x + piece * a.stride, a.k, static_cast<RoundedStripe*>(out) + piece * stripes_of(a.k));
    }
  }
}

size_t packed_bytes(DType dtype, size_t n, size_t k) {
  return (n + kPackedOutputs - 1) / kPackedOutputs * (k / 32) * block_kernels(dtype).packed_block_bytes;
}

void pack_blocks(const BlockPacking& packing) { block_kernels(packing.dtype).pack(packing); }

void multiply_blocks(const BlockProduct& product) {
  const BlockKernels kernels = block_kernels(product.dtype);
  if (product.packed) {
    const bool by_tiles = product.m >= kLeastPackedTileRows && uses_tiles() && kernels.multiply_packed_tiles != nullptr;
    return (by_tiles ? kernels.multiply_packed_tiles : kernels.multiply_packed)(product);
  }
  (product.form == RoundedForm::kTiles ? kernels.multiply_tiles : kernels.multiply)(product);
}

}  // namespace ballast::cpu
#endif
