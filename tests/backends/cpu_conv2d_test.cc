#include "tests/backends/cpu_testing.h"

namespace ballast {
namespace {

struct ConvShape {
  size_t n = 1, h = 8, width = 9, c_in = 3, c_out = 5, kernel_h = 3, kernel_w = 3, groups = 1;
  size_t stride_h = 1, stride_w = 1, pad = 0, dilation = 1;
  DType dtype = DType::kF32;
  Activation activation = Activation::kNone;
  bool bias = false, residual = false;

  size_t out(size_t size, size_t kernel, size_t stride) const {
    const size_t reach = dilation * (kernel - 1) + 1;
    return size + 2 * pad < reach ? 0 : (size + 2 * pad - reach) / stride + 1;
  }
  size_t out_h() const { return out(h, kernel_h, stride_h); }
  size_t out_w() const { return out(width, kernel_w, stride_w); }
  size_t terms() const { return c_in / groups * kernel_h * kernel_w; }
};

enum class Packed { kNo, kYes, kInTiles };

class ConvOperands {
 public:
  explicit ConvOperands(const ConvShape& shape)
      : s(shape),
        x(random_floats(s.n * s.h * s.width * s.c_in, 1)),
        w(random_floats(s.c_out * s.terms(), 2), s.dtype),
        bias(random_floats(s.c_out, 3)),
        residual(random_floats(output_count(), 4)) {}

  size_t output_count() const { return s.n * s.out_h() * s.out_w() * s.c_out; }

  Conv2dProblem<float> problem(float* y) const {
    Conv2dProblem<float> p{};
    p.x = x.data();
    p.y = y;
    p.w = w.view();
    p.bias = s.bias ? bias.data() : nullptr;
    p.residual = s.residual ? residual.data() : nullptr;
    p.activation = s.activation;
    p.n = s.n, p.h = s.h, p.width = s.width, p.c_in = s.c_in, p.c_out = s.c_out;
    p.kernel_h = s.kernel_h, p.kernel_w = s.kernel_w, p.out_h = s.out_h(), p.out_w = s.out_w(), p.groups = s.groups;
    p.stride_h = s.stride_h, p.stride_w = s.stride_w, p.pad_top = p.pad_left = s.pad;
    p.dilation_h = p.dilation_w = s.dilation;
    p.o_count = s.c_out;
    return p;
  }

  void set_tile(Conv2dProblem<float>& p, size_t begin, size_t count) const {
    p.o_begin = begin;
    p.o_count = std::min(count, s.c_out - begin);
    p.w = w.view(begin * s.terms());
  }

  std::vector<float> compute(const KernelTable<float>& kernels, ThreadPool& pool, Packed packed = Packed::kNo,
                             size_t tile = SIZE_MAX) const {
    std::vector<float> y(output_count(), 12345);
    Conv2dProblem<float> p = problem(y.data());
    std::vector<float> form(kernels.conv2d_packed_bytes(p) / sizeof(float), 999);
    if (packed != Packed::kNo) {
      // The last tile first.
      const size_t step = std::max<size_t>(1, std::min(tile, s.c_out));
      for (size_t tiles = (s.c_out + step - 1) / step; tiles-- > 0;) {
        set_tile(p, tiles * step, step);
        kernels.conv2d_pack(p, reinterpret_cast<std::byte*>(form.data()), pool);
      }
      p.o_begin = 0, p.o_count = s.c_out;
      p.w = {reinterpret_cast<const std::byte*>(form.data()), DType::kF32, true};
      run(kernels, pool, p);
      return y;
    }
    for (size_t begin = 0; begin < s.c_out; begin += std::min(tile, s.c_out)) {
      set_tile(p, begin, tile);
      run(kernels, pool, p);
    }
    return y;
  }

  static void run(const KernelTable<float>& kernels, ThreadPool& pool, const Conv2dProblem<float>& p) {
    std::vector<float> scratch(kernels.conv2d_scratch(p, pool.size()), 777);
    kernels.conv2d(p, scratch.data(), pool);
  }

  std::vector<double> expected() const {
    std::vector<double> y(output_count());
    const size_t inputs = s.c_in / s.groups, outputs = s.c_out / s.groups;
    for (size_t at = 0; at < y.size(); ++at) {
      const size_t o = at % s.c_out, ox = at / s.c_out % s.out_w(), oy = at / s.c_out / s.out_w() % s.out_h();
      const size_t image = at / s.c_out / s.out_w() / s.out_h();
      double sum = 0;
      for (size_t i = 0; i < inputs; ++i) {
        for (size_t ky = 0; ky < s.kernel_h; ++ky) {
          for (size_t kx = 0; kx < s.kernel_w; ++kx) {
            const size_t iy = oy * s.stride_h + ky * s.dilation - s.pad, ix = ox * s.stride_w + kx * s.dilation - s.pad;
            if (iy >= s.h || ix >= s.width) continue;
            const double factor = x[((image * s.h + iy) * s.width + ix) * s.c_in + o / outputs * inputs + i];
            sum += factor * w.values()[((o * inputs + i) * s.kernel_h + ky) * s.kernel_w + kx];
          }
        }
      }
      if (s.bias) sum += bias[o];
      if (s.residual) sum += residual[at];
      y[at] = activate(s.activation, sum);
    }
    return y;
  }

  ConvShape s;
  std::vector<float> x;
  TestWeight w;
  std::vector<float> bias, residual;
};

void expect_convolution(const ConvShape& shape) {
  SCOPED_TRACE(::testing::Message() << shape.n << "x" << shape.h << "x" << shape.width << "x" << shape.c_in << " to "
                                    << shape.c_out << ", kernel " << shape.kernel_h << "x" << shape.kernel_w
                                    << ", groups " << shape.groups << ", stride " << shape.stride_h << ", pad "
                                    << shape.pad);
  const ConvOperands operands(shape);
  for_each_level([&](const KernelTable<float>& kernels) {
    const auto y = same_on_threads([&](ThreadPool& pool) { return operands.compute(kernels, pool); });
    expect_close(y, operands.expected(), 1e-5, 2e-6 * std::sqrt(static_cast<double>(shape.terms()) + 1));
    ThreadPool pool(2);
    EXPECT_TRUE(same_bits(y, operands.compute(kernels, pool, Packed::kYes))) << "packed";
    for (const size_t tile : {1, 3, 20}) {
      EXPECT_TRUE(same_bits(y, operands.compute(kernels, pool, Packed::kNo, tile))) << tile << " outputs a tile";
      EXPECT_TRUE(same_bits(y, operands.compute(kernels, pool, Packed::kInTiles, tile))) << tile << " packed at a time";
    }
  });
}

TEST(CpuConv2d, IsRightForOddShapes) {
  expect_convolution({});
  expect_convolution({.pad = 1});
  expect_convolution({.n = 2, .h = 7, .width = 7, .c_in = 16, .c_out = 33, .pad = 1});
  expect_convolution({.h = 11, .width = 6, .c_in = 1, .c_out = 1, .kernel_h = 2, .kernel_w = 5, .pad = 2});
  expect_convolution({.h = 1, .width = 1, .c_in = 5, .c_out = 40, .pad = 1});
  expect_convolution({.h = 13,
                      .width = 15,
                      .c_in = 3,
                      .c_out = 18,
                      .kernel_h = 7,
                      .kernel_w = 7,
                      .stride_h = 2,
                      .stride_w = 2,
                      .pad = 3});
  expect_convolution(
      {.h = 9, .width = 12, .c_in = 4, .c_out = 6, .stride_h = 2, .stride_w = 3, .pad = 2, .dilation = 2});
}

TEST(CpuConv2d, HasNothingToDoForEmptyOnes) {
  expect_convolution({.n = 0});
  expect_convolution({.c_out = 0});
  expect_convolution({.h = 2, .width = 2});  // smaller than its kernel
}

TEST(CpuConv2d, OfOnePixelIsAProduct) {
  expect_convolution({.h = 14, .width = 10, .c_in = 37, .c_out = 70, .kernel_h = 1, .kernel_w = 1});
  expect_convolution(
      {.h = 9, .width = 9, .c_in = 37, .c_out = 32, .kernel_h = 1, .kernel_w = 1, .stride_h = 2, .stride_w = 2});
}

TEST(CpuConv2d, SumsOverMoreTermsThanABlockHolds) {
  expect_convolution({.h = 5, .width = 5, .c_in = 700, .c_out = 17, .pad = 1});
  expect_convolution({.h = 6, .width = 6, .c_in = 130, .c_out = 17, .kernel_h = 3, .kernel_w = 3, .pad = 1});
}

TEST(CpuConv2d, IsRightForGroups) {
  expect_convolution({.c_in = 6, .c_out = 9, .groups = 3, .pad = 1});
  expect_convolution({.c_in = 8, .c_out = 80, .groups = 2, .pad = 1});
  expect_convolution({.c_in = 4, .c_out = 8, .groups = 4, .pad = 1});  // two outputs for each channel
}

TEST(CpuConv2d, IsRightForDepthwise) {
  for (const size_t c : {1, 5, 16, 37}) {
    expect_convolution({.h = 9, .width = 13, .c_in = c, .c_out = c, .groups = c, .pad = 1});
    expect_convolution({.n = 2,
                        .h = 9,
                        .width = 13,
                        .c_in = c,
                        .c_out = c,
                        .groups = c,
                        .stride_h = 2,
                        .stride_w = 2,
                        .pad = 1,
                        .bias = true});
    expect_convolution({.h = 7,
                        .width = 9,
                        .c_in = c,
                        .c_out = c,
                        .kernel_h = 5,
                        .kernel_w = 2,
                        .groups = c,
                        .pad = 3,
                        .dilation = 2,
                        .activation = Activation::kRelu6,
                        .bias = true,
                        .residual = true});
  }
}

TEST(CpuConv2d, ReadsEveryTypeOfWeight) {
  for (const DType dtype : {DType::kF16, DType::kBF16}) {
    expect_convolution({.c_in = 5, .c_out = 34, .pad = 1, .dtype = dtype});
    expect_convolution({.c_in = 6, .c_out = 6, .groups = 6, .pad = 1, .dtype = dtype});
  }
}

TEST(CpuConv2d, ActivatesAfterBiasAndResidual) {
  for (const Activation activation : {Activation::kNone, Activation::kRelu, Activation::kRelu6, Activation::kSilu}) {
    expect_convolution({.c_out = 35, .pad = 1, .activation = activation, .bias = true, .residual = true});
  }
}

TEST(CpuConv2d, GivesAnImageTheSameBitsAloneAndAmongOthers) {
  const ConvOperands two({.n = 2, .h = 7, .width = 7, .c_in = 19, .c_out = 33, .pad = 1});
  for_each_level([&](const KernelTable<float>& kernels) {
    ThreadPool pool(2);
    const auto both = two.compute(kernels, pool);
    ConvOperands one = two;
    one.s.n = 1;
    const auto first = one.compute(kernels, pool);
    EXPECT_EQ(std::memcmp(first.data(), both.data(), first.size() * sizeof(float)), 0);
  });
}

}  // namespace
}  // namespace ballast
