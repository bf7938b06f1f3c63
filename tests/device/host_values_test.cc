#include "ballast/device/host_values.h"

#include <gtest/gtest.h>

#include "ballast/device/host_access.h"

namespace ballast {
namespace {

TEST(HostValues, AreWhereTheyLieInTheHostsMemoryAndKeepItAlive) {
  HostValues<float> values;
  {
    Workspace workspace;
    const Tensor tensor = *workspace.from(std::vector<float>{1, 2, 3}, {3});
    values = *HostValues<float>::of(tensor);
    EXPECT_EQ(values.data(), host_data<const float>(tensor));
  }
  EXPECT_EQ(values.size(), 3U);
  EXPECT_EQ(values[2], 3);
  EXPECT_EQ(std::vector<float>(values.begin(), values.end()), (std::vector<float>{1, 2, 3}));
}

TEST(HostValues, AreBytesWhereBytesAreAskedFor) {
  Workspace workspace;
  const Tensor tensor = *workspace.zeros({2, 3}, DType::kF64);
  const auto bytes = HostValues<std::byte>::of(tensor);
  ASSERT_TRUE(bytes);
  EXPECT_EQ(bytes->size(), 48U);
}

TEST(HostValues, OfNothingAreNone) {
  Workspace workspace;
  EXPECT_EQ(HostValues<float>::of(Tensor())->size(), 0U);
  EXPECT_EQ(HostValues<float>::of(*workspace.make({0, 5}))->size(), 0U);
  EXPECT_TRUE(floats_of(Tensor())->empty());
}

TEST(HostValues, OfEitherFloatBecomeTheOther) {
  Workspace workspace;
  const std::vector<double> wide = {0.5, 0.1};
  const Tensor f64 = *workspace.from_bytes(std::as_bytes(std::span(wide)), {2}, DType::kF64);
  const Tensor f32 = *workspace.from(std::vector<float>{0.25F}, {1});
  EXPECT_EQ(*floats_of(f64), (std::vector<float>{0.5F, 0.1F}));
  EXPECT_EQ(*doubles_of(f64), wide);
  EXPECT_EQ(*doubles_of(f32), std::vector<double>{0.25});
  EXPECT_EQ(*number_of(f64), 0.5);
  EXPECT_EQ(*number_of(f32), 0.25);
}

TEST(Tensor, IsCopiedIntoMemoryOfItsOwnAndWrittenByItsOwner) {
  Workspace workspace;
  const Tensor x = *workspace.from(std::vector<float>{1, 2}, {2});
  Tensor y = *workspace.copy(x);
  EXPECT_FALSE(y.shares_memory_with(x));
  EXPECT_TRUE(x.shares_memory_with(x.reshaped({1, 2})));
  EXPECT_EQ(*floats_of(y), (std::vector<float>{1, 2}));
  const std::vector<float> others = {3, 4};
  y.write(std::as_bytes(std::span(others)));
  EXPECT_EQ(*floats_of(y), others);
  EXPECT_EQ(*floats_of(x), (std::vector<float>{1, 2}));
}

}  // namespace
}  // namespace ballast
