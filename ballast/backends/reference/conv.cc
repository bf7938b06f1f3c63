#include "ballast/backends/reference/kernels.h"
#include "ballast/backends/reference/weight.h"

namespace ballast::reference {

namespace {

// One element of the output: terms in the order kh, kw, channel.
template <typename T, typename At>
T convolve(const Conv2dProblem<T>& p, const At& weight, uint64_t image, uint64_t oy, uint64_t ox, uint64_t output) {
  const uint64_t channels = p.c_in / p.groups;
  const uint64_t first_channel = output / (p.c_out / p.groups) * channels;
  const uint64_t row = (output - p.o_begin) * channels * p.kernel_h * p.kernel_w;
  T sum = 0;
  for (uint64_t ky = 0; ky < p.kernel_h; ++ky) {
    const uint64_t y = oy * p.stride_h + ky * p.dilation_h - p.pad_top;  // above the image: wraps, and is too large
    if (y >= p.h) continue;
    for (uint64_t kx = 0; kx < p.kernel_w; ++kx) {
      const uint64_t x = ox * p.stride_w + kx * p.dilation_w - p.pad_left;
      if (x >= p.width) continue;
      const T* pixel = p.x + ((image * p.h + y) * p.width + x) * p.c_in + first_channel;
      for (uint64_t c = 0; c < channels; ++c) {
        sum += pixel[c] * weight(row + (c * p.kernel_h + ky) * p.kernel_w + kx);
      }
    }
  }
  return sum;
}

template <typename T>
T finished(const Conv2dProblem<T>& p, T sum, uint64_t at, uint64_t output) {
  if (p.bias != nullptr) sum += p.bias[output];
  if (p.residual != nullptr) sum += p.residual[at];
  return activated(p.activation, sum);
}

}  // namespace

template <typename T>
void conv2d(const Conv2dProblem<T>& p, T*, ThreadPool& threads) {
  with_elements<T>(p.w, [&](const auto& weight) {
    threads.for_ranges(p.n * p.out_h * p.out_w, 1, [&](size_t begin, size_t end) {
      for (size_t position = begin; position < end; ++position) {
        const uint64_t image = position / (p.out_h * p.out_w);
        const uint64_t oy = position / p.out_w % p.out_h;
        for (uint64_t output = p.o_begin; output < p.o_begin + p.o_count; ++output) {
          const uint64_t at = position * p.c_out + output;
          p.y[at] = finished(p, convolve(p, weight, image, oy, position % p.out_w, output), at, output);
        }
      }
    });
  });
}

template <typename T>
uint64_t conv2d_scratch(const Conv2dProblem<T>&, unsigned) {
  return 0;
}

template void conv2d(const Conv2dProblem<float>&, float*, ThreadPool&);
template void conv2d(const Conv2dProblem<double>&, double*, ThreadPool&);
template uint64_t conv2d_scratch(const Conv2dProblem<float>&, unsigned);
template uint64_t conv2d_scratch(const Conv2dProblem<double>&, unsigned);

}  // namespace ballast::reference
