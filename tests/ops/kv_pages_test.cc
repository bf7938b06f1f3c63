#include "ballast/ops/kv_pages.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/support/memory_meter.h"

namespace ballast {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

KvShape paged_shape() {
  return {.layers = 4, .kv_heads = 2, .head_dim = 8, .most_positions = 1000, .windows = {100, 0, 100, 1000}};
}

TEST(KvPages, LayersThatSeeEquallyFarLieInOnePage) {
  const KvLayout layout = *KvLayout::make(paged_shape());
  ASSERT_EQ(layout.groups().size(), 2U);
  EXPECT_EQ(layout.groups()[0].window, 100U);
  EXPECT_THAT(layout.groups()[0].layers, ElementsAre(0, 2));
  EXPECT_EQ(layout.groups()[1].window, 0U) << "a window as wide as the context is none";
  EXPECT_THAT(layout.groups()[1].layers, ElementsAre(1, 3));
  const uint64_t plane = 2 * 64 * 8 * 4;
  EXPECT_EQ(layout.groups()[0].page_bytes, 4 * plane);
  EXPECT_EQ(layout.group_of(2), 0U);
  EXPECT_EQ(layout.keys_offset(0), 0U);
  EXPECT_EQ(layout.values_offset(0), plane);
  EXPECT_EQ(layout.keys_offset(2), 2 * plane);
  EXPECT_EQ(layout.keys_offset(1), 0U);
  EXPECT_EQ(layout.row_bytes(), 32U);
}

TEST(KvPages, CountsThePagesThatATextHoldsAtMost) {
  const KvLayout layout = *KvLayout::make(paged_shape());
  const uint64_t page = layout.groups()[0].page_bytes;
  EXPECT_EQ(layout.bytes_for(0), 0U);
  EXPECT_EQ(layout.bytes_for(1), 2 * page);
  EXPECT_EQ(layout.bytes_for(65), 4 * page);
  EXPECT_EQ(layout.bytes_for(640), (10 + 3) * page) << "100 positions that begin anywhere lie in 3 pages at most";
  EXPECT_EQ(layout.bytes_for(UINT64_MAX), std::nullopt);
}

TEST(KvPages, AWindowBeginsInThePageOfTheOldestPositionThatIsSeen) {
  const KvGroup group{.window = 100, .layers = {0}, .page_bytes = 1};
  EXPECT_EQ(group.first_page(162), 0U) << "sees position 63";
  EXPECT_EQ(group.first_page(163), 1U) << "sees position 64";
  const KvGroup all{.window = 0, .layers = {0}, .page_bytes = 1};
  EXPECT_EQ(all.first_page(100000), 0U);
}

std::string layout_refusal(KvShape shape) {
  const auto layout = KvLayout::make(shape);
  EXPECT_FALSE(layout);
  if (layout) return "";
  EXPECT_EQ(layout.error().code, ErrorCode::kInvalidArgument);
  return layout.error().message;
}

TEST(KvPages, RefuseShapesThatAreNone) {
  KvShape shape = paged_shape();
  shape.windows.pop_back();
  EXPECT_THAT(layout_refusal(shape), HasSubstr("3 windows"));
  shape = paged_shape();
  shape.kv_heads = 0;
  EXPECT_THAT(layout_refusal(shape), HasSubstr("nothing to hold"));
  shape = paged_shape();
  shape.dtype = DType::kBF16;
  EXPECT_THAT(layout_refusal(shape), HasSubstr("f32, f16 or f64"));
  shape = paged_shape();
  shape.head_dim = uint64_t{1} << 57;
  EXPECT_THAT(layout_refusal(shape), HasSubstr("no number of bytes"));
}

TEST(KvPages, NoMemoryForTheLayoutIsAnError) {
  const KvShape shape = paged_shape();
  const testing::FailingAllocation failing(1);
  const auto layout = KvLayout::make(shape);
  ASSERT_FALSE(layout);
  EXPECT_EQ(layout.error().code, ErrorCode::kOutOfMemory);
}

}  // namespace
}  // namespace ballast
