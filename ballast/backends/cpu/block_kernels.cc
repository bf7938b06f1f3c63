#include "ballast/backends/cpu/block_kernels.h"

#include "ballast/backends/cpu/targets.h"
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

// One block of 32, in its place among four.
HWY_INLINE void round_block(const float* x, size_t block, RoundedStripe& out) {
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
  const float scale = broken ? __builtin_nanf("") : none ? 0 : most / kMostRounded;
  const Vector factor = splat(none ? 0 : kMostRounded / most);
  int32_t sums[2] = {0, 0};
  for (size_t i = 0; i < 32; i += kLanes) {
    const Vector scaled = broken ? zeros() : hn::Mul(load(x + i), factor);
    const auto number = hn::NearestInt(scaled);
    const auto high = hn::ShiftRight<7>(hn::Add(number, hn::Set(ints, 64)));
    const auto low = hn::Sub(number, hn::ShiftLeft<7>(high));
    const hn::Rebind<int8_t, Ints> octets;
    hn::StoreU(hn::DemoteTo(octets, high), octets, out.high[i / 16] + block * 16 + i % 16);
    hn::StoreU(hn::DemoteTo(octets, low), octets, out.low[i / 16] + block * 16 + i % 16);
    sums[i / 16] += hn::GetLane(hn::SumOfLanes(ints, number));
  }
  for (size_t r = 0; r < 4; ++r) {
    out.scales[4 * block + r] = scale;
    out.scaled_sums[4 * block + r] = scale * static_cast<float>(sums[0] + sums[1]);
    out.sums[0][4 * block + r] = sums[0];
    out.sums[1][4 * block + r] = sums[1];
  }
}

void round_row(const float* x, size_t k, RoundedStripe* out) {
  const size_t blocks = k / 32;
  if (blocks % 4 != 0) std::memset(out + blocks / 4, 0, sizeof(RoundedStripe));
  for (size_t block = 0; block < blocks; ++block) round_block(x + block * 32, block % 4, out[block / 4]);
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

// Whether this target has products of bytes of its own, and whether there are some with the instruction.
bool has_products() { return BALLAST_HAS_BYTES != 0; }
bool has_dot_products() {
#ifdef BALLAST_DOT_TARGET
  return true;
#else
  return false;
#endif
}

void multiply_plain(const BlockProduct& product) {
#if BALLAST_HAS_BYTES
  plain::multiply(product);
#else
  (void)product;
#endif
}
void multiply_dotted(const BlockProduct& product) {
#ifdef BALLAST_DOT_TARGET
  dotted::multiply(product);
#else
  (void)product;
#endif
}

}  // namespace ballast::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
#if HWY_ARCH_ARM_A64 && defined(__linux__)
#include <sys/auxv.h>
#endif

#include <atomic>

namespace ballast::cpu {

HWY_EXPORT(has_products);
HWY_EXPORT(has_dot_products);
HWY_EXPORT(round_row);
HWY_EXPORT(multiply_plain);
HWY_EXPORT(multiply_dotted);

namespace {

bool machine_has_dot() {
#if HWY_ARCH_X86
  return __builtin_cpu_supports("avx512vnni") != 0;
#elif HWY_ARCH_ARM_A64 && defined(__linux__)
  constexpr unsigned long kDotProducts = 1UL << 20;  // HWCAP_ASIMDDP
  return (getauxval(AT_HWCAP) & kDotProducts) != 0;
#else
  return false;
#endif
}

std::atomic<bool> dot_is_used{machine_has_dot()};

// AVX-512 without the instruction does as AVX2: few machines are worth a third form.
#if HWY_ARCH_X86 && (HWY_TARGETS & HWY_AVX2)
constexpr bool kHasStandIn = true;
void multiply_instead(const BlockProduct& product) { N_AVX2::multiply_plain(product); }
#else
constexpr bool kHasStandIn = false;
void multiply_instead(const BlockProduct&) {}
#endif

enum class Form { kNone, kPlain, kDotted, kStandIn };

Form chosen_form() {
  const bool could = HWY_DYNAMIC_DISPATCH(has_dot_products)();
  if (could && dot_is_used.load(std::memory_order_relaxed)) return Form::kDotted;
  if (HWY_DYNAMIC_DISPATCH(has_products)()) return Form::kPlain;
  return could && kHasStandIn ? Form::kStandIn : Form::kNone;
}

}  // namespace

void use_dot_instructions(bool use) { dot_is_used = use && machine_has_dot(); }

std::string_view block_instructions() {
  switch (chosen_form()) {
    case Form::kNone: return "";
    case Form::kDotted: return HWY_ARCH_ARM ? "integers, neon dotprod" : "integers, avx512 vnni";
    default: return HWY_ARCH_ARM ? "integers, neon" : "integers, avx2";
  }
}

bool multiplies_blocks(DType dtype) {
  switch (dtype) {
    case DType::kQ4_0:
    case DType::kQ4_1:
    case DType::kQ5_0:
    case DType::kQ5_1:
    case DType::kQ8_0:
    case DType::kIQ4NL:
    case DType::kMXFP4:
    case DType::kQ4K:
    case DType::kQ5K:
    case DType::kQ6K: return chosen_form() != Form::kNone;
    default: return false;
  }
}

void round_activations(const float* x, size_t k, RoundedStripe* out) { HWY_DYNAMIC_DISPATCH(round_row)(x, k, out); }

void multiply_blocks(const BlockProduct& product) {
  switch (chosen_form()) {
    case Form::kPlain: return HWY_DYNAMIC_DISPATCH(multiply_plain)(product);
    case Form::kDotted: return HWY_DYNAMIC_DISPATCH(multiply_dotted)(product);
    case Form::kStandIn: return multiply_instead(product);
    case Form::kNone: return;
  }
}

}  // namespace ballast::cpu
#endif
