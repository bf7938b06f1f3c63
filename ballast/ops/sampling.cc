#include "ballast/ops/sampling.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>

#include "ballast/base/checked.h"
#include "ballast/ops/builtins.h"
#include "ballast/ops/check.h"
#include "ballast/ops/gradient_access.h"

namespace ballast::ops {

namespace {

constexpr std::array<std::string_view, 3> kMethodNames = {"nearest", "bilinear", "bilinear with aligned corners"};

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
    const T* from = args.x.data<T>();
    T* to = y.writable<T>();
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

struct UpsampleStep {
  uint64_t factor;
  Upsampling method;
  Tape::Input input;

  // A piece of work is an image: rows of the output meet in rows of the input.
  Status backward(Context& context, const Tensor& dy, Tape& tape) const {
    const Dims& in = input.dims();
    BALLAST_TRY(Tensor dx, context.workspace().zeros(in, dy.dtype()));
    with_type(dy.dtype(), [&]<typename T>() {
      const T* from = dy.data<T>();
      T* to = dx.writable<T>();
      const uint64_t channels = in[3], rows = in[1] * factor;
      context.threads().for_ranges(in[0], 1, [&](size_t begin, size_t end) {
        for (size_t row = begin * rows; row < end * rows; ++row) {
          for_each_term(in, factor, method, row, [&](uint64_t pixel, uint64_t out, double weight) {
            add_pixel(from + out * channels, static_cast<T>(weight), to + pixel * channels, channels);
          });
        }
      });
    });
    return tape.add(context, input, dx);
  }
};

}  // namespace

Status Upsample2dArgs::check() const {
  BALLAST_CHECK(check_activation("x", x, 4));
  if (factor != 0 && checked_mul(x.dims()[1], factor) && checked_mul(x.dims()[2], factor)) return {};
  return refused(named("x", x), fmt::format("it cannot be enlarged by {}", factor));
}
std::string Upsample2dArgs::text() const {
  return fmt::format("{} by {}, {}", typed(x), factor, kMethodNames[static_cast<size_t>(method)]);
}

void Upsample2dArgs::record(Tape& tape, const Tensor& y) const {
  if (tape.follows(x)) tape.record(y, UpsampleStep{factor, method, tape.input(x)});
}

Result<Tensor> upsample2d(Context& context, const Tensor& x, uint64_t factor, Upsampling method) {
  return context.registry().call(context, Upsample2dArgs{x, factor, method});
}

void add_sampling(Registry& registry) { add_builtin<Upsample2dArgs>(registry, nullptr, run_upsampling); }

}  // namespace ballast::ops
