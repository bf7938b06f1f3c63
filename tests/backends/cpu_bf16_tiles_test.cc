// Fast products with bf16 weights [N, K]: by tiles of AMX where the level has them, in f32 elsewhere.
#include <sys/mman.h>
#include <unistd.h>

#include "ballast/backends/cpu/bf16_tiles.h"
#include "tests/backends/cpu_testing.h"

namespace ballast {
namespace {

// Bytes before a page that nobody may read: sanitizers do not see what tiles load.
class BytesBeforeAWall {
 public:
  explicit BytesBeforeAWall(size_t bytes) {
    const auto page = static_cast<size_t>(::sysconf(_SC_PAGESIZE));
    size_ = (bytes + 64 + page - 1) / page * page + page;
    void* at = ::mmap(nullptr, size_, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (at == MAP_FAILED) throw std::bad_alloc();
    memory_ = static_cast<std::byte*>(at);
    wall_ = memory_ + size_ - page;
    ::mprotect(wall_, page, PROT_NONE);
  }
  ~BytesBeforeAWall() { ::munmap(memory_, size_); }
  BytesBeforeAWall(const BytesBeforeAWall&) = delete;
  BytesBeforeAWall& operator=(const BytesBeforeAWall&) = delete;

  std::byte* last(size_t bytes) const { return wall_ - bytes; }

 private:
  std::byte *memory_ = nullptr, *wall_ = nullptr;
  size_t size_ = 0;
};

struct Bf16Case {
  size_t m, n, k;
};

class Bf16Operands {
 public:
  explicit Bf16Operands(Bf16Case shape)
      : shape_(shape),
        a(random_floats(shape.m * shape.k, 1)),
        w(random_floats(shape.n * shape.k, 2)),
        bias(random_floats(shape.n, 3)) {}

  // In tiles of `rows` rows of the weight, which begins `offset` bytes behind a line of the cache.
  std::vector<float> compute(const KernelTable<float>& kernels, ThreadPool& pool, Numerics numerics = Numerics::kFast,
                             size_t rows = SIZE_MAX, size_t offset = 1) const {
    std::vector<std::byte> memory(2 * w.size() + 128);
    return compute_at(kernels, pool, numerics, rows, aligned(memory) + offset, a.data());
  }

  // Weights and activations have nothing behind them.
  std::vector<float> compute_before_walls(const KernelTable<float>& kernels, ThreadPool& pool) const {
    const BytesBeforeAWall weights(2 * w.size()), activations(a.size() * sizeof(float));
    std::byte* x = activations.last(a.size() * sizeof(float));
    std::memcpy(x, a.data(), a.size() * sizeof(float));
    return compute_at(kernels, pool, Numerics::kFast, SIZE_MAX, weights.last(2 * w.size()),
                      reinterpret_cast<const float*>(x));
  }
  // Splitting loses at most 2^-18 of an activation. The sums are f32: 32 terms are added by chains of 16, and those
  // sums one after the other, so that each term is rounded at most 16 + 2 + k / 32 + 2 times by 2^-24; without tiles,
  // at most k + 1 times.
  void expect_near_exact(const std::vector<float>& c, bool by_tiles) const {
    const auto terms = static_cast<double>(shape_.k);
    const double rounding =
        by_tiles ? std::ldexp(1, -18) + (21 + terms / 32) * std::ldexp(1, -24) : (terms + 1) * std::ldexp(1, -24);
    for (size_t i = 0; i < shape_.m; ++i) {
      for (size_t j = 0; j < shape_.n; ++j) {
        double sum = bias[j], size = std::abs(sum);
        for (size_t k = 0; k < shape_.k; ++k) {
          const double term = double{a[i * shape_.k + k]} * BF16::decode(BF16::encode(w[j * shape_.k + k]));
          sum += term;
          size += std::abs(term);
        }
        ASSERT_LE(std::abs(c[i * shape_.n + j] - sum), rounding * size) << i << ", " << j;
      }
    }
  }

  Bf16Operands rows(size_t begin, size_t count) const {
    Bf16Operands some = *this;
    some.shape_.m = count;
    some.a.assign(a.begin() + begin * shape_.k, a.begin() + (begin + count) * shape_.k);
    return some;
  }

  // What tiles are said to compute (bf16_tiles.h), term by term.
  float total(size_t row, size_t output) const {
    float high = 0, low = 0;
    for (size_t step = 0; step < shape_.k; step += cpu::kSplitTerms) {
      float high_parts[2] = {}, low_parts[2] = {};  // of even terms and of odd ones
      for (size_t k = step; k < std::min(step + cpu::kSplitTerms, shape_.k); ++k) {
        const float x = a[row * shape_.k + k], weight = BF16::decode(BF16::encode(w[output * shape_.k + k]));
        const float first = BF16::decode(BF16::encode(x)), second = BF16::decode(BF16::encode(x - first));
        high_parts[k % 2] = std::fma(first, weight, high_parts[k % 2]);
        low_parts[k % 2] = std::fma(second, weight, low_parts[k % 2]);
      }
      high += high_parts[0] + high_parts[1];
      low += low_parts[0] + low_parts[1];
    }
    return high + low + bias[output];
  }

 private:
  std::vector<float> compute_at(const KernelTable<float>& kernels, ThreadPool& pool, Numerics numerics, size_t rows,
                                std::byte* weights, const float* x) const {
    for (size_t i = 0; i < w.size(); ++i) {
      const uint16_t bits = BF16::encode(w[i]);
      std::memcpy(weights + 2 * i, &bits, sizeof(bits));
    }
    std::vector<float> c(shape_.m * shape_.n, 12345);
    std::vector<std::byte> scratch;
    GemmTile<float> tile;
    tile.a = x, tile.c = c.data();
    tile.m = shape_.m, tile.n = shape_.n, tile.k = shape_.k;
    tile.a_stride = shape_.k, tile.c_stride = shape_.n;
    tile.layout = WeightLayout::kOutIn;
    tile.bias = bias.data();
    tile.numerics = numerics;
    tile.w.dtype = DType::kBF16;
    scratch.assign(kernels.gemm_scratch(tile) + 64, std::byte{0xFF});
    tile.scratch = aligned(scratch);
    for (; tile.begin < shape_.n; tile.begin += tile.count) {
      tile.w.data = weights + 2 * tile.begin * shape_.k;
      tile.count = std::min(rows, shape_.n - tile.begin);
      kernels.gemm(tile, pool);
      tile.is_prepared = true;
    }
    return c;
  }

  static std::byte* aligned(std::vector<std::byte>& memory) {
    return memory.data() + (64 - reinterpret_cast<uintptr_t>(memory.data()) % 64) % 64;
  }

  Bf16Case shape_;

 public:
  std::vector<float> a, w, bias;
};

bool uses_tiles() { return kCpuBackend.block_arithmetic(DType::kBF16, Numerics::kFast) == "bf16 in two parts, amx"; }

// Whole tiles and steps, and what is left beside them; terms of more than one chunk; rows of more than one block.
std::vector<Bf16Case> shapes() {
  std::vector<Bf16Case> all;
  for (const size_t k : {1, 2, 31, 32, 33, 64, 95}) {
    for (const size_t n : {1, 15, 16, 17, 33, 70}) {
      for (const size_t m : {1, 8, 9, 16, 17, 32, 33, 50}) all.push_back({m, n, k});
    }
  }
  all.insert(all.end(), {{1, 300, 2100}, {40, 300, 2100}, {150, 290, 96}, {129, 33, 2080}});
  return all;
}

TEST(CpuBf16Tiles, ComeWithinTheRoundingOfActivations) {
  for (const Bf16Case& shape : shapes()) {
    SCOPED_TRACE(::testing::Message() << shape.m << " x " << shape.n << " x " << shape.k);
    const Bf16Operands operands(shape);
    for_each_level([&](const KernelTable<float>& kernels) {
      ThreadPool pool(1);
      operands.expect_near_exact(operands.compute(kernels, pool), uses_tiles());
    });
  }
}

TEST(CpuBf16Tiles, AddInTheOrderThatIsPromised) {
  if (!uses_tiles()) GTEST_SKIP() << kCpuBackend.level();
  ThreadPool pool(2);
  for (const Bf16Case shape : {Bf16Case{1, 20, 100}, {3, 33, 2049}, {16, 17, 70}, {40, 35, 4130}, {150, 70, 64}}) {
    const Bf16Operands operands(shape);
    const auto c = operands.compute(kCpuBackend.f32, pool);
    for (size_t i = 0; i < c.size(); ++i) {
      ASSERT_EQ(c[i], operands.total(i / shape.n, i % shape.n)) << shape.m << " rows, " << i;
    }
  }
}

TEST(CpuBf16Tiles, ReadNothingBehindTheirOperands) {
  ThreadPool pool(1);
  for (const Bf16Case& shape : shapes()) {
    SCOPED_TRACE(::testing::Message() << shape.m << " x " << shape.n << " x " << shape.k);
    const Bf16Operands operands(shape);
    for_each_level([&](const KernelTable<float>& kernels) {
      EXPECT_TRUE(same_bits(operands.compute(kernels, pool), operands.compute_before_walls(kernels, pool)));
    });
  }
}

TEST(CpuBf16Tiles, GiveTheSameBitsOnAnyNumberOfThreads) {
  for (const Bf16Case shape : {Bf16Case{1, 700, 70}, {20, 700, 70}, {150, 700, 70}, {300, 100, 2100}}) {
    const Bf16Operands operands(shape);
    for_each_level([&](const KernelTable<float>& kernels) {
      same_on_threads([&](ThreadPool& pool) { return operands.compute(kernels, pool); });
    });
  }
}

TEST(CpuBf16Tiles, GiveTheSameBitsHoweverTheWeightIsCutAndWhereverItLies) {
  ThreadPool pool(2);
  for (const size_t m : {1, 12, 40}) {
    const Bf16Operands operands({m, 101, 128});
    for_each_level([&](const KernelTable<float>& kernels) {
      const auto whole = operands.compute(kernels, pool);
      for (const size_t offset : {0, 8, 63}) {
        for (const size_t rows : {1, 5, 16, 33, 101}) {
          EXPECT_TRUE(same_bits(whole, operands.compute(kernels, pool, Numerics::kFast, rows, offset)))
              << m << " rows, " << rows << " rows a tile, at " << offset;
        }
      }
    });
  }
}

// In place and as a copy: terms of several chunks, several blocks of rows and of outputs.
TEST(CpuBf16Tiles, GiveTheSameBitsInPlaceAndCopied) {
  ThreadPool pool(2);
  for (const Bf16Case shape : {Bf16Case{40, 96, 2080}, {150, 300, 4128}, {300, 64, 2048}}) {
    const Bf16Operands operands(shape);
    for_each_level([&](const KernelTable<float>& kernels) {
      EXPECT_TRUE(same_bits(operands.compute(kernels, pool, Numerics::kFast, SIZE_MAX, 0),
                            operands.compute(kernels, pool, Numerics::kFast, SIZE_MAX, 1)))
          << shape.m << " rows";
    });
  }
}

// Every number of rows, because tiles of each are made in a way of their own, and from every row on, because a row may
// be in any column.
TEST(CpuBf16Tiles, GiveARowTheSameBitsAloneAndAmongOthers) {
  constexpr size_t kMostRows = 67, kOutputs = 45;
  ThreadPool pool(2);
  for (const size_t k : {40, 2100}) {
    const Bf16Operands many({kMostRows, kOutputs, k});
    for_each_level([&](const KernelTable<float>& kernels) {
      std::vector<float> alone;
      for (size_t row = 0; row < kMostRows; ++row) {
        const auto c = many.rows(row, 1).compute(kernels, pool);
        alone.insert(alone.end(), c.begin(), c.end());
      }
      for (size_t rows = 1; rows <= kMostRows; ++rows) {
        const size_t first = rows % 5 <= kMostRows - rows ? rows % 5 : 0;
        const auto some = many.rows(first, rows).compute(kernels, pool);
        EXPECT_EQ(std::memcmp(some.data(), alone.data() + first * kOutputs, some.size() * sizeof(float)), 0)
            << rows << " rows of " << k;
      }
    });
  }
}

TEST(CpuBf16Tiles, LeaveExactProductsAsTheyAreOnOtherLevels) {
  ThreadPool pool(1);
  for (const size_t m : {1, 40}) {
    const Bf16Operands operands({m, 45, 200});
    std::vector<std::vector<float>> exact;
    for_each_level([&](const KernelTable<float>& kernels) {
      const std::string_view level = kCpuBackend.level();
      if (level == "scalar" || level == "sse4") return;  // without fused multiply-add
      exact.push_back(operands.compute(kernels, pool, Numerics::kExact));
      if (!uses_tiles()) {
        EXPECT_TRUE(same_bits(exact.back(), operands.compute(kernels, pool)));
      }
    });
    for (const auto& c : exact) EXPECT_TRUE(same_bits(c, exact.front()));
  }
}

TEST(CpuBf16Tiles, AreNearerToF32ThanActivationsInBf16ByTwoOrdersOfMagnitude) {
  if (!uses_tiles()) GTEST_SKIP() << kCpuBackend.level();
  ThreadPool pool(1);
  const Bf16Operands operands({1, 64, 2048});
  Bf16Operands rounded = operands;
  for (float& value : rounded.a) value = BF16::decode(BF16::encode(value));
  const auto exact = operands.compute(kCpuBackend.f32, pool, Numerics::kExact);
  const auto distance = [&](const std::vector<float>& c) {
    double most = 0;
    for (size_t i = 0; i < c.size(); ++i) most = std::max(most, std::abs(double{c[i]} - exact[i]));
    return most;
  };
  const double split = distance(operands.compute(kCpuBackend.f32, pool));
  EXPECT_GT(split, 0) << "not by tiles";
  EXPECT_LT(100 * split, distance(rounded.compute(kCpuBackend.f32, pool, Numerics::kExact)));
}

TEST(CpuBf16Tiles, PassInfinityAndNanOn) {
  for (const size_t m : {2, 12, 40}) {
    for (const float broken : {INFINITY, -INFINITY, NAN}) {
      Bf16Operands weights({m, 20, 70}), activations({m, 20, 70});
      for (float& value : weights.a) value = 1;  // the low parts are 0
      weights.w[3 * 70 + 69] = broken;
      for (float& value : activations.w) value = 0.5F;
      activations.a[70 + 69] = broken;
      for_each_level([&](const KernelTable<float>& kernels) {
        ThreadPool pool(1);
        const auto by_weight = weights.compute(kernels, pool), by_activation = activations.compute(kernels, pool);
        const auto expect = [&](float value, bool is_broken) {
          if (!is_broken) {
            EXPECT_TRUE(std::isfinite(value));
          } else {
            EXPECT_TRUE(std::isnan(broken) ? std::isnan(value) : value == broken) << value;
          }
        };
        for (size_t i = 0; i < m; ++i) {
          for (size_t j = 0; j < 20; ++j) {
            expect(by_weight[i * 20 + j], j == 3);
            expect(by_activation[i * 20 + j], i == 1);
          }
        }
      });
    }
  }
}

// Tiles count subnormal numbers as 0: what is lost is nothing beside any number that it could be added to.
TEST(CpuBf16Tiles, TakeNumbersOfAnySize) {
  for (const float size : {0.0F, 1e-40F, 1e-38F, 1e-30F, 1e30F}) {
    for (const size_t m : {1, 40}) {
      Bf16Operands operands({m, 17, 64});
      for (float& value : operands.a) value *= size;
      for (float& value : operands.bias) value = 0;
      for_each_level([&](const KernelTable<float>& kernels) {
        ThreadPool pool(1);
        const auto fast = operands.compute(kernels, pool), exact = operands.compute(kernels, pool, Numerics::kExact);
        for (size_t i = 0; i < fast.size(); ++i) EXPECT_NEAR(fast[i], exact[i], 64 * (1e-5 * size + 1e-37)) << size;
      });
    }
  }
}

TEST(CpuBf16Tiles, AreThereOnTheLevelThatIsNamedAfterThem) {
  GemmTile<float> tile;
  tile.m = tile.n = tile.k = 1;
  tile.w.dtype = DType::kBF16;
  tile.layout = WeightLayout::kOutIn;
  for_each_level([&](const KernelTable<float>& kernels) {
    tile.numerics = Numerics::kFast;
    EXPECT_EQ(cpu::is_by_bf16_tiles(tile), kCpuBackend.level() == "amx");
    EXPECT_EQ(uses_tiles(), kCpuBackend.level() == "amx");
    EXPECT_EQ(kernels.gemm_scratch(tile) != 0, kCpuBackend.level() == "amx");
    tile.numerics = Numerics::kExact;
    EXPECT_FALSE(cpu::is_by_bf16_tiles(tile));
  });
}

}  // namespace
}  // namespace ballast
