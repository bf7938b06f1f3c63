#include <cmath>

#include "ballast/backends/reference/kernels.h"

namespace ballast::reference {

template <typename T>
void layer_norm(const NormProblem<T>& p, ThreadPool& threads) {
  const T share = T{1} / static_cast<T>(p.features);
  threads.for_ranges(p.rows, 1, [&, share](size_t begin, size_t end) {
    for (size_t row = begin; row < end; ++row) {
      const T* x = p.x + row * p.features;
      T* y = p.y + row * p.features;
      T sum = 0;
      for (uint64_t i = 0; i < p.features; ++i) sum += x[i];
      const T mean = sum * share;
      T squares = 0;
      for (uint64_t i = 0; i < p.features; ++i) squares += (x[i] - mean) * (x[i] - mean);
      const T inverse = T{1} / std::sqrt(squares * share + p.eps);
      for (uint64_t i = 0; i < p.features; ++i) y[i] = (x[i] - mean) * inverse * p.gamma[i] + p.beta[i];
    }
  });
}

template <typename T>
void rms_norm(const NormProblem<T>& p, ThreadPool& threads) {
  const T share = T{1} / static_cast<T>(p.features);
  threads.for_ranges(p.rows, 1, [&, share](size_t begin, size_t end) {
    for (size_t row = begin; row < end; ++row) {
      const T* x = p.x + row * p.features;
      T* y = p.y + row * p.features;
      T squares = 0;
      for (uint64_t i = 0; i < p.features; ++i) squares += x[i] * x[i];
      const T inverse = T{1} / std::sqrt(squares * share + p.eps);
      for (uint64_t i = 0; i < p.features; ++i) y[i] = x[i] * inverse * p.gamma[i];
    }
  });
}

template void layer_norm(const NormProblem<float>&, ThreadPool&);
template void layer_norm(const NormProblem<double>&, ThreadPool&);
template void rms_norm(const NormProblem<float>&, ThreadPool&);
template void rms_norm(const NormProblem<double>&, ThreadPool&);

}  // namespace ballast::reference
