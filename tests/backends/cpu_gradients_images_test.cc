// Gradients of convolutions and of max pooling, beside plain loops in double.
#include "tests/backends/cpu_testing.h"

namespace ballast {
namespace {

struct Case {
  size_t n, h, w, c_in, c_out, kernel, stride, pad, dilation, groups;
};

Conv2dProblem<float> problem_of(const Case& c) {
  Conv2dProblem<float> p{};
  p.n = c.n, p.h = c.h, p.width = c.w, p.c_in = c.c_in, p.c_out = p.o_count = c.c_out, p.groups = c.groups;
  p.kernel_h = c.kernel, p.kernel_w = c.kernel;
  p.stride_h = p.stride_w = c.stride, p.pad_top = p.pad_left = c.pad, p.dilation_h = p.dilation_w = c.dilation;
  const size_t window = (c.kernel - 1) * c.dilation + 1;
  p.out_h = (c.h + 2 * c.pad - window) / c.stride + 1, p.out_w = (c.w + 2 * c.pad - window) / c.stride + 1;
  return p;
}

// visit(x index, w index, y index) for all products of a convolution.
template <typename Visit>
void for_products(const Conv2dProblem<float>& p, const Visit& visit) {
  const size_t inputs = p.c_in / p.groups, outputs = p.c_out / p.groups;
  for (size_t pixel = 0; pixel < p.n * p.out_h * p.out_w; ++pixel) {
    const size_t ox = pixel % p.out_w, oy = pixel / p.out_w % p.out_h, image = pixel / p.out_w / p.out_h;
    for (size_t tap = 0; tap < p.kernel_h * p.kernel_w; ++tap) {
      const size_t y = oy * p.stride_h + tap / p.kernel_w * p.dilation_h - p.pad_top;
      const size_t x = ox * p.stride_w + tap % p.kernel_w * p.dilation_w - p.pad_left;
      if (y >= p.h || x >= p.width) continue;
      for (size_t o = 0; o < p.c_out; ++o) {
        for (size_t i = 0; i < inputs; ++i) {
          visit(((image * p.h + y) * p.width + x) * p.c_in + o / outputs * inputs + i,
                (o * inputs + i) * p.kernel_h * p.kernel_w + tap, pixel * p.c_out + o);
        }
      }
    }
  }
}

void check_conv2d(const Case& c, bool add) {
  SCOPED_TRACE(std::to_string(c.h) + " x " + std::to_string(c.w) + ", " + std::to_string(c.c_in) + " -> " +
               std::to_string(c.c_out) + ", kernel " + std::to_string(c.kernel) + ", stride " +
               std::to_string(c.stride));
  Conv2dProblem<float> p = problem_of(c);
  const auto x = random_floats(p.n * p.h * p.width * p.c_in, 1);
  const auto w = random_floats(p.c_out * p.c_in / p.groups * p.kernel_h * p.kernel_w, 2);
  const auto dy = random_floats(p.n * p.out_h * p.out_w * p.c_out, 3);
  auto before = random_floats(x.size() + w.size(), 4);
  std::vector<double> expected(before.size());
  for (size_t i = x.size(); add && i < before.size(); ++i) expected[i] = before[i];
  for_products(p, [&](size_t at_x, size_t at_w, size_t at_y) {
    expected[at_x] += double{w[at_w]} * dy[at_y];
    expected[x.size() + at_w] += double{x[at_x]} * dy[at_y];
  });
  p.x = x.data();
  p.w.data = reinterpret_cast<const std::byte*>(w.data());
  for_each_level([&](const KernelTable<float>& kernels) {
    const auto run = [&](bool want_x, bool want_w) {
      return same_on_threads([&](ThreadPool& pool) {
        std::vector<float> out = before;
        const Conv2dGradient<float> gradient{&p, dy.data(), want_x ? out.data() : nullptr,
                                             want_w ? out.data() + x.size() : nullptr, add};
        std::vector<float> scratch(kernels.gradients.conv2d_scratch(gradient, pool.size()));
        kernels.gradients.conv2d(gradient, scratch.data(), pool);
        return out;
      });
    };
    const auto both = run(true, true);
    expect_close(both, expected, 2e-4, 2e-4);
    auto apart = run(false, true);
    const auto image = run(true, false);
    std::copy_n(image.begin(), x.size(), apart.begin());
    EXPECT_TRUE(same_bits(both, apart));
  });
}

TEST(CpuGradients, ConvolutionsOfAnyShape) {
  const Case cases[] = {
      {1, 1, 1, 1, 1, 1, 1, 0, 1, 1},     {2, 9, 7, 1, 8, 3, 1, 1, 1, 1},      {3, 12, 11, 5, 7, 3, 1, 0, 1, 1},
      {2, 13, 13, 32, 64, 3, 1, 1, 1, 1}, {1, 14, 9, 6, 10, 3, 2, 1, 1, 2},    {2, 15, 15, 8, 4, 5, 3, 2, 1, 1},
      {1, 17, 12, 4, 36, 3, 1, 2, 2, 1},  {2, 10, 10, 24, 24, 3, 1, 1, 1, 24}, {1, 11, 11, 35, 35, 3, 2, 1, 1, 35},
      {2, 8, 8, 33, 20, 1, 1, 0, 1, 1},   {1, 8, 8, 16, 20, 1, 2, 0, 1, 1},    {30, 12, 12, 3, 5, 3, 1, 1, 1, 1},
      {1, 9, 9, 6, 4, 2, 1, 2, 1, 2},
  };
  for (const bool add : {false, true}) {
    for (const Case& c : cases) check_conv2d(c, add);
  }
}

// ---------------------------------------------------------------- max pooling
struct Pooling {
  size_t n, h, w, c, window, stride, pad;
};

void check_max_pool(const Pooling& c) {
  SCOPED_TRACE(std::to_string(c.h) + " x " + std::to_string(c.w) + ", window " + std::to_string(c.window));
  Pool2dProblem<float> p{};
  p.n = c.n, p.h = c.h, p.width = c.w, p.c = c.c;
  p.window_h = p.window_w = c.window, p.stride_h = p.stride_w = c.stride, p.pad_top = p.pad_left = c.pad;
  p.out_h = (c.h + 2 * c.pad - c.window) / c.stride + 1, p.out_w = (c.w + 2 * c.pad - c.window) / c.stride + 1;
  auto x = random_floats(p.n * p.h * p.width * p.c, 1);
  for (float& v : x) v = std::round(v * 4);  // many are equal
  const auto dy = random_floats(p.n * p.out_h * p.out_w * p.c, 2);
  p.x = x.data();
  std::vector<double> expected(x.size());
  for (size_t at = 0; at < dy.size(); ++at) {
    const size_t channel = at % p.c, ox = at / p.c % p.out_w, oy = at / p.c / p.out_w % p.out_h;
    const size_t image = at / p.c / p.out_w / p.out_h;
    size_t best = x.size();
    for (size_t tap = 0; tap < c.window * c.window; ++tap) {
      const size_t y = oy * c.stride + tap / c.window - c.pad, ix = ox * c.stride + tap % c.window - c.pad;
      if (y >= p.h || ix >= p.width) continue;
      const size_t from = ((image * p.h + y) * p.width + ix) * p.c + channel;
      if (best == x.size() || x[from] > x[best]) best = from;
    }
    if (best < x.size()) expected[best] += dy[at];
  }
  for_each_level([&](const KernelTable<float>& kernels) {
    const auto dx = same_on_threads([&](ThreadPool& pool) {
      std::vector<float> out(x.size(), 12345);
      kernels.gradients.max_pool2d(p, dy.data(), out.data(), pool);
      return out;
    });
    expect_close(dx, expected, 1e-6, 1e-6);
  });
}

TEST(CpuGradients, MaxPoolingGivesToTheFirstLargest) {
  for (const Pooling& c :
       {Pooling{2, 8, 8, 3, 2, 2, 0}, Pooling{3, 9, 7, 17, 2, 2, 0}, Pooling{1, 11, 13, 33, 3, 2, 1},
        Pooling{2, 7, 7, 1, 3, 1, 1}, Pooling{1, 10, 10, 16, 2, 3, 0}, Pooling{2, 14, 14, 64, 2, 2, 1}}) {
    check_max_pool(c);
  }
}

}  // namespace
}  // namespace ballast
