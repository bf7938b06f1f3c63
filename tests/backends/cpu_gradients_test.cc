// The kernels that training adds, beside plain loops in double.
#include "ballast/base/counter_random.h"
#include "tests/backends/cpu_testing.h"

namespace ballast {
namespace {

std::vector<double> start(const std::vector<float>& before, bool add) {
  return add ? std::vector<double>(before.begin(), before.end()) : std::vector<double>(before.size());
}

// ---------------------------------------------------------------- products and sums
struct ProductShape {
  size_t m, k, n;
};
void check_transposed_product(ProductShape s, bool add) {
  SCOPED_TRACE(std::to_string(s.m) + " x " + std::to_string(s.k) + " x " + std::to_string(s.n));
  const auto a = random_floats(s.m * s.k, 1), b = random_floats(s.m * s.n, 2), before = random_floats(s.k * s.n, 3);
  std::vector<double> expected = start(before, add);
  for (size_t m = 0; m < s.m; ++m) {
    for (size_t k = 0; k < s.k; ++k) {
      for (size_t n = 0; n < s.n; ++n) expected[k * s.n + n] += double{a[m * s.k + k]} * b[m * s.n + n];
    }
  }
  expect_gradient(expected, before, 2e-5, [&](const GradientKernels<float>& kernels, float* c, ThreadPool& pool) {
    const TransposedProduct<float> product{a.data(), b.data(), c, s.m, s.k, s.n, add};
    std::vector<float> scratch(kernels.transposed_product_scratch(product));
    kernels.transposed_product(product, scratch.data(), pool);
  });
}

TEST(CpuGradients, TransposedProductsOfAnyShape) {
  for (const bool add : {false, true}) {
    for (const ProductShape s :
         {ProductShape{0, 3, 5}, ProductShape{1, 1, 1}, ProductShape{3, 0, 5}, ProductShape{3, 5, 0},
          ProductShape{7, 13, 17}, ProductShape{64, 31, 10}, ProductShape{64, 100, 128}, ProductShape{257, 29, 33},
          ProductShape{300, 61, 300}, ProductShape{513, 16, 257}}) {
      check_transposed_product(s, add);
    }
  }
}

TEST(CpuGradients, ColumnSumsOfAnyShape) {
  for (const bool add : {false, true}) {
    for (const size_t rows : {0, 1, 2, 63, 64, 1000}) {
      for (const size_t features : {0, 1, 15, 16, 67, 513, 1100}) {
        const auto x = random_floats(rows * features, 1), before = random_floats(features, 2);
        std::vector<double> expected = start(before, add);
        for (size_t i = 0; i < x.size(); ++i) expected[i % features] += x[i];
        expect_gradient(expected, before, 2e-5, [&](const GradientKernels<float>& kernels, float* y, ThreadPool& pool) {
          kernels.column_sums(x.data(), y, rows, features, add, pool);
        });
      }
    }
  }
}

TEST(CpuGradients, RowsAreScatteredInTheirOrder) {
  for (const size_t features : {1, 17, 64, 331}) {
    const size_t count = 300, entries = 23;
    const auto rows = random_floats(count * features, 1), table = random_floats(entries * features, 2);
    std::vector<uint32_t> indices(count);
    for (size_t i = 0; i < count; ++i) indices[i] = static_cast<uint32_t>(counter_random(1, i) % entries);
    std::vector<float> expected = table;
    for (size_t i = 0; i < rows.size(); ++i) expected[indices[i / features] * features + i % features] += rows[i];
    for_each_level([&](const KernelTable<float>& kernels) {
      const auto out = same_on_threads([&](ThreadPool& pool) {
        std::vector<float> result = table;
        kernels.gradients.scatter_rows(indices.data(), rows.data(), result.data(), count, features, pool);
        return result;
      });
      EXPECT_TRUE(same_bits(out, expected));
    });
  }
}

// ---------------------------------------------------------------- elements
double function_of(UnaryOp op, double p, double x) {
  constexpr double kPi = 3.14159265358979323846;
  switch (op) {
    case UnaryOp::kNeg: return -x;
    case UnaryOp::kAbs: return std::abs(x);
    case UnaryOp::kRelu: return std::max(x, 0.0);
    case UnaryOp::kRelu6: return std::min(std::max(x, 0.0), 6.0);
    case UnaryOp::kGeluErf: return 0.5 * x * std::erfc(-x / std::sqrt(2.0));
    case UnaryOp::kGeluTanh: return 0.5 * x * (1 + std::tanh(std::sqrt(2 / kPi) * (x + 0.044715 * x * x * x)));
    case UnaryOp::kSilu: return x / (1 + std::exp(-x));
    case UnaryOp::kSigmoid: return 1 / (1 + std::exp(-x));
    case UnaryOp::kTanh: return std::tanh(x);
    case UnaryOp::kLeakyRelu: return x > 0 ? x : p * x;
    case UnaryOp::kElu: return x > 0 ? x : p * std::expm1(x);
    case UnaryOp::kSoftplus: return std::max(x, 0.0) + std::log1p(std::exp(-std::abs(x)));
    case UnaryOp::kHardSigmoid: return std::min(std::max(0.2 * x + 0.5, 0.0), 1.0);
    case UnaryOp::kHardSwish: return x * std::min(std::max(0.2 * x + 0.5, 0.0), 1.0);
    case UnaryOp::kExp: return std::exp(x);
    case UnaryOp::kLog: return std::log(x);
    case UnaryOp::kSqrt: return std::sqrt(x);
    case UnaryOp::kSquare: return x * x;
    case UnaryOp::kScale: return p * x;
    case UnaryOp::kShift: return x + p;
  }
  return x;
}

TEST(CpuGradients, SlopesOfAllUnaryOperations) {
  for (int op = 0; op <= static_cast<int>(UnaryOp::kShift); ++op) {
    SCOPED_TRACE("operation " + std::to_string(op));
    const auto unary_op = static_cast<UnaryOp>(op);
    const bool positive = unary_op == UnaryOp::kLog || unary_op == UnaryOp::kSqrt;
    const size_t count = 70001;
    const auto x = random_floats(count, 1, positive ? 0.1F : -8, 8), dy = random_floats(count, 2);
    std::vector<double> expected(count);
    for (size_t i = 0; i < count; ++i) {
      const double step = 1e-6 * std::max(1.0, std::abs(double{x[i]})), p = 0.3F;
      const double slope = (function_of(unary_op, p, x[i] + step) - function_of(unary_op, p, x[i] - step)) / (2 * step);
      expected[i] = dy[i] * slope;
      // Differences tell nothing beside a corner.
      for (const double corner : {-2.5, 0.0, 2.5, 6.0}) {
        if (std::abs(x[i] - corner) < 2 * step) expected[i] = NAN;
      }
    }
    for_each_level([&](const KernelTable<float>& kernels) {
      const auto dx = same_on_threads([&](ThreadPool& pool) {
        std::vector<float> out = any_values(count);
        kernels.gradients.unary(unary_op, 0.3F, x.data(), dy.data(), out.data(), count, pool);
        return out;
      });
      for (size_t i = 0; i < count; ++i) {
        if (std::isnan(expected[i])) continue;
        ASSERT_NEAR(dx[i], expected[i], 3e-6 + 3e-6 * std::abs(expected[i])) << "at " << x[i];
      }
    });
  }
}

TEST(CpuGradients, SlopesStayFiniteFarOut) {
  const std::vector<float> x = {-3e38F, -1e20F, -200, -90, 90, 200, 1e20F, 3e38F}, dy(x.size(), 1);
  for_each_level([&](const KernelTable<float>& kernels) {
    for (const UnaryOp op : {UnaryOp::kGeluErf, UnaryOp::kGeluTanh, UnaryOp::kSilu, UnaryOp::kSigmoid, UnaryOp::kTanh,
                             UnaryOp::kElu, UnaryOp::kSoftplus, UnaryOp::kHardSwish}) {
      std::vector<float> dx(x.size());
      ThreadPool pool(1);
      kernels.gradients.unary(op, 1, x.data(), dy.data(), dx.data(), x.size(), pool);
      for (size_t i = 0; i < x.size(); ++i) {
        EXPECT_TRUE(dx[i] >= -1e-30F && dx[i] <= 1) << static_cast<int>(op) << " at " << x[i] << ": " << dx[i];
      }
    }
  });
}

TEST(CpuGradients, DropoutKeepsWhatTheCounterSays) {
  for (const double p : {0.0, 0.1, 0.5, 1.0}) {
    for (const size_t count : {0, 1, 17, 255, 30011}) {
      const auto x = random_floats(count, 1);
      std::vector<double> expected(count);
      for (size_t i = 0; i < count; ++i) expected[i] = counter_uniform(77, i) > p ? x[i] / (1 - p) : 0;
      expect_gradient(expected, any_values(count), 1e-6,
                      [&](const GradientKernels<float>& kernels, float* y, ThreadPool& pool) {
                        kernels.dropout(x.data(), y, count, p, 77, pool);
                      });
    }
  }
}

TEST(CpuGradients, SquareSumsAreTheSameForAnyNumberOfThreads) {
  for (const size_t count : {0, 1, 3, 31, 1000, 123457, 3000001}) {
    const auto x = random_floats(count, 1);
    double expected = 0;
    for (const float v : x) expected += double{v} * v;
    for_each_level([&](const KernelTable<float>& kernels) {
      ThreadPool one(1), seven(7);
      const double sum = kernels.gradients.square_sum(x.data(), count, one);
      EXPECT_EQ(sum, kernels.gradients.square_sum(x.data(), count, seven));
      EXPECT_NEAR(sum, expected, 1e-12 * expected);
    });
  }
}

// ---------------------------------------------------------------- optimizers
constexpr size_t kParameters = 20011;

// `state` is [p, first, second].
using Update =
    std::function<void(const GradientKernels<float>& kernels, float* state, const float* g, ThreadPool& pool)>;
using Rule = std::function<void(double& p, double& first, double& second, double g)>;
void check_update(const Update& update, const Rule& rule) {
  auto before = random_floats(3 * kParameters, 1);
  for (size_t i = 2 * kParameters; i < before.size(); ++i) before[i] = std::abs(before[i]);
  const auto g = random_floats(kParameters, 2);
  std::vector<double> expected(before.begin(), before.end());
  for (size_t i = 0; i < kParameters; ++i) {
    rule(expected[i], expected[kParameters + i], expected[2 * kParameters + i], g[i]);
  }
  expect_gradient(expected, before, 2e-6, [&](const GradientKernels<float>& kernels, float* state, ThreadPool& pool) {
    update(kernels, state, g.data(), pool);
  });
}

TEST(CpuOptimizers, SgdWithAndWithoutMomentum) {
  for (const double decay : {0.0, 0.1}) {
    for (const bool nesterov : {false, true}) {
      check_update(
          [&](const GradientKernels<float>& kernels, float* state, const float* g, ThreadPool& pool) {
            kernels.sgd({state, g, state + kParameters, kParameters, 0.05, 0.9, decay, nesterov}, pool);
          },
          [&](double& p, double& v, double&, double g) {
            g += decay * p;
            v = 0.9 * v + g;
            p -= 0.05 * (nesterov ? g + 0.9 * v : v);
          });
    }
    check_update(
        [&](const GradientKernels<float>& kernels, float* state, const float* g, ThreadPool& pool) {
          kernels.sgd({state, g, nullptr, kParameters, 0.05, 0, decay, false}, pool);
        },
        [&](double& p, double&, double&, double g) { p -= 0.05 * (g + decay * p); });
  }
}

TEST(CpuOptimizers, AdamAndAdamW) {
  for (const double decay : {0.0, 0.1}) {
    for (const bool decoupled : {false, true}) {
      const double c1 = 1 - std::pow(0.9, 3), c2 = 1 - std::pow(0.999, 3);
      check_update(
          [&](const GradientKernels<float>& kernels, float* state, const float* g, ThreadPool& pool) {
            kernels.adam({state, g, state + kParameters, state + 2 * kParameters, kParameters, 1e-2, 0.9, 0.999, 1e-8,
                          decay, c1, c2, decoupled},
                         pool);
          },
          [&](double& p, double& m, double& v, double g) {
            if (decoupled) p -= 1e-2 * decay * p;
            else g += decay * p;
            m = 0.9 * m + 0.1 * g;
            v = 0.999 * v + (1.0F - 0.999F) * g * g;
            p -= 1e-2 * (m / c1) / (std::sqrt(v / c2) + 1e-8);
          });
    }
  }
}

TEST(CpuOptimizers, RmsPropWithAndWithoutMomentum) {
  for (const bool momentum : {false, true}) {
    check_update(
        [&](const GradientKernels<float>& kernels, float* state, const float* g, ThreadPool& pool) {
          kernels.rmsprop({state, g, state + 2 * kParameters, momentum ? state + kParameters : nullptr, kParameters,
                           1e-2, 0.99, 1e-8, 0.1, 0.9},
                          pool);
        },
        [&](double& p, double& b, double& s, double g) {
          g += 0.1 * p;
          s = 0.99 * s + 0.01 * g * g;
          const double step = 1e-2 * g / (std::sqrt(s) + 1e-8);
          if (momentum) b = 0.9 * b + step;
          p -= momentum ? b : step;
        });
  }
}

}  // namespace
}  // namespace ballast
