#include "tests/backends/cpu_testing.h"

namespace ballast {
namespace {

using Compute = std::function<void(const KernelTable<float>& kernels, float* y, ThreadPool& pool)>;

void expect_values(const std::vector<double>& expected, double relative, double absolute, const Compute& compute) {
  for_each_level([&](const KernelTable<float>& kernels) {
    const auto y = same_on_threads([&](ThreadPool& pool) {
      std::vector<float> out(expected.size(), 12345);
      compute(kernels, out.data(), pool);
      return out;
    });
    expect_close(y, expected, relative, absolute);
  });
}

TEST(CpuNorms, NormaliseRowsOfAnyLength) {
  for (const size_t rows : {0, 1, 3, 40}) {
    for (const size_t features : {1, 2, 15, 16, 33, 768}) {
      const auto x = random_floats(rows * features, 1, -3, 5), gamma = random_floats(features, 2),
                 beta = random_floats(features, 3);
      std::vector<double> layer, rms;
      for (size_t row = 0; row < rows; ++row) {
        double mean = 0, squares = 0, variance = 0;
        for (size_t i = 0; i < features; ++i) {
          mean += x[row * features + i] / double(features);
          squares += double{x[row * features + i]} * x[row * features + i] / double(features);
        }
        for (size_t i = 0; i < features; ++i) variance += std::pow(x[row * features + i] - mean, 2) / double(features);
        for (size_t i = 0; i < features; ++i) {
          layer.push_back((x[row * features + i] - mean) / std::sqrt(variance + 1e-5F) * gamma[i] + beta[i]);
          rms.push_back(x[row * features + i] / std::sqrt(squares + 1e-5F) * gamma[i]);
        }
      }
      expect_values(layer, 1e-5, 2e-6, [&](const KernelTable<float>& kernels, float* y, ThreadPool& pool) {
        kernels.layer_norm({x.data(), y, gamma.data(), beta.data(), rows, features, 1e-5F}, pool);
      });
      expect_values(rms, 1e-5, 2e-6, [&](const KernelTable<float>& kernels, float* y, ThreadPool& pool) {
        kernels.rms_norm({x.data(), y, gamma.data(), nullptr, rows, features, 1e-5F}, pool);
      });
    }
  }
}

TEST(CpuSoftmax, SumsToOneAlsoForLargeScores) {
  for (const size_t features : {1, 5, 16, 47, 1000}) {
    const size_t rows = 9;
    const auto x = random_floats(rows * features, 1, -200, 200);
    std::vector<double> expected(x.size());
    for (size_t row = 0; row < rows; ++row) {
      double most = -INFINITY, total = 0;
      for (size_t i = 0; i < features; ++i) most = std::max<double>(most, x[row * features + i]);
      for (size_t i = 0; i < features; ++i) total += std::exp(x[row * features + i] - most);
      for (size_t i = 0; i < features; ++i)
        expected[row * features + i] = std::exp(x[row * features + i] - most) / total;
    }
    expect_values(expected, 2e-6, 1e-37, [&](const KernelTable<float>& kernels, float* y, ThreadPool& pool) {
      kernels.softmax(x.data(), y, rows, features, pool);
    });
  }
}

TEST(CpuRope, TurnsTheFirstHalfAgainstTheSecondAndLeavesTheRest) {
  const size_t positions = 5, heads = 3, head_dim = 50, rotary = 38, stride = heads * head_dim + 7;
  const auto x = random_floats(positions * stride, 1), angles = random_floats(positions * rotary / 2, 2, -4, 4);
  std::vector<float> cosines, sines;
  for (const float angle : angles) cosines.push_back(std::cos(angle)), sines.push_back(std::sin(angle));
  std::vector<double> expected(x.begin(), x.end());
  for (size_t at = 0; at < positions * heads * rotary / 2; ++at) {
    const size_t i = at % (rotary / 2), head = at / (rotary / 2) % heads, position = at / (rotary / 2) / heads;
    const size_t a = position * stride + head * head_dim + i, b = a + rotary / 2;
    const double cosine = cosines[position * rotary / 2 + i], sine = sines[position * rotary / 2 + i];
    expected[a] = x[a] * cosine - x[b] * sine;
    expected[b] = x[b] * cosine + x[a] * sine;
  }
  expect_values(expected, 1e-6, 1e-6, [&](const KernelTable<float>& kernels, float* y, ThreadPool& pool) {
    std::copy(x.begin(), x.end(), y);
    kernels.rope({y, cosines.data(), sines.data(), positions, heads, head_dim, rotary, stride, /*interleaved=*/false},
                 pool);
  });
}

TEST(CpuMaxPool, TakesTheLargestInsideTheImage) {
  for (const size_t c : {1, 19, 64}) {
    const size_t n = 2, h = 7, w = 9, window = 3, stride = 2, pad = 1, out_h = 4, out_w = 5;
    const auto x = random_floats(n * h * w * c, 1, -9, -1);
    std::vector<double> expected(n * out_h * out_w * c, -INFINITY);
    for (size_t at = 0; at < expected.size(); ++at) {
      const size_t ox = at / c % out_w, oy = at / c / out_w % out_h, image = at / c / out_w / out_h;
      for (size_t iy = oy * stride - pad; iy != oy * stride - pad + window; ++iy) {
        for (size_t ix = ox * stride - pad; ix != ox * stride - pad + window; ++ix) {
          if (iy >= h || ix >= w) continue;
          expected[at] = std::max<double>(expected[at], x[((image * h + iy) * w + ix) * c + at % c]);
        }
      }
    }
    expect_values(expected, 0, 0, [&](const KernelTable<float>& kernels, float* y, ThreadPool& pool) {
      kernels.max_pool2d({x.data(), y, n, h, w, c, out_h, out_w, window, window, stride, stride, pad, pad}, pool);
    });
  }
}

TEST(CpuMaxPool, PassesNanOn) {
  const std::vector<float> x = {1, NAN, 3, 2};
  for_each_level([&](const KernelTable<float>& kernels) {
    ThreadPool pool(1);
    float y = 0;
    kernels.max_pool2d({x.data(), &y, 1, 2, 2, 1, 1, 1, 2, 2, 1, 1, 0, 0}, pool);
    EXPECT_TRUE(std::isnan(y));
  });
}

TEST(CpuMean, IsTakenOverPositions) {
  for (const size_t c : {1, 33, 200}) {
    for (const size_t positions : {1, 49}) {
      const size_t n = 3;
      const auto x = random_floats(n * positions * c, 1);
      std::vector<double> expected(n * c);
      for (size_t i = 0; i < x.size(); ++i) expected[i / c / positions * c + i % c] += x[i] / double(positions);
      expect_values(expected, 1e-6, 1e-6, [&](const KernelTable<float>& kernels, float* y, ThreadPool& pool) {
        kernels.mean_over_positions(x.data(), y, n, positions, c, pool);
      });
    }
  }
}

constexpr float kParameter = 0.3F;

TEST(CpuUnary, IsRightForEveryOperation) {
  const std::pair<UnaryOp, std::function<double(double)>> operations[] = {
      {UnaryOp::kNeg, [](double x) { return -x; }},
      {UnaryOp::kAbs, [](double x) { return std::abs(x); }},
      {UnaryOp::kRelu, [](double x) { return activate(Activation::kRelu, x); }},
      {UnaryOp::kRelu6, [](double x) { return activate(Activation::kRelu6, x); }},
      {UnaryOp::kGeluErf, [](double x) { return activate(Activation::kGeluErf, x); }},
      {UnaryOp::kGeluTanh,
       [](double x) { return x / (1 + std::exp(-2 * 0.79788456080286536 * (x + 0.044715 * x * x * x))); }},
      {UnaryOp::kSilu, [](double x) { return activate(Activation::kSilu, x); }},
      {UnaryOp::kSigmoid, [](double x) { return 1 / (1 + std::exp(-x)); }},
      {UnaryOp::kTanh, [](double x) { return std::tanh(x); }},
      {UnaryOp::kLeakyRelu, [](double x) { return x > 0 ? x : kParameter * x; }},
      {UnaryOp::kElu, [](double x) { return x > 0 ? x : kParameter * std::expm1(x); }},
      {UnaryOp::kSoftplus, [](double x) { return std::log1p(std::exp(x)); }},
      {UnaryOp::kExp, [](double x) { return std::exp(x); }},
      {UnaryOp::kLog, [](double x) { return std::log(x); }},
      {UnaryOp::kSqrt, [](double x) { return std::sqrt(x); }},
      {UnaryOp::kSquare, [](double x) { return x * x; }},
      {UnaryOp::kScale, [](double x) { return kParameter * x; }},
      {UnaryOp::kShift, [](double x) { return x + kParameter; }},
  };
  for (const size_t count : {0, 1, 17, 100000}) {
    // Over the whole range where results are normal, and densely around zero.
    auto x = random_floats(count, 1, -9, 9);
    for (size_t i = 0; i < count; i += 3) x[i] *= 0.01F;
    auto magnitudes = x;
    for (float& value : magnitudes) value = std::abs(value);
    for (const auto& [op, function] : operations) {
      SCOPED_TRACE(static_cast<int>(op));
      std::vector<double> expected;
      const bool positive = op == UnaryOp::kLog || op == UnaryOp::kSqrt;
      for (const float value : positive ? magnitudes : x) expected.push_back(function(value));
      // Where arguments are large, the exponential magnifies how they were rounded.
      const double relative = op == UnaryOp::kGeluTanh ? 1e-5 : op == UnaryOp::kGeluErf ? 3e-6 : 1e-6;
      // Sums that come out near 0 have lost digits.
      const double absolute = op == UnaryOp::kShift || op == UnaryOp::kLog ? 1e-7 : 0;
      expect_values(expected, relative, absolute, [&](const KernelTable<float>& kernels, float* y, ThreadPool& pool) {
        kernels.unary(op, kParameter, positive ? magnitudes.data() : x.data(), y, count, pool);
      });
    }
  }
}

TEST(CpuUnary, PassesNanOnAndEndsAtZeroFarToTheLeft) {
  for_each_level([&](const KernelTable<float>& kernels) {
    ThreadPool pool(1);
    const std::vector<float> x = {NAN, -1000, 1000};
    for (const UnaryOp op : {UnaryOp::kRelu, UnaryOp::kRelu6, UnaryOp::kGeluErf, UnaryOp::kGeluTanh, UnaryOp::kSilu}) {
      std::vector<float> y(3);
      kernels.unary(op, 0, x.data(), y.data(), 3, pool);
      EXPECT_TRUE(std::isnan(y[0])) << static_cast<int>(op);
      EXPECT_EQ(y[1], 0);
      EXPECT_EQ(y[2], op == UnaryOp::kRelu6 ? 6 : 1000);
    }
  });
}

TEST(CpuUnary, HandlesTheEndsOfExponentialAndLogarithm) {
  const auto expect = [](UnaryOp op, float x, float y) {
    for_each_level([&](const KernelTable<float>& kernels) {
      ThreadPool pool(1);
      float result = 0;
      kernels.unary(op, kParameter, &x, &result, 1, pool);
      if (std::isnan(y)) {
        EXPECT_TRUE(std::isnan(result)) << static_cast<int>(op) << " of " << x;
      } else {
        EXPECT_FLOAT_EQ(result, y) << static_cast<int>(op) << " of " << x;
      }
    });
  };
  expect(UnaryOp::kLog, 0, -INFINITY);
  expect(UnaryOp::kLog, -1, NAN);
  expect(UnaryOp::kLog, INFINITY, INFINITY);
  expect(UnaryOp::kLog, 1e-40F, std::log(1e-40F));
  expect(UnaryOp::kLog, 3e38F, std::log(3e38F));
  expect(UnaryOp::kLog, 1, 0);
  expect(UnaryOp::kExp, 1000, INFINITY);
  expect(UnaryOp::kExp, -1000, 0);
  expect(UnaryOp::kSoftplus, 1000, 1000);
  expect(UnaryOp::kSoftplus, -80, std::exp(-80.0F));
  expect(UnaryOp::kSoftplus, -1000, 0);
  expect(UnaryOp::kSigmoid, -1000, 0);
  expect(UnaryOp::kSigmoid, 1000, 1);
  expect(UnaryOp::kTanh, -1000, -1);
  expect(UnaryOp::kTanh, 1e-20F, 1e-20F);
  expect(UnaryOp::kElu, -1000, -kParameter);
  expect(UnaryOp::kElu, -1e-20F, -kParameter * 1e-20F);
  expect(UnaryOp::kHardSigmoid, -2.5F, 0);
  expect(UnaryOp::kHardSigmoid, 4, 1);
  expect(UnaryOp::kHardSwish, 4, 4);
  expect(UnaryOp::kHardSwish, -4, 0);
}

TEST(CpuBinary, IsRightForEveryOperation) {
  const std::pair<BinaryOp, std::function<float(float, float)>> operations[] = {
      {BinaryOp::kAdd, [](float a, float b) { return a + b; }},
      {BinaryOp::kSub, [](float a, float b) { return a - b; }},
      {BinaryOp::kMul, [](float a, float b) { return a * b; }},
      {BinaryOp::kDiv, [](float a, float b) { return a / b; }},
      {BinaryOp::kMax, [](float a, float b) { return std::max(a, b); }},
      {BinaryOp::kMin, [](float a, float b) { return std::min(a, b); }},
  };
  for (const size_t count : {0, 1, 31, 40000}) {
    const auto a = random_floats(count, 1), b = random_floats(count, 2);
    for (const auto& [op, function] : operations) {
      std::vector<double> expected;
      for (size_t i = 0; i < count; ++i) expected.push_back(function(a[i], b[i]));
      expect_values(expected, 0, 0, [&](const KernelTable<float>& kernels, float* y, ThreadPool& pool) {
        kernels.binary(op, a.data(), b.data(), y, count, pool);
      });
    }
  }
}

TEST(CpuBinary, IsNanWhereEitherIs) {
  const std::vector<float> a = {NAN, 1}, b = {1, NAN};
  for_each_level([&](const KernelTable<float>& kernels) {
    ThreadPool pool(1);
    for (const BinaryOp op : {BinaryOp::kMax, BinaryOp::kMin}) {
      std::vector<float> y(2);
      kernels.binary(op, a.data(), b.data(), y.data(), 2, pool);
      EXPECT_TRUE(std::isnan(y[0]) && std::isnan(y[1]));
    }
  });
}

TEST(CpuAddBias, AddsItToEveryRow) {
  for (const size_t features : {0, 1, 21, 64}) {
    const size_t rows = 11;
    const auto x = random_floats(rows * features, 1), bias = random_floats(features, 2);
    std::vector<double> expected;
    for (size_t i = 0; i < x.size(); ++i) expected.push_back(x[i] + bias[i % features]);
    expect_values(expected, 0, 0, [&](const KernelTable<float>& kernels, float* y, ThreadPool& pool) {
      kernels.add_bias(x.data(), bias.data(), y, rows, features, pool);
    });
  }
}

TEST(CpuSwiglu, MultipliesTheGateIntoTheOther) {
  const auto gate = random_floats(1001, 1, -8, 8), up = random_floats(1001, 2);
  std::vector<double> expected;
  for (size_t i = 0; i < gate.size(); ++i) expected.push_back(activate(Activation::kSilu, gate[i]) * up[i]);
  expect_values(expected, 1e-6, 0, [&](const KernelTable<float>& kernels, float* y, ThreadPool& pool) {
    kernels.swiglu(gate.data(), up.data(), y, gate.size(), pool);
  });
}

TEST(CpuWiden, IsExactForEveryCodeOfTheNarrowTypes) {
  std::vector<std::byte> bytes(2 * 65536 + 1);
  for (uint32_t code = 0; code < 65536; ++code) {
    const auto bits = static_cast<uint16_t>(code);
    std::memcpy(bytes.data() + 1 + 2 * code, &bits, 2);
  }
  for_each_level([&](const KernelTable<float>& kernels) {
    std::vector<float> out(65536);
    for (const DType dtype : {DType::kF16, DType::kBF16}) {
      kernels.widen({bytes.data() + 1, dtype}, out.data(), out.size());
      for (uint32_t code = 0; code < 65536; ++code) {
        const auto bits = static_cast<uint16_t>(code);
        const float expected = dtype == DType::kF16 ? F16::decode(bits) : BF16::decode(bits);
        if (std::isnan(expected)) {
          ASSERT_TRUE(std::isnan(out[code])) << code;
        } else {
          ASSERT_EQ(std::memcmp(&expected, &out[code], 4), 0) << code;
        }
      }
    }
  });
}

TEST(CpuWiden, StopsAtTheCount) {
  const TestWeight weight(random_floats(40, 1), DType::kF16);
  for_each_level([&](const KernelTable<float>& kernels) {
    for (size_t count = 0; count <= 40; ++count) {
      std::vector<float> out(41, 12345);
      kernels.widen(weight.view(), out.data(), count);
      for (size_t i = 0; i < 41; ++i) ASSERT_EQ(out[i], i < count ? weight.values()[i] : 12345);
    }
  });
}

TEST(CpuLevels, CanBeChosenAmongThoseOfTheMachine) {
  const auto levels = cpu_levels();
  ASSERT_FALSE(levels.empty());
  EXPECT_EQ(kCpuBackend.level(), levels.front());
  for (const std::string_view level : levels) {
    EXPECT_TRUE(use_cpu_level(level));
    EXPECT_EQ(kCpuBackend.level(), level);
  }
  EXPECT_FALSE(use_cpu_level("abacus"));
  EXPECT_TRUE(use_cpu_level(""));
  EXPECT_EQ(kCpuBackend.level(), levels.front());
}

}  // namespace
}  // namespace ballast
