// Products with weights in blocks: the kernels of every level, exact and by integers.
#include "ballast/backends/cpu/block_kernels.h"
#include "tests/backends/cpu_testing.h"
#include "tests/support/random_blocks.h"

namespace ballast {
namespace {

struct BlockCase {
  size_t m, n, k;
};

// Filled with what is no number anywhere.
class AlignedBytes {
 public:
  explicit AlignedBytes(size_t size) : size_(size), bytes_(size + 64, std::byte{0xFF}) {}
  size_t size() const { return size_; }
  std::byte* data() const {
    auto* from = const_cast<std::byte*>(bytes_.data());  // NOLINT: as a pointer to them would be
    return from + (64 - reinterpret_cast<uintptr_t>(from) % 64);
  }

 private:
  size_t size_;
  std::vector<std::byte> bytes_;
};

class BlockOperands {
 public:
  BlockOperands(DType dtype, BlockCase shape)
      : dtype_(dtype),
        shape_(shape),
        a(random_floats(shape.m * shape.k, 1)),
        blocks_(testing::random_blocks(dtype, shape.n * shape.k, 2)),
        values_(testing::block_values(dtype, blocks_)),
        bias_(random_floats(shape.n, 3)) {}

  std::vector<float> compute(const KernelTable<float>& kernels, ThreadPool& pool, Numerics numerics,
                             size_t rows = SIZE_MAX) const {
    std::vector<float> c(shape_.m * shape_.n, 12345);
    GemmTile<float> tile = make_tile(c);
    tile.numerics = numerics;
    tile.w.dtype = dtype_;
    std::vector<std::byte> scratch(kernels.gemm_scratch(tile) + 64);
    tile.scratch = scratch.data() + (64 - reinterpret_cast<uintptr_t>(scratch.data()) % 64);
    const size_t row_bytes = blocks_.size() / shape_.n;
    for (size_t begin = 0; begin < shape_.n; begin += tile.count) {
      tile.w.data = blocks_.data() + begin * row_bytes;
      tile.begin = begin;
      tile.count = std::min(rows, shape_.n - begin);
      kernels.gemm(tile, pool);
      tile.is_prepared = true;
    }
    return c;
  }

  // With the weight in its packed form, made from `rows` rows at a time; empty where the level has none.
  std::vector<float> compute_packed(const KernelTable<float>& kernels, ThreadPool& pool, size_t rows = SIZE_MAX) const {
    std::vector<float> c(shape_.m * shape_.n, 12345);
    GemmTile<float> tile = make_tile(c);
    tile.numerics = Numerics::kFast;
    tile.w = {blocks_.data(), dtype_, false};
    const AlignedBytes packed(kernels.gemm_packed_bytes(tile));
    if (packed.size() == 0) return {};
    for (tile.begin = 0; tile.begin < shape_.n; tile.begin += tile.count) {
      tile.w.data = blocks_.data() + tile.begin * (blocks_.size() / shape_.n);
      tile.count = std::min(rows, shape_.n - tile.begin);
      kernels.gemm_pack(tile, packed.data(), pool);
    }
    tile.w = {packed.data(), dtype_, true};
    const AlignedBytes scratch(kernels.gemm_scratch(tile));
    tile.scratch = scratch.data();
    tile.begin = 0, tile.count = shape_.n;
    kernels.gemm(tile, pool);
    return c;
  }

  // Makes the scale that block `index` begins with infinite.
  void break_scale(size_t index) {
    const uint16_t infinite = 0x7C00;
    std::memcpy(blocks_.data() + index * dtype_info(dtype_).block_bytes, &infinite, sizeof(infinite));
  }

  // The same weight with some of the activations.
  BlockOperands first_rows(size_t rows) const { return with_rows(0, rows); }
  BlockOperands row(size_t index) const { return with_rows(index, 1); }

  // The same product with the weight as plain numbers.
  std::vector<float> compute_plain(const KernelTable<float>& kernels, ThreadPool& pool) const {
    std::vector<float> c(shape_.m * shape_.n, 12345);
    GemmTile<float> tile = make_tile(c);
    tile.w = {reinterpret_cast<const std::byte*>(values_.data()), DType::kF32, false};
    tile.count = shape_.n;
    kernels.gemm(tile, pool);
    return c;
  }

  void expect_near_exact(const std::vector<float>& c) const {
    for (size_t i = 0; i < shape_.m; ++i) {
      for (size_t j = 0; j < shape_.n; ++j) {
        double sum = bias_[j], size = 1;
        for (size_t k = 0; k < shape_.k; ++k) {
          sum += double{a[i * shape_.k + k]} * values_[j * shape_.k + k];
          size += std::abs(values_[j * shape_.k + k]);
        }
        // An activation is rounded by at most half of the largest (1) of its block over 127 * 128.
        const double bound = size / (2 * 127 * 128) + 1e-6 * size;
        ASSERT_LE(std::abs(c[i * shape_.n + j] - sum), bound) << i << ", " << j;
      }
    }
  }

 private:
  BlockOperands with_rows(size_t begin, size_t rows) const {
    BlockOperands some = *this;
    some.shape_.m = rows;
    some.a.assign(a.begin() + begin * shape_.k, a.begin() + (begin + rows) * shape_.k);
    return some;
  }

  GemmTile<float> make_tile(std::vector<float>& c) const {
    GemmTile<float> tile;
    tile.a = a.data();
    tile.c = c.data();
    tile.m = shape_.m, tile.n = shape_.n, tile.k = shape_.k;
    tile.a_stride = shape_.k, tile.c_stride = shape_.n;
    tile.layout = WeightLayout::kOutIn;
    tile.bias = bias_.data();
    return tile;
  }

  DType dtype_;
  BlockCase shape_;

 public:
  std::vector<float> a;

 private:
  ByteVector blocks_;
  std::vector<float> values_, bias_;
};

std::vector<BlockCase> shapes_for(DType dtype) {
  std::vector<BlockCase> shapes;
  const size_t block = dtype_info(dtype).block_elements;
  for (const size_t k : {1, 2, 3, 4, 5, 9}) {
    for (const BlockCase shape : {BlockCase{1, 1, 0}, {1, 7, 0}, {3, 33, 0}, {17, 20, 0}}) {
      shapes.push_back({shape.m, shape.n, k * block});
    }
  }
  return shapes;
}

// With and without tiles and the instruction for four products at once.
void for_each_form(const std::function<void(const KernelTable<float>& kernels)>& body) {
  for_each_level(body);
  for (const auto most : {cpu::ByteInstructions::kDotProducts, cpu::ByteInstructions::kPlain}) {
    SCOPED_TRACE(most == cpu::ByteInstructions::kPlain ? "without dot products" : "without tiles");
    cpu::use_at_most(most);
    body(kCpuBackend.f32);
  }
  cpu::use_at_most(cpu::ByteInstructions::kTiles);
}

class CpuBlocks : public ::testing::TestWithParam<DType> {};

INSTANTIATE_TEST_SUITE_P(Types, CpuBlocks, ::testing::ValuesIn(testing::dequantizable_types()),
                         [](const auto& test) { return std::string(dtype_name(test.param)); });

TEST_P(CpuBlocks, ExactProductsHaveTheBitsOfThePlainNumbers) {
  for (const BlockCase& shape : shapes_for(GetParam())) {
    SCOPED_TRACE(::testing::Message() << shape.m << " x " << shape.n << " x " << shape.k);
    const BlockOperands operands(GetParam(), shape);
    for_each_level([&](const KernelTable<float>& kernels) {
      const auto c =
          same_on_threads([&](ThreadPool& pool) { return operands.compute(kernels, pool, Numerics::kExact); });
      ThreadPool pool(1);
      EXPECT_TRUE(same_bits(c, operands.compute_plain(kernels, pool)));
    });
  }
}

TEST_P(CpuBlocks, FastProductsStayWithinTheRoundingOfActivations) {
  for (const BlockCase& shape : shapes_for(GetParam())) {
    SCOPED_TRACE(::testing::Message() << shape.m << " x " << shape.n << " x " << shape.k);
    const BlockOperands operands(GetParam(), shape);
    for_each_form([&](const KernelTable<float>& kernels) {
      operands.expect_near_exact(
          same_on_threads([&](ThreadPool& pool) { return operands.compute(kernels, pool, Numerics::kFast); }));
    });
  }
}

TEST_P(CpuBlocks, FastProductsHaveTheSameBitsHoweverTheyAreCut) {
  const BlockOperands many(GetParam(), {37, 45, 5 * size_t{dtype_info(GetParam()).block_elements}});
  for_each_form([&](const KernelTable<float>& kernels) {
    ThreadPool pool(2);
    const auto whole = many.compute(kernels, pool, Numerics::kFast);
    for (const size_t rows : {1, 3, 4, 16, 44}) {
      EXPECT_TRUE(same_bits(whole, many.compute(kernels, pool, Numerics::kFast, rows))) << rows << " rows a tile";
    }
  });
}

// Every number of rows, because each may be computed in a way of its own: one by one, by vectors, by tiles in groups.
TEST_P(CpuBlocks, FastProductsGiveARowTheSameBitsAloneAndAmongOthers) {
  constexpr size_t kMostRows = 33, kOutputs = 45;
  ThreadPool pool(2);
  for (const size_t blocks : {1, 5}) {
    const size_t k = blocks * dtype_info(GetParam()).block_elements;
    const BlockOperands many(GetParam(), {kMostRows, kOutputs, k});
    for_each_form([&](const KernelTable<float>& kernels) {
      std::vector<float> alone;
      for (size_t row = 0; row < kMostRows; ++row) {
        const auto c = many.row(row).compute(kernels, pool, Numerics::kFast);
        alone.insert(alone.end(), c.begin(), c.end());
      }
      for (size_t rows = 1; rows <= kMostRows; ++rows) {
        const auto some = many.first_rows(rows).compute(kernels, pool, Numerics::kFast);
        EXPECT_EQ(std::memcmp(some.data(), alone.data(), some.size() * sizeof(float)), 0) << rows << " rows of " << k;
      }
    });
  }
}

TEST_P(CpuBlocks, FastProductsHaveTheSameBitsWhateverMultipliesThem) {
  if (!cpu::multiplies_blocks(GetParam())) GTEST_SKIP() << "in f32";
  const BlockOperands operands(GetParam(), {37, 45, 5 * size_t{dtype_info(GetParam()).block_elements}});
  ThreadPool pool(1);
  std::vector<std::vector<float>> results;
  for_each_form([&](const KernelTable<float>& kernels) {
    if (cpu::multiplies_blocks(GetParam())) results.push_back(operands.compute(kernels, pool, Numerics::kFast));
  });
  for (const auto& result : results) EXPECT_TRUE(same_bits(result, results.front()));
}

TEST_P(CpuBlocks, PackedWeightsGiveTheSameBits) {
  constexpr size_t kMostRows = 40;
  ThreadPool pool(2);
  if (cpu::packed_bytes(GetParam(), 1, dtype_info(GetParam()).block_elements) == 0) GTEST_SKIP() << "has no such form";
  for (const size_t outputs : {1, 16, 45, 100}) {
    for (const size_t blocks : {1, 2, 3, 4, 5, 18, 68, 131}) {
      const BlockOperands many(GetParam(), {kMostRows, outputs, blocks * dtype_info(GetParam()).block_elements});
      const auto expected = many.compute(kCpuBackend.f32, pool, Numerics::kFast);
      for_each_form([&](const KernelTable<float>& kernels) {
        if (many.compute_packed(kernels, pool).empty()) return;  // not on this level
        for (size_t rows = 1; rows <= kMostRows; rows += blocks > 5 ? 3 : 1) {
          const auto some = many.first_rows(rows).compute_packed(kernels, pool);
          EXPECT_EQ(std::memcmp(some.data(), expected.data(), some.size() * sizeof(float)), 0)
              << rows << " rows, " << outputs << " outputs, " << blocks << " blocks";
        }
      });
    }
  }
}

TEST_P(CpuBlocks, WeightsArePackedTheSameHoweverTheyAreCut) {
  const BlockOperands operands(GetParam(), {5, 45, 3 * size_t{dtype_info(GetParam()).block_elements}});
  ThreadPool pool(2);
  const auto whole = operands.compute_packed(kCpuBackend.f32, pool);
  if (whole.empty()) GTEST_SKIP() << "has no packed form here";
  for (const size_t rows : {1, 3, 16, 44}) {
    EXPECT_TRUE(same_bits(whole, operands.compute_packed(kCpuBackend.f32, pool, rows))) << rows << " rows a tile";
  }
}

// Where blocks are missing in the last four of a row, too.
TEST_P(CpuBlocks, PackedWeightsWithScalesThatAreNoNumbersGiveTheSameOutputs) {
  if (cpu::packed_bytes(GetParam(), 1, dtype_info(GetParam()).block_elements) == 0) GTEST_SKIP() << "has no such form";
  for (const size_t blocks : {1, 3, 4, 6}) {
    BlockOperands operands(GetParam(), {5, 20, blocks * dtype_info(GetParam()).block_elements});
    operands.break_scale(7 * blocks + blocks - 1);
    for_each_form([&](const KernelTable<float>& kernels) {
      ThreadPool pool(1);
      const auto packed = operands.compute_packed(kernels, pool);
      if (packed.empty()) return;
      const auto plain = operands.compute(kernels, pool, Numerics::kFast);
      for (size_t i = 0; i < plain.size(); ++i) {
        EXPECT_TRUE(std::isnan(plain[i]) ? std::isnan(packed[i]) : plain[i] == packed[i]) << i;
      }
    });
  }
}

TEST(CpuPackedBlocks, AreThereForTheTypesThatTheyAreMeantForWhereBytesAreMultipliedByFours) {
  if (cpu::block_instructions(DType::kQ4_0).find("avx512 vnni") == std::string_view::npos) {
    GTEST_SKIP() << cpu::block_instructions(DType::kQ4_0);
  }
  // Of 48 outputs and two blocks: numbers, scales and minima, as many bytes as before.
  EXPECT_EQ(cpu::packed_bytes(DType::kQ4_0, 45, 64), 48U * 2 * 18);
  EXPECT_EQ(cpu::packed_bytes(DType::kIQ4NL, 45, 64), 48U * 2 * 18);
  EXPECT_EQ(cpu::packed_bytes(DType::kQ4_1, 45, 64), 48U * 2 * 20);
  EXPECT_EQ(cpu::packed_bytes(DType::kQ8_0, 45, 64), 48U * 2 * 34);
  EXPECT_EQ(cpu::packed_bytes(DType::kQ6K, 45, 256), 0U);
  cpu::use_at_most(cpu::ByteInstructions::kPlain);
  EXPECT_EQ(cpu::packed_bytes(DType::kQ4_0, 45, 64), 0U);
  cpu::use_at_most(cpu::ByteInstructions::kTiles);
}

TEST_P(CpuBlocks, FastProductsShowBrokenActivations) {
  for (const float broken : {NAN, INFINITY, -INFINITY}) {
    BlockOperands operands(GetParam(), {2, 5, 2 * size_t{dtype_info(GetParam()).block_elements}});
    operands.a[7] = broken;
    for_each_form([&](const KernelTable<float>& kernels) {
      ThreadPool pool(1);
      const auto c = operands.compute(kernels, pool, Numerics::kFast);
      for (size_t j = 0; j < 5; ++j) {
        EXPECT_FALSE(std::isfinite(c[j]));
        EXPECT_TRUE(std::isfinite(c[5 + j]));
      }
    });
  }
}

TEST(CpuBlockActivations, MayBeOfAnySize) {
  for (const float size : {0.0F, 1e-37F, 1e-20F, 1e30F}) {
    BlockOperands operands(DType::kQ8_0, {1, 4, 64});
    for (float& value : operands.a) value = size;
    for_each_form([&](const KernelTable<float>& kernels) {
      ThreadPool pool(1);
      const auto fast = operands.compute(kernels, pool, Numerics::kFast);
      const auto exact = operands.compute(kernels, pool, Numerics::kExact);
      for (size_t j = 0; j < 4; ++j) EXPECT_NEAR(fast[j], exact[j], 1e-4 * std::abs(exact[j]) + 1e-30);
    });
  }
}

}  // namespace
}  // namespace ballast
