#include <cmath>

#include "ballast/backends/reference/gradients.h"

namespace ballast::reference {

namespace {

constexpr size_t kUpdateGrain = 1 << 12;

template <typename T>
T rounded(double value) {
  return static_cast<T>(value);
}

}  // namespace

template <typename T>
void sgd(const SgdUpdate<T>& u, ThreadPool& threads) {
  const T lr = rounded<T>(u.lr), momentum = rounded<T>(u.momentum), decay = rounded<T>(u.weight_decay);
  threads.for_ranges(u.count, kUpdateGrain, [&](size_t begin, size_t end) {
    for (size_t i = begin; i < end; ++i) {
      T g = u.g[i];
      if (u.weight_decay != 0) g += decay * u.p[i];
      if (u.velocity != nullptr) {
        const T v = u.velocity[i] = momentum * u.velocity[i] + g;
        g = u.nesterov ? g + momentum * v : v;
      }
      u.p[i] -= lr * g;
    }
  });
}

template <typename T>
void adam(const AdamUpdate<T>& u, ThreadPool& threads) {
  const T lr = rounded<T>(u.lr), decay = rounded<T>(u.weight_decay), eps = rounded<T>(u.eps);
  const T beta1 = rounded<T>(u.beta1), beta2 = rounded<T>(u.beta2);
  const T correction1 = rounded<T>(u.correction1), correction2 = rounded<T>(u.correction2);
  threads.for_ranges(u.count, kUpdateGrain, [&](size_t begin, size_t end) {
    for (size_t i = begin; i < end; ++i) {
      T g = u.g[i];
      if (u.weight_decay != 0 && !u.decoupled) g += decay * u.p[i];
      const T m = u.m[i] = beta1 * u.m[i] + (T{1} - beta1) * g;
      const T v = u.v[i] = beta2 * u.v[i] + (T{1} - beta2) * (g * g);
      if (u.weight_decay != 0 && u.decoupled) u.p[i] -= lr * decay * u.p[i];
      u.p[i] -= lr * (m / correction1 / (std::sqrt(v / correction2) + eps));
    }
  });
}

template <typename T>
void rmsprop(const RmsPropUpdate<T>& u, ThreadPool& threads) {
  const T lr = rounded<T>(u.lr), decay = rounded<T>(u.weight_decay), eps = rounded<T>(u.eps);
  const T alpha = rounded<T>(u.alpha), momentum = rounded<T>(u.momentum);
  threads.for_ranges(u.count, kUpdateGrain, [&](size_t begin, size_t end) {
    for (size_t i = begin; i < end; ++i) {
      T g = u.g[i];
      if (u.weight_decay != 0) g += decay * u.p[i];
      const T s = u.square_mean[i] = alpha * u.square_mean[i] + (T{1} - alpha) * (g * g);
      T step = lr * (g / (std::sqrt(s) + eps));
      if (u.buffer != nullptr) step = u.buffer[i] = momentum * u.buffer[i] + step;
      u.p[i] -= step;
    }
  });
}

#define INSTANTIATE(T)                                   \
  template void sgd(const SgdUpdate<T>&, ThreadPool&);   \
  template void adam(const AdamUpdate<T>&, ThreadPool&); \
  template void rmsprop(const RmsPropUpdate<T>&, ThreadPool&);
INSTANTIATE(float)
INSTANTIATE(double)
#undef INSTANTIATE

}  // namespace ballast::reference
