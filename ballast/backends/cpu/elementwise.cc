// Kernels whose results depend on the elements at one place.
#include "ballast/backends/cpu/block_kernels.h"
#include "ballast/backends/cpu/kernels.h"
#include "ballast/backends/cpu/targets.h"
// After targets.h.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "ballast/backends/cpu/elementwise.cc"
#include <hwy/foreach_target.h>
// After foreach_target.h.
#include "ballast/backends/cpu/simd-inl.h"

HWY_BEFORE_NAMESPACE();
namespace ballast::cpu::HWY_NAMESPACE {

// A piece that is worth another thread.
constexpr size_t kPiece = 16384;

struct Negative {
  HWY_INLINE Vector operator()(Vector x) const { return hn::Neg(x); }
};
struct Magnitude {
  HWY_INLINE Vector operator()(Vector x) const { return hn::Abs(x); }
};

struct Sigmoid {
  HWY_INLINE Vector operator()(Vector x) const { return times_sigmoid(splat(1.0F), x); }
};
struct LeakyRelu {
  float slope;
  HWY_INLINE Vector operator()(Vector x) const {
    return hn::IfThenElse(hn::Gt(x, zeros()), x, hn::Mul(splat(slope), x));
  }
};
struct Elu {
  float alpha;
  HWY_INLINE Vector operator()(Vector x) const {
    return hn::IfThenElse(hn::Gt(x, zeros()), x, hn::Mul(splat(alpha), exponential_minus_one(x)));
  }
};
struct Softplus {
  HWY_INLINE Vector operator()(Vector x) const {
    return hn::Add(at_least(0.0F, x), logarithm_plus_one(exponential(hn::Neg(hn::Abs(x)))));
  }
};
struct HardSigmoid {
  HWY_INLINE Vector operator()(Vector x) const {
    return at_most(1.0F, at_least(0.0F, hn::MulAdd(x, splat(0.2F), splat(0.5F))));
  }
};
struct HardSwish {
  HWY_INLINE Vector operator()(Vector x) const { return hn::Mul(x, HardSigmoid()(x)); }
};
struct Exponential {
  HWY_INLINE Vector operator()(Vector x) const { return exponential(x); }
};
struct Logarithm {
  HWY_INLINE Vector operator()(Vector x) const { return logarithm(x); }
};
struct SquareRoot {
  HWY_INLINE Vector operator()(Vector x) const { return hn::Sqrt(x); }
};
struct Square {
  HWY_INLINE Vector operator()(Vector x) const { return hn::Mul(x, x); }
};
struct Scale {
  float factor;
  HWY_INLINE Vector operator()(Vector x) const { return hn::Mul(splat(factor), x); }
};
struct Shift {
  float distance;
  HWY_INLINE Vector operator()(Vector x) const { return hn::Add(x, splat(distance)); }
};

template <class F>
HWY_INLINE void map_threaded(const float* x, float* y, size_t count, ThreadPool& pool, F f) {
  pool.for_ranges(count, kPiece, [&](size_t begin, size_t end) HWY_ATTR { map(x + begin, y + begin, end - begin, f); });
}

void unary(UnaryOp op, float parameter, const float* x, float* y, uint64_t count, ThreadPool& pool) {
  switch (op) {
    case UnaryOp::kNeg: return map_threaded(x, y, count, pool, Negative());
    case UnaryOp::kAbs: return map_threaded(x, y, count, pool, Magnitude());
    case UnaryOp::kRelu: return map_threaded(x, y, count, pool, Relu());
    case UnaryOp::kRelu6: return map_threaded(x, y, count, pool, Relu6());
    case UnaryOp::kGeluErf: return map_threaded(x, y, count, pool, GeluErf());
    case UnaryOp::kGeluTanh: return map_threaded(x, y, count, pool, GeluTanh());
    case UnaryOp::kSilu: return map_threaded(x, y, count, pool, Silu());
    case UnaryOp::kSigmoid: return map_threaded(x, y, count, pool, Sigmoid());
    case UnaryOp::kTanh: return map_threaded(x, y, count, pool, Tanh());
    case UnaryOp::kLeakyRelu: return map_threaded(x, y, count, pool, LeakyRelu{parameter});
    case UnaryOp::kElu: return map_threaded(x, y, count, pool, Elu{parameter});
    case UnaryOp::kSoftplus: return map_threaded(x, y, count, pool, Softplus());
    case UnaryOp::kHardSigmoid: return map_threaded(x, y, count, pool, HardSigmoid());
    case UnaryOp::kHardSwish: return map_threaded(x, y, count, pool, HardSwish());
    case UnaryOp::kExp: return map_threaded(x, y, count, pool, Exponential());
    case UnaryOp::kLog: return map_threaded(x, y, count, pool, Logarithm());
    case UnaryOp::kSqrt: return map_threaded(x, y, count, pool, SquareRoot());
    case UnaryOp::kSquare: return map_threaded(x, y, count, pool, Square());
    case UnaryOp::kScale: return map_threaded(x, y, count, pool, Scale{parameter});
    case UnaryOp::kShift: return map_threaded(x, y, count, pool, Shift{parameter});
  }
}

struct Sum {
  HWY_INLINE Vector operator()(Vector a, Vector b) const { return hn::Add(a, b); }
};
struct Difference {
  HWY_INLINE Vector operator()(Vector a, Vector b) const { return hn::Sub(a, b); }
};
struct Product {
  HWY_INLINE Vector operator()(Vector a, Vector b) const { return hn::Mul(a, b); }
};
struct Quotient {
  HWY_INLINE Vector operator()(Vector a, Vector b) const { return hn::Div(a, b); }
};
// NaN where either is.
struct Larger {
  HWY_INLINE Vector operator()(Vector a, Vector b) const {
    return hn::IfThenElse(hn::Or(hn::IsNaN(a), hn::Gt(a, b)), a, b);
  }
};
struct Smaller {
  HWY_INLINE Vector operator()(Vector a, Vector b) const {
    return hn::IfThenElse(hn::Or(hn::IsNaN(a), hn::Lt(a, b)), a, b);
  }
};
struct Swiglu {
  HWY_INLINE Vector operator()(Vector gate, Vector up) const { return hn::Mul(Silu()(gate), up); }
};

template <class F>
HWY_INLINE void map_threaded(const float* a, const float* b, float* y, size_t count, ThreadPool& pool, F f) {
  pool.for_ranges(count, kPiece,
                  [&](size_t begin, size_t end) HWY_ATTR { map(a + begin, b + begin, y + begin, end - begin, f); });
}

void binary(BinaryOp op, const float* a, const float* b, float* y, uint64_t count, ThreadPool& pool) {
  switch (op) {
    case BinaryOp::kAdd: return map_threaded(a, b, y, count, pool, Sum());
    case BinaryOp::kSub: return map_threaded(a, b, y, count, pool, Difference());
    case BinaryOp::kMul: return map_threaded(a, b, y, count, pool, Product());
    case BinaryOp::kDiv: return map_threaded(a, b, y, count, pool, Quotient());
    case BinaryOp::kMax: return map_threaded(a, b, y, count, pool, Larger());
    case BinaryOp::kMin: return map_threaded(a, b, y, count, pool, Smaller());
  }
}

void swiglu(const float* gate, const float* up, float* y, uint64_t count, ThreadPool& pool) {
  map_threaded(gate, up, y, count, pool, Swiglu());
}

void add_bias(const float* x, const float* bias, float* y, uint64_t rows, uint64_t features, ThreadPool& pool) {
  if (features == 0) return;
  pool.for_ranges(rows, divide_up(kPiece, features), [&](size_t begin, size_t end) HWY_ATTR {
    for (size_t row = begin; row < end; ++row) map(x + row * features, bias, y + row * features, features, Sum());
  });
}

template <class Weight>
void widen_all(const std::byte* from, float* to, size_t count) {
  size_t i = 0;
  for (; i + kLanes <= count; i += kLanes) store(Weight::load(from + i * Weight::kBytes), to + i);
  if (i < count) store_part(load_weight_part<Weight>(from + i * Weight::kBytes, count - i), to + i, count - i);
}

void widen(const WeightView& weights, float* out, uint64_t count) {
  switch (weights.dtype) {
    case DType::kF16: return widen_all<F16Weight>(weights.data, out, count);
    case DType::kBF16: return widen_all<Bf16Weight>(weights.data, out, count);
    case DType::kF32: return widen_all<F32Weight>(weights.data, out, count);
    default: return widen_blocks(weights.dtype, weights.data, out, count);
  }
}

}  // namespace ballast::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace ballast::cpu {

HWY_EXPORT(unary);
HWY_EXPORT(binary);
HWY_EXPORT(swiglu);
HWY_EXPORT(add_bias);
HWY_EXPORT(widen);

void unary(UnaryOp op, float parameter, const float* x, float* y, uint64_t count, ThreadPool& pool) {
  HWY_DYNAMIC_DISPATCH(unary)(op, parameter, x, y, count, pool);
}
void binary(BinaryOp op, const float* a, const float* b, float* y, uint64_t count, ThreadPool& pool) {
  HWY_DYNAMIC_DISPATCH(binary)(op, a, b, y, count, pool);
}
void swiglu(const float* gate, const float* up, float* y, uint64_t count, ThreadPool& pool) {
  HWY_DYNAMIC_DISPATCH(swiglu)(gate, up, y, count, pool);
}
void add_bias(const float* x, const float* bias, float* y, uint64_t rows, uint64_t features, ThreadPool& pool) {
  HWY_DYNAMIC_DISPATCH(add_bias)(x, bias, y, rows, features, pool);
}
void widen(const WeightView& weights, float* out, uint64_t count) { HWY_DYNAMIC_DISPATCH(widen)(weights, out, count); }

}  // namespace ballast::cpu
#endif
