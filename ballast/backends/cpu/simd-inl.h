// Vectors of floats for the instruction set that is being compiled: loads of any weight, ends of rows, the functions of
// neural networks. Included once per target.
//
// Code in here and in the files that include this one calls no inline function of the standard library: the linker
// would be free to keep the copy that was compiled for a machine that this is not.
#if defined(BALLAST_BACKENDS_CPU_SIMD_INL_H) == defined(HWY_TARGET_TOGGLE)
#ifdef BALLAST_BACKENDS_CPU_SIMD_INL_H
#undef BALLAST_BACKENDS_CPU_SIMD_INL_H
#else
#define BALLAST_BACKENDS_CPU_SIMD_INL_H
#endif

#include <hwy/highway.h>

#include <cstddef>
#include <cstdint>
#include <cstring>

#include "ballast/backends/host/kernel_table.h"

HWY_BEFORE_NAMESPACE();
namespace ballast::cpu::HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;

using Floats = hn::ScalableTag<float>;
using Ints = hn::RebindToSigned<Floats>;
using Words = hn::RebindToUnsigned<Floats>;
using Vector = hn::Vec<Floats>;

constexpr size_t kLanes = hn::MaxLanes(Floats());

HWY_INLINE size_t smaller(size_t a, size_t b) { return a < b ? a : b; }
HWY_INLINE size_t larger(size_t a, size_t b) { return a < b ? b : a; }
HWY_INLINE size_t divide_up(size_t a, size_t b) { return (a + b - 1) / b; }

HWY_INLINE Vector splat(float value) { return hn::Set(Floats(), value); }
HWY_INLINE Vector zeros() { return hn::Zero(Floats()); }

#if HWY_ARCH_X86 && HWY_TARGET == HWY_AVX3
// Lane i of vector j becomes lane j of vector i.
HWY_INLINE void turn_words(__m512i* v) {
  __m512i t[16];
  BALLAST_UNROLL for (size_t i = 0; i < 16; i += 2) {
    t[i] = _mm512_unpacklo_epi32(v[i], v[i + 1]);
    t[i + 1] = _mm512_unpackhi_epi32(v[i], v[i + 1]);
  }
  BALLAST_UNROLL for (size_t i = 0; i < 16; i += 4) {
    v[i] = _mm512_unpacklo_epi64(t[i], t[i + 2]);
    v[i + 1] = _mm512_unpackhi_epi64(t[i], t[i + 2]);
    v[i + 2] = _mm512_unpacklo_epi64(t[i + 1], t[i + 3]);
    v[i + 3] = _mm512_unpackhi_epi64(t[i + 1], t[i + 3]);
  }
  BALLAST_UNROLL for (size_t i = 0; i < 4; ++i) {
    const __m512i a = _mm512_shuffle_i32x4(v[i], v[4 + i], 0x44), b = _mm512_shuffle_i32x4(v[i], v[4 + i], 0xEE);
    const __m512i c = _mm512_shuffle_i32x4(v[8 + i], v[12 + i], 0x44);
    const __m512i d = _mm512_shuffle_i32x4(v[8 + i], v[12 + i], 0xEE);
    t[i] = _mm512_shuffle_i32x4(a, c, 0x88);
    t[4 + i] = _mm512_shuffle_i32x4(a, c, 0xDD);
    t[8 + i] = _mm512_shuffle_i32x4(b, d, 0x88);
    t[12 + i] = _mm512_shuffle_i32x4(b, d, 0xDD);
  }
  BALLAST_UNROLL for (size_t i = 0; i < 16; ++i) v[i] = t[i];
}
#endif

// ---------------------------------------------------------------- memory
constexpr size_t kCacheLine = 64;
// Asks for the lines of these bytes, which need not exist. 3: into the first-level cache; 2: into the second.
template <int kNearness>
HWY_INLINE void fetch_lines(const void* at, size_t bytes) {
  const auto* line = static_cast<const std::byte*>(at);
  for (size_t i = 0; i < bytes; i += kCacheLine) __builtin_prefetch(line + i, 0, kNearness);
}

HWY_INLINE Vector load(const float* from) { return hn::LoadU(Floats(), from); }
HWY_INLINE void store(Vector v, float* to) { hn::StoreU(v, Floats(), to); }

// The first `count` lanes, fewer than there are; the others are 0.
HWY_INLINE Vector load_part(const float* from, size_t count) {
  HWY_ALIGN float lanes[kLanes] = {};
  std::memcpy(lanes, from, count * sizeof(float));
  return hn::Load(Floats(), lanes);
}
HWY_INLINE void store_part(Vector v, float* to, size_t count) {
  HWY_ALIGN float lanes[kLanes];
  hn::Store(v, Floats(), lanes);
  std::memcpy(to, lanes, count * sizeof(float));
}

// How the elements of a weight become floats. `at` may be aligned to nothing.
struct F32Weight {
  static constexpr size_t kBytes = 4;
  static HWY_INLINE Vector load(const std::byte* at) { return hn::LoadU(Floats(), reinterpret_cast<const float*>(at)); }
};
struct Bf16Weight {
  static constexpr size_t kBytes = 2;
  static HWY_INLINE Vector load(const std::byte* at) {
    const hn::Rebind<uint16_t, Floats> halves;
    const auto bits = hn::PromoteTo(Words(), hn::LoadU(halves, reinterpret_cast<const uint16_t*>(at)));
    return hn::BitCast(Floats(), hn::ShiftLeft<16>(bits));
  }
};
struct F16Weight {
  static constexpr size_t kBytes = 2;
#if (HWY_ARCH_X86 && HWY_TARGET <= HWY_AVX2) || (HWY_ARCH_ARM_A64 && HWY_TARGET < HWY_EMU128)
  static HWY_INLINE Vector load(const std::byte* at) {
    const hn::Rebind<hwy::float16_t, Floats> halves;
    return hn::PromoteTo(Floats(), hn::LoadU(halves, reinterpret_cast<const hwy::float16_t*>(at)));
  }
#else
  // Moving the bits to their places divides by 2^112, also where they are subnormal.
  static HWY_INLINE Vector load(const std::byte* at) {
    const Words words;
    const hn::Rebind<uint16_t, Floats> halves;
    const auto bits = hn::PromoteTo(words, hn::LoadU(halves, reinterpret_cast<const uint16_t*>(at)));
    const auto magnitude = hn::ShiftLeft<13>(hn::And(bits, hn::Set(words, 0x7FFF)));
    const auto sign = hn::ShiftLeft<16>(hn::And(bits, hn::Set(words, 0x8000)));
    const auto scaled = hn::Mul(hn::BitCast(Floats(), magnitude), splat(0x1p112F));
    const auto infinity = hn::BitCast(Floats(), hn::Set(words, 0x7F800000));
    const auto special = hn::IfThenElseZero(hn::Ge(scaled, splat(0x1p16F)), infinity);
    return hn::Or(hn::Or(scaled, special), hn::BitCast(Floats(), sign));
  }
#endif
};

// The first `count` elements of a weight; the other lanes are 0.
template <class Weight>
HWY_INLINE Vector load_weight_part(const std::byte* at, size_t count) {
  HWY_ALIGN std::byte bytes[kLanes * Weight::kBytes] = {};
  std::memcpy(bytes, at, count * Weight::kBytes);
  return Weight::load(bytes);
}

// ---------------------------------------------------------------- functions
// All of them pass NaN on, which minimum and maximum do not on every machine.
HWY_INLINE Vector at_least(float low, Vector x) {
  const Vector bound = splat(low);
  return hn::IfThenElse(hn::Lt(x, bound), bound, x);
}
HWY_INLINE Vector at_most(float high, Vector x) {
  const Vector bound = splat(high);
  return hn::IfThenElse(hn::Gt(x, bound), bound, x);
}

// e^x = first * second * (1 + rest), the first two powers of two: in two factors, so that subnormal results and
// infinity come out of the multiplications.
struct Power {
  Vector first, second, rest;
};
HWY_INLINE Power power_of_e(Vector x) {
  const Floats d;
  const Ints ints;
  const Vector clamped = at_most(89.0F, at_least(-110.0F, x));
  const Vector n = hn::Round(hn::Mul(clamped, splat(1.44269504F)));
  // ln 2 in two parts, the first with zeros at its end, so that n times it is exact.
  const Vector r = hn::NegMulAdd(n, splat(-2.12194440e-4F), hn::NegMulAdd(n, splat(0.693359375F), clamped));
  Vector p = splat(0.0001989098271F);
  p = hn::MulAdd(p, r, splat(0.001393364269F));
  p = hn::MulAdd(p, r, splat(0.008333310933F));
  p = hn::MulAdd(p, r, splat(0.04166646499F));
  p = hn::MulAdd(p, r, splat(0.1666666668F));
  p = hn::MulAdd(p, r, splat(0.5F));
  p = hn::MulAdd(hn::Mul(r, r), p, r);
  const auto whole = hn::ConvertTo(ints, n);
  const auto half = hn::ShiftRight<1>(whole);
  const auto bias = hn::Set(ints, 127);
  const Vector first = hn::BitCast(d, hn::ShiftLeft<23>(hn::Add(half, bias)));
  const Vector second = hn::BitCast(d, hn::ShiftLeft<23>(hn::Add(hn::Sub(whole, half), bias)));
  return {first, second, p};
}

// Within 1 ulp of e^x.
HWY_INLINE Vector exponential(Vector x) {
  const Power power = power_of_e(x);
  return hn::Mul(hn::Mul(hn::Add(power.rest, splat(1.0F)), power.first), power.second);
}

// e^x - 1 for x <= 0, within 3 ulp also near 0.
HWY_INLINE Vector exponential_minus_one(Vector x) {
  const Power power = power_of_e(x);
  const Vector scale = hn::Mul(power.first, power.second);
  return hn::MulAdd(power.rest, scale, hn::Sub(scale, splat(1.0F)));
}

// Within 3 ulp: the exponent, and of a fraction from sqrt(1/2) to sqrt(2) the series of 2 artanh(f / (2 + f)).
HWY_INLINE Vector logarithm(Vector x) {
  const Floats d;
  const Ints ints;
  const auto tiny = hn::Lt(x, splat(0x1p-126F));
  const Vector scaled = hn::IfThenElse(tiny, hn::Mul(x, splat(0x1p24F)), x);
  // Counted from sqrt(1/2), so that the exponent's bits change there.
  const auto offset = hn::Sub(hn::BitCast(ints, scaled), hn::Set(ints, 0x3F3504F3));
  const auto exponent = hn::ShiftRight<23>(offset);
  const auto fraction = hn::Add(hn::And(offset, hn::Set(ints, 0x007FFFFF)), hn::Set(ints, 0x3F3504F3));
  const Vector n = hn::Sub(hn::ConvertTo(d, exponent), hn::IfThenElseZero(tiny, splat(24.0F)));
  const Vector f = hn::Sub(hn::BitCast(d, fraction), splat(1.0F));
  const Vector s = hn::Div(f, hn::Add(f, splat(2.0F)));
  const Vector z = hn::Mul(s, s);
  Vector p = splat(2.0F / 9);
  p = hn::MulAdd(p, z, splat(2.0F / 7));
  p = hn::MulAdd(p, z, splat(2.0F / 5));
  p = hn::MulAdd(p, z, splat(2.0F / 3));
  // 2 s = f - s f, which keeps the bits of f.
  const Vector low = hn::MulAdd(n, splat(-2.12194440e-4F), hn::Mul(s, hn::MulSub(z, p, f)));
  const Vector y = hn::MulAdd(n, splat(0.693359375F), hn::Add(f, low));
  const Vector infinity = splat(__builtin_inff());
  const Vector none = hn::IfThenElse(hn::Eq(x, zeros()), hn::Neg(infinity), splat(__builtin_nanf("")));
  return hn::IfThenElse(hn::Gt(x, zeros()), hn::IfThenElse(hn::Eq(x, infinity), x, y), none);
}

// x / (1 + e^-u), for u = x the SiLU. Within 4 ulp.
HWY_INLINE Vector times_sigmoid(Vector x, Vector u) {
  return hn::Div(x, hn::Add(splat(1.0F), exponential(hn::Neg(u))));
}

// Of 1 + u, for u from 0 to 1: what rounding 1 + u took is put back.
HWY_INLINE Vector logarithm_plus_one(Vector u) {
  const Vector w = hn::Add(u, splat(1.0F));
  return hn::Add(logarithm(w), hn::Div(hn::Sub(u, hn::Sub(w, splat(1.0F))), w));
}

struct Identity {
  HWY_INLINE Vector operator()(Vector x) const { return x; }
};
struct Relu {
  HWY_INLINE Vector operator()(Vector x) const { return at_least(0.0F, x); }
};
struct Relu6 {
  HWY_INLINE Vector operator()(Vector x) const { return at_most(6.0F, at_least(0.0F, x)); }
};
// Of |x| it is -m / (m + 2) with m = e^(-2 |x|) - 1.
struct Tanh {
  HWY_INLINE Vector operator()(Vector x) const {
    const Vector m = exponential_minus_one(hn::Mul(hn::Abs(x), splat(-2.0F)));
    return hn::CopySign(hn::Div(m, hn::Add(m, splat(2.0F))), x);
  }
};
struct Silu {
  HWY_INLINE Vector operator()(Vector x) const { return times_sigmoid(x, x); }
};
// x / 2 * (1 + tanh(sqrt(2 / pi) * (x + 0.044715 x^3)))
struct GeluTanh {
  HWY_INLINE Vector operator()(Vector x) const {
    const Vector cube = hn::MulAdd(hn::Mul(x, x), splat(0.0713548163F), splat(1.59576912F));
    return times_sigmoid(x, hn::Mul(x, cube));
  }
};
// The distribution function of the normal distribution. Relative error below 1e-6 also far to the left (3e-6 without
// fused multiply-add): with a = |x| the tail is e^(-a^2 / 2) * t * P(t), t = 1 / (1 + a / 4), where P was fitted over
// 0 <= a <= 14.5.
struct NormalShare {
  Vector share;  // of what is left of x
  Vector power;  // e^(-x^2 / 2)
};
HWY_INLINE NormalShare normal_share(Vector x) {
  const Vector a = at_most(20.0F, hn::Abs(x));  // beyond, the tail is nothing, and the square must stay finite
  const Vector t = hn::Div(splat(1.0F), hn::MulAdd(a, splat(0.25F), splat(1.0F)));
  Vector p = splat(0.0157418441F);
  p = hn::MulAdd(p, t, splat(-0.05837097996F));
  p = hn::MulAdd(p, t, splat(0.04158928633F));
  p = hn::MulAdd(p, t, splat(0.04136780965F));
  p = hn::MulAdd(p, t, splat(0.002400358572F));
  p = hn::MulAdd(p, t, splat(0.09193209488F));
  p = hn::MulAdd(p, t, splat(0.07027288219F));
  p = hn::MulAdd(p, t, splat(0.09586338536F));
  p = hn::MulAdd(p, t, splat(0.09945356608F));
  p = hn::MulAdd(p, t, splat(0.09974975536F));
  // What rounding took from a^2 is put back after the exponential, which would magnify it.
  const Vector square = hn::Mul(a, a);
  const Vector lost = hn::MulSub(a, a, square);
  const Vector power = exponential(hn::Mul(square, splat(-0.5F)));
  const Vector exact = hn::NegMulAdd(hn::Mul(power, splat(0.5F)), lost, power);
  const Vector tail = hn::Mul(exact, hn::Mul(t, p));
  const Vector share = hn::IfThenElse(hn::Lt(x, zeros()), tail, hn::Sub(splat(1.0F), tail));
  return {share, exact};
}
struct GeluErf {
  HWY_INLINE Vector operator()(Vector x) const { return hn::Mul(x, normal_share(x).share); }
};

// y[i] = f(x[i]); x and y may be the same.
template <class F>
HWY_INLINE void map(const float* x, float* y, size_t count, F f) {
  size_t i = 0;
  for (; i + kLanes <= count; i += kLanes) store(f(load(x + i)), y + i);
  if (i < count) store_part(f(load_part(x + i, count - i)), y + i, count - i);
}
template <class F>
HWY_INLINE void map(const float* a, const float* b, float* y, size_t count, F f) {
  size_t i = 0;
  for (; i + kLanes <= count; i += kLanes) store(f(load(a + i), load(b + i)), y + i);
  if (i < count) store_part(f(load_part(a + i, count - i), load_part(b + i, count - i)), y + i, count - i);
}

// The sum over f(x[i]) and the largest x[i], each in the order that the lanes give it.
template <class F>
HWY_INLINE float sum_of(const float* x, size_t count, F f) {
  Vector even = zeros(), odd = zeros();
  size_t i = 0;
  for (; i + 2 * kLanes <= count; i += 2 * kLanes) {
    even = hn::Add(even, f(load(x + i)));
    odd = hn::Add(odd, f(load(x + i + kLanes)));
  }
  for (; i + kLanes <= count; i += kLanes) even = hn::Add(even, f(load(x + i)));
  if (i < count) {
    const auto there = hn::FirstN(Floats(), count - i);
    even = hn::Add(even, hn::IfThenElseZero(there, f(load_part(x + i, count - i))));
  }
  return hn::GetLane(hn::SumOfLanes(Floats(), hn::Add(even, odd)));
}
HWY_INLINE float largest_of(const float* x, size_t count) {
  Vector most = splat(-__builtin_inff());
  size_t i = 0;
  for (; i + kLanes <= count; i += kLanes) most = hn::Max(most, load(x + i));
  if (i < count) {
    const auto there = hn::FirstN(Floats(), count - i);
    most = hn::Max(most, hn::IfThenElse(there, load_part(x + i, count - i), most));
  }
  return hn::GetLane(hn::MaxOfLanes(Floats(), most));
}

}  // namespace ballast::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // BALLAST_BACKENDS_CPU_SIMD_INL_H
