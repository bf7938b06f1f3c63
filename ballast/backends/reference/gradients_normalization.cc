#include <cmath>

#include "ballast/backends/reference/gradients.h"

namespace ballast::reference {

namespace {

// y = (x - mean) * inverse * gamma + beta; without a mean it is 0.
template <typename T>
struct RowStatistics {
  T mean, inverse;
};

template <typename T>
RowStatistics<T> statistics_of(const NormGradient<T>& p, uint64_t row, bool centred) {
  const T* x = p.x + row * p.features;
  const T share = T{1} / static_cast<T>(p.features);
  T sum = 0;
  for (uint64_t i = 0; centred && i < p.features; ++i) sum += x[i];
  const T mean = sum * share;
  T squares = 0;
  for (uint64_t i = 0; i < p.features; ++i) squares += (x[i] - mean) * (x[i] - mean);
  return {mean, T{1} / std::sqrt(squares * share + p.eps)};
}

// With n = (x - mean) * inverse and g = dy * gamma: dx = inverse * (g - mean of g - n * mean of g n), where the mean of
// g counts only if x was centred.
template <typename T>
void row_gradient(const NormGradient<T>& p, uint64_t row, bool centred) {
  const auto [mean, inverse] = statistics_of(p, row, centred);
  const T* x = p.x + row * p.features;
  const T* dy = p.dy + row * p.features;
  T* dx = p.dx + row * p.features;
  const T share = T{1} / static_cast<T>(p.features);
  T sum = 0, product = 0;
  for (uint64_t i = 0; i < p.features; ++i) {
    const T g = dy[i] * p.gamma[i];
    sum += g;
    product += g * ((x[i] - mean) * inverse);
  }
  const T level = centred ? sum * share : T{0};
  const T slope = product * share;
  for (uint64_t i = 0; i < p.features; ++i) {
    dx[i] = inverse * (dy[i] * p.gamma[i] - level - (x[i] - mean) * inverse * slope);
  }
}

template <typename T>
void put(T* to, uint64_t at, T value, bool add) {
  if (to != nullptr) to[at] = add ? to[at] + value : value;
}

// Statistics of a row are computed again for each piece of columns: that needs no memory.
template <typename T>
void norm_gradient(const NormGradient<T>& p, bool centred, ThreadPool& threads) {
  if (p.dx != nullptr) {
    threads.for_ranges(p.rows, 1, [&](size_t begin, size_t end) {
      for (size_t row = begin; row < end; ++row) row_gradient(p, row, centred);
    });
  }
  if (p.dgamma == nullptr && p.dbeta == nullptr) return;
  threads.for_ranges(p.features, 64, [&](size_t begin, size_t end) {
    for (size_t i = begin; i < end; ++i) {
      T scale = 0, shift = 0;
      for (uint64_t row = 0; row < p.rows; ++row) {
        const auto [mean, inverse] = statistics_of(p, row, centred);
        const T dy = p.dy[row * p.features + i];
        scale += dy * ((p.x[row * p.features + i] - mean) * inverse);
        shift += dy;
      }
      put(p.dgamma, i, scale, p.add);
      put(p.dbeta, i, shift, p.add);
    }
  });
}

}  // namespace

template <typename T>
void layer_norm_gradient(const NormGradient<T>& p, ThreadPool& threads) {
  norm_gradient(p, true, threads);
}

template <typename T>
void rms_norm_gradient(const NormGradient<T>& p, ThreadPool& threads) {
  norm_gradient(p, false, threads);
}

template <typename T>
void batch_statistics(const T* x, T* mean, T* variance, uint64_t rows, uint64_t channels, ThreadPool& threads) {
  threads.for_ranges(channels, 1, [=](size_t begin, size_t end) {
    for (size_t c = begin; c < end; ++c) {
      T sum = 0;
      for (uint64_t row = 0; row < rows; ++row) sum += x[row * channels + c];
      mean[c] = sum / static_cast<T>(rows);
      T squares = 0;
      for (uint64_t row = 0; row < rows; ++row) {
        const T distance = x[row * channels + c] - mean[c];
        squares += distance * distance;
      }
      variance[c] = squares / static_cast<T>(rows);
    }
  });
}

template <typename T>
void batch_norm_gradient(const BatchNormGradient<T>& p, ThreadPool& threads) {
  threads.for_ranges(p.channels, 1, [&](size_t begin, size_t end) {
    for (size_t c = begin; c < end; ++c) {
      const T inverse = T{1} / std::sqrt(p.variance[c] + p.eps);
      T scale = 0, shift = 0;
      for (uint64_t i = c; i < p.rows * p.channels; i += p.channels) {
        scale += p.dy[i] * ((p.x[i] - p.mean[c]) * inverse);
        shift += p.dy[i];
      }
      put(p.dgamma, c, scale, p.add);
      put(p.dbeta, c, shift, p.add);
      const T share = p.constant_statistics ? T{0} : T{1} / static_cast<T>(p.rows);
      for (uint64_t i = c; p.dx != nullptr && i < p.rows * p.channels; i += p.channels) {
        const T normal = (p.x[i] - p.mean[c]) * inverse;
        p.dx[i] = p.gamma[c] * inverse * (p.dy[i] - share * shift - normal * (share * scale));
      }
    }
  });
}

#define INSTANTIATE(T)                                                               \
  template void layer_norm_gradient(const NormGradient<T>&, ThreadPool&);            \
  template void rms_norm_gradient(const NormGradient<T>&, ThreadPool&);              \
  template void batch_statistics(const T*, T*, T*, uint64_t, uint64_t, ThreadPool&); \
  template void batch_norm_gradient(const BatchNormGradient<T>&, ThreadPool&);
INSTANTIATE(float)
INSTANTIATE(double)
#undef INSTANTIATE

}  // namespace ballast::reference
