#include "ballast/params/budget.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "ballast/params/tile_plan.h"
#include "tests/support/param_sources.h"

namespace ballast {
namespace {

using testing::GeneratedSource;
using testing::make_info;

constexpr uint64_t kMost = std::numeric_limits<uint64_t>::max();

std::optional<uint64_t> budget(const BudgetLimits& limits, uint64_t total) {
  const auto result = effective_budget(limits, total);
  EXPECT_TRUE(result);
  return result ? *result : std::nullopt;
}

TEST(EffectiveBudget, IsTheLeastOfWhatIsSet) {
  EXPECT_EQ(budget({}, 1000), std::nullopt);
  EXPECT_EQ(budget({.bytes = 300}, 1000), 300U);
  EXPECT_EQ(budget({.fraction = 0.25}, 1000), 250U);
  EXPECT_EQ(budget({.bytes = 300, .fraction = 0.25}, 1000), 250U);
  EXPECT_EQ(budget({.bytes = 200, .fraction = 0.25}, 1000), 200U);
  EXPECT_EQ(budget({.bytes = 300, .fraction = 0.25, .cap = 100}, 1000), 100U);
  EXPECT_EQ(budget({.cap = 100}, 1000), 100U);
}

TEST(EffectiveBudget, RoundsAFractionDown) {
  EXPECT_EQ(budget({.fraction = 0.5}, 7), 3U);
  EXPECT_EQ(budget({.fraction = static_cast<double>(0.1F)}, 100), 10U);
  EXPECT_EQ(budget({.fraction = 0.0}, 1000), 0U);
  EXPECT_EQ(budget({.fraction = 1.0}, kMost), kMost);
  EXPECT_LT(*budget({.fraction = std::nextafter(1.0, 0.0)}, kMost), kMost);
}

TEST(EffectiveBudget, RefusesWhatIsNoFraction) {
  for (const double wrong : {-0.1, 1.1, 25.0, std::nan("")}) {
    const auto result = effective_budget({.fraction = wrong}, 1000);
    ASSERT_FALSE(result) << wrong;
    EXPECT_EQ(result.error().code, ErrorCode::kInvalidArgument);
    EXPECT_THAT(result.error().message, ::testing::HasSubstr("between 0 and 1"));
  }
}

TEST(FirstLayers, AreRecognisedByName) {
  EXPECT_TRUE(is_in_first_layers("blocks.0.attention.w_qkv", 2));
  EXPECT_TRUE(is_in_first_layers("blocks.1.w", 2));
  EXPECT_FALSE(is_in_first_layers("blocks.2.w", 2));
  EXPECT_FALSE(is_in_first_layers("blocks.10.w", 2));
  EXPECT_FALSE(is_in_first_layers("blocks.0.w", 0));
  for (const char* other : {"blocks.0", "blocks.x.w", "blocks..w", "layer1.0.conv1.weight", "blocks", "", "blocks.-1.w",
                            "blocks.99999999999999999999999.w"}) {
    EXPECT_FALSE(is_in_first_layers(other, 100)) << other;
  }
}

TEST(TilePlan, RowsAreOfTheFirstDimension) {
  EXPECT_EQ(param_rows(make_info("w", DType::kF32, {3, 5})).count, 3U);
  EXPECT_EQ(param_rows(make_info("w", DType::kF32, {3, 5})).bytes_each, 20U);
  EXPECT_EQ(param_rows(make_info("conv", DType::kF16, {4, 3, 7, 7})).bytes_each, 294U);
  EXPECT_EQ(param_rows(make_info("b", DType::kF32, {7})).count, 7U);
  EXPECT_EQ(param_rows(make_info("s", DType::kF32, {})).count, 1U);
  EXPECT_EQ(param_rows(make_info("s", DType::kF32, {})).bytes_each, 4U);
  EXPECT_EQ(param_rows(make_info("none", DType::kF32, {0, 5})).count, 0U);
  EXPECT_EQ(param_rows(make_info("odd", DType::kF4, {2, 3})).count, 1U);  // a row of 12 bits
  TensorInfo packed = make_info("q", DType::kQFloat, {4, 4});
  packed.byte_size = 20;
  EXPECT_EQ(param_rows(packed).count, 1U);
}

TEST(TilePlan, CoversEveryRowOnceWithTilesOfAboutOneSize) {
  for (const uint64_t rows : {1U, 2U, 7U, 100U, 768U, 50257U}) {
    const GeneratedSource source({make_info("w", DType::kF32, {rows, 300})});
    for (const uint64_t budget : {smallest_budget(source), smallest_budget(source) + 1000, uint64_t{1} << 20}) {
      const auto plan = plan_tiles(source, {}, budget);
      ASSERT_TRUE(plan);
      const TiledParam& param = plan->params[0];
      uint64_t next = 0;
      for (uint64_t tile = 0; tile < param.tile_count(); ++tile) {
        EXPECT_EQ(param.tile_begin(tile), next);
        EXPECT_GT(param.tile_end(tile), next);
        next = param.tile_end(tile);
      }
      EXPECT_EQ(next, rows);
      EXPECT_LE(plan->working_set, budget);
    }
  }
}

TEST(TilePlan, ALargeHeadFitsASmallBudget) {
  const GeneratedSource source({make_info("lm_head", DType::kF32, {768, 50257})});
  const auto plan = plan_tiles(source, {}, 32 << 20);
  ASSERT_TRUE(plan);
  EXPECT_LE(plan->params[0].tile_rows * 50257 * 4, 8U << 20);
  EXPECT_GE(plan->params[0].tile_count(), 38U);
}

TEST(TilePlan, SaysWhichParameterNeedsMoreAndHowMuch) {
  const GeneratedSource source({make_info("small", DType::kF32, {2, 2}), make_info("wide", DType::kF32, {10, 1000}),
                                make_info("bias", DType::kF32, {1000})});
  const uint64_t smallest = smallest_budget(source);
  EXPECT_EQ(smallest, 3 * 4032U);  // two rows and the bias, each rounded up to 64
  const auto plan = plan_tiles(source, {}, 10000);
  ASSERT_FALSE(plan);
  EXPECT_EQ(plan.error().code, ErrorCode::kInvalidArgument);
  EXPECT_EQ(plan.error().message,
            "generated: a budget of 10000 bytes for parameters is too small: \"wide\" [10, 1000] needs 8064 bytes at "
            "once beside 4032 of \"bias\"; the smallest budget that works is 12096 bytes");
  EXPECT_FALSE(plan_tiles(source, {}, smallest - 1));
  EXPECT_TRUE(plan_tiles(source, {}, smallest));
  EXPECT_FALSE(plan_tiles(source, {}, 0));
}

TEST(TilePlan, NamesAVectorWhereThereIsNothingElse) {
  const GeneratedSource source({make_info("none", DType::kF32, {0, 5}), make_info("bias", DType::kF32, {1000})});
  const auto plan = plan_tiles(source, {}, 100);
  ASSERT_FALSE(plan);
  EXPECT_THAT(plan.error().message, ::testing::HasSubstr("\"bias\" [1000] needs 4032 bytes at once; the smallest"));
}

TEST(TilePlan, TwoVectorsMayBeInUseAtOnce) {
  const GeneratedSource source({make_info("gamma", DType::kF32, {160}), make_info("beta", DType::kF32, {160}),
                                make_info("w", DType::kF32, {100, 1})});
  EXPECT_EQ(smallest_budget(source), 1280U);
}

TEST(TilePlan, ReadingACompressedParameterCountsWithWhatItTakes) {
  GeneratedSource source({make_info("w", DType::kF32, {100, 64})});
  source.set_reads_parts(false);
  EXPECT_EQ(smallest_budget(source), 3 * 25600U);
  const auto plan = plan_tiles(source, {}, 3 * 25600);
  ASSERT_TRUE(plan);
  EXPECT_EQ(plan->params[0].tile_count(), 1U);
}

TEST(TilePlan, EmptyParametersNeedNothing) {
  const GeneratedSource source({make_info("none", DType::kF32, {0, 5}), make_info("thin", DType::kF32, {5, 0})});
  EXPECT_EQ(smallest_budget(source), 0U);
  EXPECT_TRUE(plan_tiles(source, {}, 0));
}

TEST(TilePlan, SmallParametersStayAsLongAsThereIsRoom) {
  std::vector<TensorInfo> infos;
  for (int i = 0; i < 100; ++i) infos.push_back(make_info("b" + std::to_string(i), DType::kF32, {256}));
  infos.push_back(make_info("w", DType::kF32, {1000, 256}));
  const GeneratedSource source(infos);
  const auto roomy = plan_tiles(source, {}, 1 << 20);
  ASSERT_TRUE(roomy);
  EXPECT_EQ(roomy->staying, 100 * 1024U);
  EXPECT_FALSE(roomy->params[100].stays);
  const auto tight = plan_tiles(source, {}, 64 << 10);
  ASSERT_TRUE(tight);
  EXPECT_EQ(tight->staying, 32U << 10);
  EXPECT_LE(tight->staying + tight->working_set, 64U << 10);
}

}  // namespace
}  // namespace ballast
