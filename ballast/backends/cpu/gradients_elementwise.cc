// Gradients of functions of one element, dropout, and the sum of squares.
#include "ballast/backends/cpu/gradients.h"
#include "ballast/backends/cpu/targets.h"
// After targets.h.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "ballast/backends/cpu/gradients_elementwise.cc"
#include <hwy/foreach_target.h>
// After foreach_target.h.
#include "ballast/backends/cpu/sums-inl.h"

HWY_BEFORE_NAMESPACE();
namespace ballast::cpu::gradients::HWY_NAMESPACE {

using namespace ballast::cpu::HWY_NAMESPACE;  // NOLINT(google-build-using-namespace): the vectors of this target

// Elements that are worth another thread.
constexpr size_t kElementsWorth = 16384;

// ---------------------------------------------------------------- slopes
HWY_INLINE Vector one() { return splat(1.0F); }
HWY_INLINE Vector sigmoid_of(Vector x) { return times_sigmoid(one(), x); }
// 1 / (1 + e) and e / (1 + e)^2 with e = e^-|x|: exact on both sides.
struct SigmoidPair {
  Vector value, slope;
};
HWY_INLINE SigmoidPair sigmoid_pair(Vector x) {
  const Vector e = exponential(hn::Neg(hn::Abs(x)));
  const Vector large = hn::Div(one(), hn::Add(one(), e));
  const Vector small = hn::Mul(e, large);
  return {hn::IfThenElse(hn::Lt(x, zeros()), small, large), hn::Mul(large, small)};
}
// 1 where low < x < high.
HWY_INLINE Vector inside(float low, float high, Vector x) {
  return hn::IfThenElseZero(hn::And(hn::Gt(x, splat(low)), hn::Lt(x, splat(high))), one());
}

struct ReluSlope {
  HWY_INLINE Vector operator()(Vector x) const { return hn::IfThenElseZero(hn::Gt(x, zeros()), one()); }
};
struct Relu6Slope {
  HWY_INLINE Vector operator()(Vector x) const { return inside(0.0F, 6.0F, x); }
};
struct AbsSlope {
  HWY_INLINE Vector operator()(Vector x) const {
    const Vector sign = hn::IfThenElseZero(hn::Gt(x, zeros()), one());
    return hn::IfThenElse(hn::Lt(x, zeros()), splat(-1.0F), sign);
  }
};
struct GeluErfSlope {
  HWY_INLINE Vector operator()(Vector x) const {
    const NormalShare normal = normal_share(x);
    const Vector near = at_most(20.0F, at_least(-20.0F, x));  // beyond, the density is nothing
    return hn::MulAdd(hn::Mul(near, splat(0.398942280F)), normal.power, normal.share);
  }
};
// x * sigmoid(u) with u = x * (a + b x^2).
struct GeluTanhSlope {
  HWY_INLINE Vector operator()(Vector x) const {
    const Vector near = at_most(20.0F, at_least(-20.0F, x));  // beyond, the slope of the sigmoid is nothing
    const Vector square = hn::Mul(near, near);
    const Vector u = hn::Mul(near, hn::MulAdd(square, splat(0.0713548163F), splat(1.59576912F)));
    const Vector u_slope = hn::MulAdd(square, splat(0.214064449F), splat(1.59576912F));
    const SigmoidPair sigmoid = sigmoid_pair(u);
    return hn::MulAdd(hn::Mul(near, u_slope), sigmoid.slope, sigmoid.value);
  }
};
struct SiluSlope {
  HWY_INLINE Vector operator()(Vector x) const {
    const Vector near = at_most(110.0F, at_least(-110.0F, x));
    const SigmoidPair sigmoid = sigmoid_pair(near);
    return hn::MulAdd(near, sigmoid.slope, sigmoid.value);
  }
};
struct SigmoidSlope {
  HWY_INLINE Vector operator()(Vector x) const { return sigmoid_pair(x).slope; }
};
struct TanhSlope {
  HWY_INLINE Vector operator()(Vector x) const {
    return hn::Mul(splat(4.0F), sigmoid_pair(hn::Mul(splat(2.0F), x)).slope);
  }
};
struct LeakyReluSlope {
  float slope;
  HWY_INLINE Vector operator()(Vector x) const { return hn::IfThenElse(hn::Gt(x, zeros()), one(), splat(slope)); }
};
struct EluSlope {
  float alpha;
  HWY_INLINE Vector operator()(Vector x) const {
    return hn::IfThenElse(hn::Gt(x, zeros()), one(), hn::Mul(splat(alpha), exponential(x)));
  }
};
struct SoftplusSlope {
  HWY_INLINE Vector operator()(Vector x) const { return sigmoid_of(x); }
};
struct HardSigmoidSlope {
  HWY_INLINE Vector operator()(Vector x) const { return hn::Mul(splat(0.2F), inside(-2.5F, 2.5F, x)); }
};
struct HardSwishSlope {
  HWY_INLINE Vector operator()(Vector x) const {
    const Vector share = at_most(1.0F, at_least(0.0F, hn::MulAdd(x, splat(0.2F), splat(0.5F))));
    const auto middle = hn::And(hn::Gt(x, splat(-2.5F)), hn::Lt(x, splat(2.5F)));
    return hn::IfThenElse(middle, hn::MulAdd(x, splat(0.2F), share), share);
  }
};
struct ExpSlope {
  HWY_INLINE Vector operator()(Vector x) const { return exponential(x); }
};
struct LogSlope {
  HWY_INLINE Vector operator()(Vector x) const { return hn::Div(one(), x); }
};
struct SqrtSlope {
  HWY_INLINE Vector operator()(Vector x) const { return hn::Div(splat(0.5F), hn::Sqrt(x)); }
};
struct SquareSlope {
  HWY_INLINE Vector operator()(Vector x) const { return hn::Add(x, x); }
};
struct ConstantSlope {
  float slope;
  HWY_INLINE Vector operator()(Vector /*x*/) const { return splat(slope); }
};

struct UnaryGradient {
  const float* x;
  const float* dy;
  float* dx;
  size_t count;
  ThreadPool& pool;

  template <class Slope>
  HWY_INLINE void operator()(Slope slope) const {
    pool.for_ranges(count, kElementsWorth, [&](size_t begin, size_t end) HWY_ATTR {
      map(x + begin, dy + begin, dx + begin, end - begin,
          [&](Vector at, Vector gradient) HWY_ATTR { return hn::Mul(gradient, slope(at)); });
    });
  }
};

void unary(UnaryOp op, float parameter, const float* x, const float* dy, float* dx, uint64_t count, ThreadPool& pool) {
  const UnaryGradient apply{x, dy, dx, count, pool};
  switch (op) {
    case UnaryOp::kNeg: return apply(ConstantSlope{-1.0F});
    case UnaryOp::kAbs: return apply(AbsSlope());
    case UnaryOp::kRelu: return apply(ReluSlope());
    case UnaryOp::kRelu6: return apply(Relu6Slope());
    case UnaryOp::kGeluErf: return apply(GeluErfSlope());
    case UnaryOp::kGeluTanh: return apply(GeluTanhSlope());
    case UnaryOp::kSilu: return apply(SiluSlope());
    case UnaryOp::kSigmoid: return apply(SigmoidSlope());
    case UnaryOp::kTanh: return apply(TanhSlope());
    case UnaryOp::kLeakyRelu: return apply(LeakyReluSlope{parameter});
    case UnaryOp::kElu: return apply(EluSlope{parameter});
    case UnaryOp::kSoftplus: return apply(SoftplusSlope());
    case UnaryOp::kHardSigmoid: return apply(HardSigmoidSlope());
    case UnaryOp::kHardSwish: return apply(HardSwishSlope());
    case UnaryOp::kExp: return apply(ExpSlope());
    case UnaryOp::kLog: return apply(LogSlope());
    case UnaryOp::kSqrt: return apply(SqrtSlope());
    case UnaryOp::kSquare: return apply(SquareSlope());
    case UnaryOp::kScale: return apply(ConstantSlope{parameter});
    case UnaryOp::kShift: return apply(ConstantSlope{1.0F});
  }
}

// ---------------------------------------------------------------- dropout
using Longs = hn::Repartition<uint64_t, Floats>;
constexpr size_t kLongs = hn::MaxLanes(Longs());

// counter_random() for kLongs counters; `start` is what it makes of its seed. A test holds the two
// together.
constexpr uint64_t start_of(uint64_t seed) {
  uint64_t z = seed + 0x9E3779B97F4A7C15U;
  z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9U;
  z = (z ^ (z >> 27)) * 0x94D049BB133111EBU;
  return z ^ (z >> 31);
}
HWY_INLINE hn::Vec<Longs> random_bits(uint64_t start, uint64_t counter) {
  const Longs d;
  const auto multiply = [](hn::Vec<Longs> v, uint64_t by) HWY_ATTR { return hn::Mul(v, hn::Set(Longs(), by)); };
  auto z = hn::Add(hn::Set(d, start), multiply(hn::Iota(d, counter + 1), 0x9E3779B97F4A7C15U));
  z = multiply(hn::Xor(z, hn::ShiftRight<30>(z)), 0xBF58476D1CE4E5B9U);
  z = multiply(hn::Xor(z, hn::ShiftRight<27>(z)), 0x94D049BB133111EBU);
  return hn::Xor(z, hn::ShiftRight<31>(z));
}

void drop(const float* x, float* y, size_t begin, size_t end, double p, uint64_t key) {
  constexpr size_t kBlock = 256;
  const Longs d;
  // counter_uniform(key, i) > p, in whole numbers.
  const auto limit = hn::Set(d, p >= 1 ? ~uint64_t{0} >> 11 : static_cast<uint64_t>(p * 0x1p53));
  const uint64_t start = start_of(key);
  const Vector scale = splat(p < 1 ? static_cast<float>(1 / (1 - p)) : 0.0F);
  const hn::Rebind<uint32_t, Longs> half;
  HWY_ALIGN uint32_t kept[kBlock + kLanes] = {};
  for (size_t i = begin; i < end; i += kBlock) {
    const size_t count = smaller(kBlock, end - i);
    for (size_t j = 0; j < count; j += kLongs) {
      const auto above = hn::Gt(hn::ShiftRight<11>(random_bits(start, i + j)), limit);
      hn::StoreU(hn::TruncateTo(half, hn::VecFromMask(d, above)), half, kept + j);
    }
    for_vectors(count, [&](size_t j, size_t lanes) HWY_ATTR {
      const auto mask = hn::MaskFromVec(hn::BitCast(Floats(), hn::LoadU(Words(), kept + j)));
      store_some(hn::IfThenElseZero(mask, hn::Mul(load_some(x + i + j, lanes), scale)), y + i + j, lanes);
    });
  }
}

void dropout(const float* x, float* y, uint64_t count, double p, uint64_t key, ThreadPool& pool) {
  pool.for_ranges(count, kElementsWorth / 4,
                  [&](size_t begin, size_t end) HWY_ATTR { drop(x, y, begin, end, p, key); });
}

// ---------------------------------------------------------------- the sum of squares
using Doubles = hn::Repartition<double, Floats>;

double piece_square_sum(const float* x, size_t count) {
  const Doubles d;
  const hn::Rebind<float, Doubles> half;
  constexpr size_t kDoubles = hn::MaxLanes(Doubles()), kSums = 4;
  hn::Vec<Doubles> sums[kSums];
  BALLAST_UNROLL for (size_t s = 0; s < kSums; ++s) sums[s] = hn::Zero(d);
  size_t i = 0;
  for (; i + kSums * kDoubles <= count; i += kSums * kDoubles) {
    BALLAST_UNROLL for (size_t s = 0; s < kSums; ++s) {
      const auto v = hn::PromoteTo(d, hn::LoadU(half, x + i + s * kDoubles));
      sums[s] = hn::MulAdd(v, v, sums[s]);
    }
  }
  const auto low = hn::Add(sums[0], sums[1]), high = hn::Add(sums[2], sums[3]);
  double total = hn::GetLane(hn::SumOfLanes(d, hn::Add(low, high)));
  for (; i < count; ++i) total += static_cast<double>(x[i]) * static_cast<double>(x[i]);
  return total;
}

double square_sum(const float* x, uint64_t count, ThreadPool& pool) {
  constexpr size_t kMostPieces = 64;
  double sums[kMostPieces];
  const size_t pieces = larger(1, smaller(kMostPieces, count / kElementsWorth));
  pool.for_ranges(pieces, 1, [&](size_t begin, size_t end) HWY_ATTR {
    for (size_t piece = begin; piece < end; ++piece) {
      const size_t from = count / pieces * piece, to = piece + 1 == pieces ? count : count / pieces * (piece + 1);
      sums[piece] = piece_square_sum(x + from, to - from);
    }
  });
  double total = 0;
  for (size_t piece = 0; piece < pieces; ++piece) total += sums[piece];
  return total;
}

}  // namespace ballast::cpu::gradients::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace ballast::cpu::gradients {

HWY_EXPORT(unary);
HWY_EXPORT(dropout);
HWY_EXPORT(square_sum);

void unary(UnaryOp op, float parameter, const float* x, const float* dy, float* dx, uint64_t count, ThreadPool& pool) {
  HWY_DYNAMIC_DISPATCH(unary)(op, parameter, x, dy, dx, count, pool);
}
void dropout(const float* x, float* y, uint64_t count, double p, uint64_t key, ThreadPool& pool) {
  HWY_DYNAMIC_DISPATCH(dropout)(x, y, count, p, key, pool);
}
double square_sum(const float* x, uint64_t count, ThreadPool& pool) {
  return HWY_DYNAMIC_DISPATCH(square_sum)(x, count, pool);
}

}  // namespace ballast::cpu::gradients
#endif
