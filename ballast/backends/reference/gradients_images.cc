#include <algorithm>
#include <limits>

#include "ballast/backends/reference/gradients.h"
#include "ballast/backends/reference/weight.h"

namespace ballast::reference {

namespace {

// Calls body(input, weight, output) with the places of all triples in y[output] += x[input] * w[weight] that belong to
// one image and one output channel.
template <typename T, typename Body>
void for_each_term(const Conv2dProblem<T>& p, uint64_t image, uint64_t output, const Body& body) {
  const uint64_t channels = p.c_in / p.groups;
  const uint64_t first_channel = output / (p.c_out / p.groups) * channels;
  for (uint64_t oy = 0; oy < p.out_h; ++oy) {
    for (uint64_t ky = 0; ky < p.kernel_h; ++ky) {
      const uint64_t y = oy * p.stride_h + ky * p.dilation_h - p.pad_top;  // above the image: wraps, and is too large
      if (y >= p.h) continue;
      for (uint64_t ox = 0; ox < p.out_w; ++ox) {
        for (uint64_t kx = 0; kx < p.kernel_w; ++kx) {
          const uint64_t x = ox * p.stride_w + kx * p.dilation_w - p.pad_left;
          if (x >= p.width) continue;
          const uint64_t input = ((image * p.h + y) * p.width + x) * p.c_in + first_channel;
          const uint64_t at = ((image * p.out_h + oy) * p.out_w + ox) * p.c_out + output;
          for (uint64_t c = 0; c < channels; ++c) {
            body(input + c, ((output * channels + c) * p.kernel_h + ky) * p.kernel_w + kx, at);
          }
        }
      }
    }
  }
}

template <typename T>
void input_gradient(const Conv2dGradient<T>& g, ThreadPool& threads) {
  const Conv2dProblem<T>& p = *g.forward;
  const uint64_t size = p.h * p.width * p.c_in;
  with_elements<T>(p.w, [&](const auto& weight) {
    threads.for_ranges(p.n, 1, [&](size_t begin, size_t end) {
      std::fill(g.dx + begin * size, g.dx + end * size, T{0});
      for (size_t image = begin; image < end; ++image) {
        for (uint64_t output = 0; output < p.c_out; ++output) {
          for_each_term(p, image, output,
                        [&](uint64_t in, uint64_t w, uint64_t out) { g.dx[in] += weight(w) * g.dy[out]; });
        }
      }
    });
  });
}

template <typename T>
void weight_gradient(const Conv2dGradient<T>& g, ThreadPool& threads) {
  const Conv2dProblem<T>& p = *g.forward;
  const uint64_t size = p.c_in / p.groups * p.kernel_h * p.kernel_w;
  threads.for_ranges(p.c_out, 1, [&](size_t begin, size_t end) {
    if (!g.add) std::fill(g.dw + begin * size, g.dw + end * size, T{0});
    for (size_t output = begin; output < end; ++output) {
      for (uint64_t image = 0; image < p.n; ++image) {
        for_each_term(p, image, output, [&](uint64_t in, uint64_t w, uint64_t out) { g.dw[w] += p.x[in] * g.dy[out]; });
      }
    }
  });
}

// Gives dy to the first largest of one window.
template <typename T>
void give(const Pool2dProblem<T>& p, uint64_t image, uint64_t oy, uint64_t ox, uint64_t c, T dy, T* dx) {
  T best = -std::numeric_limits<T>::infinity();
  uint64_t at = 0;
  bool found = false;
  for (uint64_t ky = 0; ky < p.window_h; ++ky) {
    const uint64_t y = oy * p.stride_h + ky - p.pad_top;
    for (uint64_t kx = 0; y < p.h && kx < p.window_w; ++kx) {
      const uint64_t x = ox * p.stride_w + kx - p.pad_left;
      if (x >= p.width) continue;
      const uint64_t here = ((image * p.h + y) * p.width + x) * p.c + c;
      if (found && (best != best || p.x[here] <= best)) continue;
      best = p.x[here];
      at = here;
      found = true;
    }
  }
  if (found) dx[at] += dy;
}

}  // namespace

template <typename T>
void conv2d_gradient(const Conv2dGradient<T>& g, T*, ThreadPool& threads) {
  if (g.dx != nullptr) input_gradient(g, threads);
  if (g.dw != nullptr) weight_gradient(g, threads);
}

template <typename T>
uint64_t conv2d_gradient_scratch(const Conv2dGradient<T>&, unsigned) {
  return 0;
}

template <typename T>
void max_pool2d_gradient(const Pool2dProblem<T>& p, const T* dy, T* dx, ThreadPool& threads) {
  const uint64_t size = p.h * p.width * p.c;
  threads.for_ranges(p.n, 1, [&](size_t begin, size_t end) {
    std::fill(dx + begin * size, dx + end * size, T{0});
    for (uint64_t at = begin * p.out_h * p.out_w; at < end * p.out_h * p.out_w; ++at) {
      const uint64_t image = at / (p.out_h * p.out_w);
      const uint64_t oy = at / p.out_w % p.out_h;
      for (uint64_t c = 0; c < p.c; ++c) give(p, image, oy, at % p.out_w, c, dy[at * p.c + c], dx);
    }
  });
}

#define INSTANTIATE(T)                                                           \
  template void conv2d_gradient(const Conv2dGradient<T>&, T*, ThreadPool&);      \
  template uint64_t conv2d_gradient_scratch(const Conv2dGradient<T>&, unsigned); \
  template void max_pool2d_gradient(const Pool2dProblem<T>&, const T*, T*, ThreadPool&);
INSTANTIATE(float)
INSTANTIATE(double)
#undef INSTANTIATE

}  // namespace ballast::reference
