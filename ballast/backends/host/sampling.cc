#include "ballast/ops/sampling.h"

#include <algorithm>
#include <cmath>

#include "ballast/backends/host/implementations.h"
#include "ballast/backends/host/kernel_access.h"
#include "ballast/device/host_access.h"
#include "ballast/ops/gradient_routines.h"

namespace ballast::host {

namespace {

// Between which two places of the input one of the output lies, and how near to the second.
struct Between {
  uint64_t low, high;
  double share;
};

Between between(uint64_t out, uint64_t size, uint64_t factor, Upsampling method) {
  if (method == Upsampling::kNearest) return {out / factor, out / factor, 0};
  const uint64_t out_size = size * factor;
  const auto scale = static_cast<double>(factor);
  const double at = method == Upsampling::kBilinear ? (static_cast<double>(out) + 0.5) / scale - 0.5
                    : out_size == 1
                        ? 0
                        : static_cast<double>(out) * static_cast<double>(size - 1) / static_cast<double>(out_size - 1);
  const double inside = std::clamp(at, 0.0, static_cast<double>(size - 1));
  const auto low = static_cast<uint64_t>(inside);
  return {low, std::min(low + 1, size - 1), inside - static_cast<double>(low)};
}

// body(pixel of the input, pixel of the output, weight) for the one, two or four that make up each pixel of an output
// row, in a fixed order.
template <typename Body>
void for_each_term(const Dims& in, uint64_t factor, Upsampling method, uint64_t out_row, const Body& body) {
  const uint64_t height = in[1] * factor, width = in[2] * factor;
  const uint64_t image = out_row / height;
  const Between rows = between(out_row % height, in[1], factor, method);
  for (uint64_t x = 0; x < width; ++x) {
    const Between columns = between(x, in[2], factor, method);
    for (const bool lower : {false, true}) {
      const double down = lower ? rows.share : 1 - rows.share;
      if (down == 0) continue;
      const uint64_t first = (image * in[1] + (lower ? rows.high : rows.low)) * in[2];
      body(first + columns.low, out_row * width + x, down * (1 - columns.share));
      if (columns.share != 0) body(first + columns.high, out_row * width + x, down * columns.share);
    }
  }
}

template <typename T>
void add_pixel(const T* from, T weight, T* to, uint64_t channels) {
  for (uint64_t c = 0; c < channels; ++c) to[c] += weight * from[c];
}

Result<Tensor> run_upsampling(Context& context, const Upsample2dArgs& args) {
  const Dims& in = args.x.dims();
  BALLAST_TRY(Tensor y,
              context.workspace().zeros({in[0], in[1] * args.factor, in[2] * args.factor, in[3]}, args.x.dtype()));
  with_type(y.dtype(), [&]<typename T>() {
    const T* from = host_data<const T>(args.x);
    T* to = host_data<T>(y);
    const uint64_t channels = in[3];
    const size_t grain = row_grain(y.dims()[2] * channels);
    context.threads().for_ranges(y.dims()[0] * y.dims()[1], grain, [&](size_t begin, size_t end) {
      for (size_t row = begin; row < end; ++row) {
        for_each_term(in, args.factor, args.method, row, [&](uint64_t pixel, uint64_t out, double weight) {
          add_pixel(from + pixel * channels, static_cast<T>(weight), to + out * channels, channels);
        });
      }
    });
  });
  return y;
}

// A piece of work is an image: rows of the output meet in rows of the input.
Status run_upsampling_gradient(Context& context, const Upsample2dGradientArgs& args) {
  const Dims& in = args.dx.dims();
  with_type(args.dy.dtype(), [&]<typename T>() {
    const T* from = host_data<const T>(args.dy);
    T* to = host_data<T>(args.dx);
    const uint64_t channels = in[3], rows = in[1] * args.factor;
    std::fill_n(to, args.dx.count(), T{0});
    context.threads().for_ranges(in[0], 1, [&](size_t begin, size_t end) {
      for (size_t row = begin * rows; row < end * rows; ++row) {
        for_each_term(in, args.factor, args.method, row, [&](uint64_t pixel, uint64_t out, double weight) {
          add_pixel(from + out * channels, static_cast<T>(weight), to + pixel * channels, channels);
        });
      }
    });
  });
  return {};
}

}  // namespace

void add_sampling(Registry& registry) {
  registry.add_builtin<Upsample2dArgs>(nullptr, run_upsampling);
  registry.add_routine(run_upsampling_gradient);
}

}  // namespace ballast::host
