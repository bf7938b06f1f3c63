#include <limits>

#include "ballast/backends/reference/kernels.h"

namespace ballast::reference {

namespace {

// The largest element of one window; what lies outside the image does not count, and NaN stays.
template <typename T>
T largest(const Pool2dProblem<T>& p, uint64_t image, uint64_t oy, uint64_t ox, uint64_t channel) {
  T best = -std::numeric_limits<T>::infinity();
  for (uint64_t ky = 0; ky < p.window_h; ++ky) {
    const uint64_t y = oy * p.stride_h + ky - p.pad_top;  // above the image: wraps, and is too large
    for (uint64_t kx = 0; y < p.h && kx < p.window_w; ++kx) {
      const uint64_t x = ox * p.stride_w + kx - p.pad_left;
      if (x >= p.width) continue;
      const T value = p.x[((image * p.h + y) * p.width + x) * p.c + channel];
      if (!(value <= best)) best = value;
      if (best != best) return best;
    }
  }
  return best;
}

// The sum of one window; what lies outside the image is 0.
template <typename T>
T sum_of(const Pool2dProblem<T>& p, uint64_t image, uint64_t oy, uint64_t ox, uint64_t channel) {
  T sum = 0;
  for (uint64_t ky = 0; ky < p.window_h; ++ky) {
    const uint64_t y = oy * p.stride_h + ky - p.pad_top;
    for (uint64_t kx = 0; y < p.h && kx < p.window_w; ++kx) {
      const uint64_t x = ox * p.stride_w + kx - p.pad_left;
      if (x < p.width) sum += p.x[((image * p.h + y) * p.width + x) * p.c + channel];
    }
  }
  return sum;
}

}  // namespace

template <typename T>
void max_pool2d(const Pool2dProblem<T>& p, ThreadPool& threads) {
  threads.for_ranges(p.n * p.out_h * p.out_w, 1, [&](size_t begin, size_t end) {
    for (size_t position = begin; position < end; ++position) {
      const uint64_t image = position / (p.out_h * p.out_w);
      const uint64_t oy = position / p.out_w % p.out_h;
      for (uint64_t c = 0; c < p.c; ++c) p.y[position * p.c + c] = largest(p, image, oy, position % p.out_w, c);
    }
  });
}

template <typename T>
void avg_pool2d(const Pool2dProblem<T>& p, ThreadPool& threads) {
  const auto window = static_cast<T>(p.window_h * p.window_w);
  threads.for_ranges(p.n * p.out_h * p.out_w, 1, [&, window](size_t begin, size_t end) {
    for (size_t position = begin; position < end; ++position) {
      const uint64_t image = position / (p.out_h * p.out_w);
      const uint64_t oy = position / p.out_w % p.out_h;
      for (uint64_t c = 0; c < p.c; ++c) p.y[position * p.c + c] = sum_of(p, image, oy, position % p.out_w, c) / window;
    }
  });
}

template <typename T>
void mean_over_positions(const T* x, T* y, uint64_t n, uint64_t positions, uint64_t c, ThreadPool& threads) {
  threads.for_ranges(n * c, 1, [=](size_t begin, size_t end) {
    for (size_t i = begin; i < end; ++i) {
      const T* column = x + i / c * positions * c + i % c;
      T sum = 0;
      for (uint64_t position = 0; position < positions; ++position) sum += column[position * c];
      y[i] = sum / static_cast<T>(positions);
    }
  });
}

template void max_pool2d(const Pool2dProblem<float>&, ThreadPool&);
template void max_pool2d(const Pool2dProblem<double>&, ThreadPool&);
template void avg_pool2d(const Pool2dProblem<float>&, ThreadPool&);
template void avg_pool2d(const Pool2dProblem<double>&, ThreadPool&);
template void mean_over_positions(const float*, float*, uint64_t, uint64_t, uint64_t, ThreadPool&);
template void mean_over_positions(const double*, double*, uint64_t, uint64_t, uint64_t, ThreadPool&);

}  // namespace ballast::reference
