// Updates of parameters: one sweep over a parameter, its gradient and its state. Scalars are floats, as on netcl's
// devices; what they are made of is computed in double.
#include "ballast/backends/cpu/gradients.h"
#include "ballast/backends/cpu/targets.h"
// After targets.h.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "ballast/backends/cpu/optimizers.cc"
#include <hwy/foreach_target.h>
// After foreach_target.h.
#include "ballast/backends/cpu/sums-inl.h"

HWY_BEFORE_NAMESPACE();
namespace ballast::cpu::gradients::HWY_NAMESPACE {

using namespace ballast::cpu::HWY_NAMESPACE;  // NOLINT(google-build-using-namespace): the vectors of this target

// Elements that are worth another thread.
constexpr size_t kUpdateWorth = 8192;

HWY_INLINE Vector rounded(double value) { return splat(static_cast<float>(value)); }
HWY_INLINE Vector plus_product(Vector sum, Vector a, Vector b) { return hn::Add(sum, hn::Mul(a, b)); }
HWY_INLINE Vector minus_product(Vector sum, Vector a, Vector b) { return hn::Sub(sum, hn::Mul(a, b)); }

// body(i, lanes) for all vectors of a parameter.
template <class Body>
HWY_INLINE void sweep(size_t count, ThreadPool& pool, const Body& body) {
  pool.for_ranges(count, kUpdateWorth, [&](size_t begin, size_t end) HWY_ATTR {
    for_vectors(end - begin, [&](size_t i, size_t lanes) HWY_ATTR { body(begin + i, lanes); });
  });
}

void sgd(const SgdUpdate<float>& u, ThreadPool& pool) {
  const Vector lr = rounded(u.lr), momentum = rounded(u.momentum), decay = rounded(u.weight_decay);
  const bool decays = u.weight_decay != 0;
  sweep(u.count, pool, [&](size_t i, size_t lanes) HWY_ATTR {
    const Vector p = load_some(u.p + i, lanes);
    Vector g = load_some(u.g + i, lanes);
    if (decays) g = plus_product(g, decay, p);
    if (u.velocity != nullptr) {
      const Vector v = hn::Add(hn::Mul(momentum, load_some(u.velocity + i, lanes)), g);
      store_some(v, u.velocity + i, lanes);
      g = u.nesterov ? plus_product(g, momentum, v) : v;
    }
    store_some(minus_product(p, lr, g), u.p + i, lanes);
  });
}

void adam(const AdamUpdate<float>& u, ThreadPool& pool) {
  const Vector lr = rounded(u.lr), decay = rounded(u.weight_decay), eps = rounded(u.eps);
  const Vector beta1 = rounded(u.beta1), beta2 = rounded(u.beta2);
  const Vector rest1 = hn::Sub(splat(1.0F), beta1), rest2 = hn::Sub(splat(1.0F), beta2);
  // Dividing takes long: once for each element is enough.
  const Vector scale1 = rounded(1 / u.correction1), scale2 = rounded(1 / u.correction2);
  const Vector shrink = hn::Mul(lr, decay);
  const bool decays = u.weight_decay != 0;
  sweep(u.count, pool, [&](size_t i, size_t lanes) HWY_ATTR {
    Vector p = load_some(u.p + i, lanes);
    Vector g = load_some(u.g + i, lanes);
    if (decays && !u.decoupled) g = plus_product(g, decay, p);
    const Vector m = plus_product(hn::Mul(beta1, load_some(u.m + i, lanes)), rest1, g);
    const Vector v = plus_product(hn::Mul(beta2, load_some(u.v + i, lanes)), rest2, hn::Mul(g, g));
    store_some(m, u.m + i, lanes);
    store_some(v, u.v + i, lanes);
    if (decays && u.decoupled) p = minus_product(p, shrink, p);
    const Vector root = hn::Add(hn::Sqrt(hn::Mul(v, scale2)), eps);
    store_some(minus_product(p, lr, hn::Div(hn::Mul(m, scale1), root)), u.p + i, lanes);
  });
}

void rmsprop(const RmsPropUpdate<float>& u, ThreadPool& pool) {
  const Vector lr = rounded(u.lr), decay = rounded(u.weight_decay), eps = rounded(u.eps);
  const Vector alpha = rounded(u.alpha), momentum = rounded(u.momentum);
  const Vector rest = hn::Sub(splat(1.0F), alpha);
  const bool decays = u.weight_decay != 0;
  sweep(u.count, pool, [&](size_t i, size_t lanes) HWY_ATTR {
    const Vector p = load_some(u.p + i, lanes);
    Vector g = load_some(u.g + i, lanes);
    if (decays) g = plus_product(g, decay, p);
    const Vector s = plus_product(hn::Mul(alpha, load_some(u.square_mean + i, lanes)), rest, hn::Mul(g, g));
    store_some(s, u.square_mean + i, lanes);
    Vector step = hn::Mul(lr, hn::Div(g, hn::Add(hn::Sqrt(s), eps)));
    if (u.buffer != nullptr) {
      step = hn::Add(hn::Mul(momentum, load_some(u.buffer + i, lanes)), step);
      store_some(step, u.buffer + i, lanes);
    }
    store_some(hn::Sub(p, step), u.p + i, lanes);
  });
}

}  // namespace ballast::cpu::gradients::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace ballast::cpu::gradients {

HWY_EXPORT(sgd);
HWY_EXPORT(adam);
HWY_EXPORT(rmsprop);

void sgd(const SgdUpdate<float>& update, ThreadPool& pool) { HWY_DYNAMIC_DISPATCH(sgd)(update, pool); }
void adam(const AdamUpdate<float>& update, ThreadPool& pool) { HWY_DYNAMIC_DISPATCH(adam)(update, pool); }
void rmsprop(const RmsPropUpdate<float>& update, ThreadPool& pool) { HWY_DYNAMIC_DISPATCH(rmsprop)(update, pool); }

}  // namespace ballast::cpu::gradients
#endif
