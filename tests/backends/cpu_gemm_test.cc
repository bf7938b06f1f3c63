#include "tests/backends/cpu_testing.h"

namespace ballast {
namespace {

constexpr float kUntouched = 12345;

struct Product {
  size_t m, n, k;
  WeightLayout layout = WeightLayout::kInOut;
  DType dtype = DType::kF32;
  Activation activation = Activation::kNone;
  bool bias = false, residual = false;
  size_t extra_a = 0, extra_c = 0;  // beyond the rows, so that strides matter
};

class GemmOperands {
 public:
  explicit GemmOperands(const Product& product)
      : p(product),
        a(random_floats(p.m * a_stride(), 1)),
        w(random_floats(p.n * p.k, 2), p.dtype),
        bias(random_floats(p.n, 3)),
        residual(random_floats(p.m * c_stride(), 4)) {}

  size_t a_stride() const { return p.k + p.extra_a; }
  size_t c_stride() const { return p.n + p.extra_c; }

  // In tiles of at most `rows` rows of the weight.
  std::vector<float> compute(const KernelTable<float>& kernels, ThreadPool& pool, size_t rows = SIZE_MAX) const {
    std::vector<float> c(p.m * c_stride(), kUntouched);
    const size_t total = p.layout == WeightLayout::kInOut ? p.k : p.n;
    const size_t row_elements = p.layout == WeightLayout::kInOut ? p.n : p.k;
    size_t begin = 0;
    do {
      GemmTile<float> tile;
      tile.a = a.data();
      tile.c = c.data();
      tile.m = p.m, tile.n = p.n, tile.k = p.k;
      tile.a_stride = a_stride(), tile.c_stride = c_stride();
      tile.w = w.view(begin * row_elements);
      tile.layout = p.layout;
      tile.begin = begin;
      tile.count = std::min(rows, total - begin);
      tile.first = begin == 0;
      tile.last = begin + tile.count == total;
      tile.bias = p.bias ? bias.data() : nullptr;
      tile.activation = p.activation;
      tile.residual = p.residual ? residual.data() : nullptr;
      kernels.gemm(tile, pool);
      begin += tile.count;
    } while (begin < total);
    return c;
  }

  std::vector<double> expected() const {
    std::vector<double> c(p.m * c_stride(), kUntouched);
    for (size_t i = 0; i < p.m; ++i) {
      for (size_t j = 0; j < p.n; ++j) {
        double sum = 0;
        for (size_t k = 0; k < p.k; ++k) {
          const size_t at = p.layout == WeightLayout::kInOut ? k * p.n + j : j * p.k + k;
          sum += double{a[i * a_stride() + k]} * w.values()[at];
        }
        if (p.bias) sum += bias[j];
        sum = activate(p.activation, sum);
        if (p.residual) sum += residual[i * c_stride() + j];
        c[i * c_stride() + j] = sum;
      }
    }
    return c;
  }

  Product p;
  std::vector<float> a;
  TestWeight w;
  std::vector<float> bias, residual;
};

void expect_product(const Product& product) {
  SCOPED_TRACE(::testing::Message() << product.m << " x " << product.n << " x " << product.k);
  const GemmOperands operands(product);
  for_each_level([&](const KernelTable<float>& kernels) {
    const auto c = same_on_threads([&](ThreadPool& pool) { return operands.compute(kernels, pool); });
    expect_close(c, operands.expected(), 1e-5, 2e-6 * std::sqrt(static_cast<double>(product.k) + 1) + 1e-6);
  });
}

TEST(CpuGemm, IsRightForOddShapesInBothLayouts) {
  for (const WeightLayout layout : {WeightLayout::kInOut, WeightLayout::kOutIn}) {
    for (const size_t m : {0, 1, 2, 3, 7, 8, 9, 14, 15, 31}) {
      for (const size_t n : {0, 1, 15, 16, 17, 33, 70}) {
        for (const size_t k : {0, 1, 7, 8, 67}) expect_product({m, n, k, layout});
      }
    }
  }
}

TEST(CpuGemm, IsRightBeyondItsBlocks) {
  for (const WeightLayout layout : {WeightLayout::kInOut, WeightLayout::kOutIn}) {
    expect_product({1, 4200, 300, layout});
    expect_product({131, 290, 530, layout});
  }
}

TEST(CpuGemm, ReadsEveryTypeOfWeight) {
  for (const WeightLayout layout : {WeightLayout::kInOut, WeightLayout::kOutIn}) {
    for (const DType dtype : {DType::kF16, DType::kBF16}) {
      for (const size_t m : {1, 6, 20}) expect_product({m, 83, 71, layout, dtype});
    }
  }
}

TEST(CpuGemm, AppliesBiasActivationAndResidualInThatOrder) {
  for (const Activation activation : {Activation::kNone, Activation::kRelu, Activation::kRelu6, Activation::kGeluErf,
                                      Activation::kGeluTanh, Activation::kSilu}) {
    for (const size_t m : {3, 17}) {
      expect_product({.m = m, .n = 53, .k = 40, .activation = activation, .bias = true, .residual = true});
      expect_product(
          {.m = m, .n = 53, .k = 40, .layout = WeightLayout::kOutIn, .activation = activation, .bias = true});
    }
  }
}

TEST(CpuGemm, KeepsToTheStridesOfItsRows) {
  for (const size_t m : {2, 19}) {
    expect_product({.m = m, .n = 37, .k = 29, .residual = true, .extra_a = 5, .extra_c = 3});
    expect_product({.m = m, .n = 37, .k = 29, .layout = WeightLayout::kOutIn, .extra_a = 5, .extra_c = 3});
  }
}

TEST(CpuGemm, GivesTheSameBitsHoweverTheWeightIsCut) {
  for (const WeightLayout layout : {WeightLayout::kInOut, WeightLayout::kOutIn}) {
    for (const size_t m : {1, 5, 40}) {
      const GemmOperands operands({.m = m,
                                   .n = 101,
                                   .k = 301,
                                   .layout = layout,
                                   .activation = Activation::kGeluErf,
                                   .bias = true,
                                   .residual = true});
      for_each_level([&](const KernelTable<float>& kernels) {
        ThreadPool pool(2);
        const auto whole = operands.compute(kernels, pool);
        for (const size_t rows : {1, 7, 8, 64, 100, 300}) {
          EXPECT_TRUE(same_bits(whole, operands.compute(kernels, pool, rows))) << rows << " rows a tile, m " << m;
        }
      });
    }
  }
}

// Every number of rows and type of weight, because each may be computed in a way of its own.
TEST(CpuGemm, GivesARowTheSameBitsAloneAndAmongOthers) {
  for (const WeightLayout layout : {WeightLayout::kInOut, WeightLayout::kOutIn}) {
    for (const DType dtype : {DType::kF32, DType::kF16, DType::kBF16}) {
      const GemmOperands many({.m = 33, .n = 75, .k = 303, .layout = layout, .dtype = dtype, .extra_a = 2});
      for_each_level([&](const KernelTable<float>& kernels) {
        ThreadPool pool(2);
        std::vector<float> alone;
        for (size_t row = 0; row < many.p.m; ++row) {
          GemmOperands one = many;
          one.p.m = 1;
          one.a.erase(one.a.begin(), one.a.begin() + row * many.a_stride());
          const auto c = one.compute(kernels, pool);
          alone.insert(alone.end(), c.begin(), c.end());
        }
        for (size_t rows = 1; rows <= many.p.m; ++rows) {
          GemmOperands few = many;
          few.p.m = rows;
          const auto some = few.compute(kernels, pool);
          EXPECT_EQ(std::memcmp(some.data(), alone.data(), some.size() * sizeof(float)), 0)
              << rows << " rows, " << dtype_name(dtype);
        }
      });
    }
  }
}

TEST(CpuGemm, GivesTheSameBitsOnEveryLevelThatFusesMultiplyAndAdd) {
  const GemmOperands operands({.m = 21, .n = 75, .k = 400});
  ThreadPool pool(1);
  std::vector<std::vector<float>> results;
  for_each_level([&](const KernelTable<float>& kernels) {
    const std::string_view level = kCpuBackend.level();
    if (level != "scalar" && level != "sse4") results.push_back(operands.compute(kernels, pool));
  });
  for (const auto& result : results) EXPECT_TRUE(same_bits(result, results.front()));
}

TEST(CpuGemm, PassesInfinityAndNanOfHalfPrecisionOn) {
  for (const DType dtype : {DType::kF16, DType::kBF16}) {
    for (const size_t k : {1, 64}) {  // also where whole lines of a weight are turned at once
      GemmOperands operands({.m = 1, .n = 3 * k, .k = k, .layout = WeightLayout::kOutIn, .dtype = dtype});
      operands.a.assign(k, 1);
      std::vector<float> values;
      for (const float value : {INFINITY, -INFINITY, NAN}) values.insert(values.end(), k * k, value);
      operands.w = TestWeight(values, dtype);
      for_each_level([&](const KernelTable<float>& kernels) {
        ThreadPool pool(1);
        const auto c = operands.compute(kernels, pool);
        for (size_t i = 0; i < k; ++i) {
          EXPECT_EQ(c[i], INFINITY);
          EXPECT_EQ(c[k + i], -INFINITY);
          EXPECT_TRUE(std::isnan(c[2 * k + i]));
        }
      });
    }
  }
}

// A single row turns weights in a way of its own.
TEST(CpuGemm, GivesOneRowTheSameBitsForEveryFiniteNumberOfHalfPrecision) {
  constexpr size_t kOutputs = 64, kTerms = 1024;
  std::vector<float> values;
  for (uint32_t bits = 0; values.size() < kOutputs * kTerms; bits = (bits + 1) % 65536) {
    const float value = F16::decode(static_cast<uint16_t>(bits));
    if (std::isfinite(value)) values.push_back(value);
  }
  GemmOperands two({.m = 2, .n = kOutputs, .k = kTerms, .layout = WeightLayout::kOutIn, .dtype = DType::kF16});
  two.w = TestWeight(values, DType::kF16);
  GemmOperands one = two;
  one.p.m = 1;
  for_each_level([&](const KernelTable<float>& kernels) {
    ThreadPool pool(1);
    auto first = two.compute(kernels, pool);
    first.resize(kOutputs);
    EXPECT_TRUE(same_bits(one.compute(kernels, pool), first));
  });
}

TEST(CpuBatchedMatmul, IsRightForOddShapes) {
  for (const size_t batch : {0, 1, 3, 9}) {
    for (const size_t m : {0, 1, 5, 17}) {
      for (const size_t n : {1, 33}) {
        for (const size_t k : {0, 1, 19}) {
          const auto a = random_floats(batch * m * k, 1), b = random_floats(batch * k * n, 2);
          std::vector<double> expected(batch * m * n);
          for (size_t i = 0; i < expected.size(); ++i) {
            const size_t at = i / n, of = at / m;
            for (size_t x = 0; x < k; ++x) expected[i] += double{a[at * k + x]} * b[(of * k + x) * n + i % n];
          }
          for_each_level([&](const KernelTable<float>& kernels) {
            const auto c = same_on_threads([&](ThreadPool& pool) {
              std::vector<float> out(batch * m * n, kUntouched);
              kernels.batched_matmul({a.data(), b.data(), out.data(), batch, m, n, k}, pool);
              return out;
            });
            expect_close(c, expected, 1e-5, 1e-5);
          });
        }
      }
    }
  }
}

}  // namespace
}  // namespace ballast
