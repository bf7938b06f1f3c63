// The interface for boards gives what the library gives.
#include <gtest/gtest.h>

#include <cmath>

#include "ballast/formats/format.h"
#include "tests/core/samples.h"

namespace ballast::testing {
namespace {

class CoreRead : public ::testing::TestWithParam<Sample> {};

TEST_P(CoreRead, GivesTheTensorsOfTheLibrary) {
  const auto bytes = read_file(GetParam().file);
  const auto expected =
      open_archive({.source = MemorySource::borrowing(std::as_bytes(std::span(bytes)), "file"), .file_name = "file"});
  ASSERT_TRUE(expected) << expected.error().message;
  Block block(size_t{1} << 20);
  ballast_core* archive = nullptr;
  ASSERT_EQ(open_in(block, GetParam().format, image_of(bytes), &archive), BALLAST_CORE_OK) << ballast_core_message();
  ASSERT_EQ(ballast_core_count(archive), expected->tensors().size());
  for (size_t i = 0; i < expected->tensors().size(); ++i) {
    const TensorInfo& info = expected->tensors()[i];
    ballast_core_tensor tensor;
    ASSERT_EQ(ballast_core_tensor_at(archive, i, &tensor), BALLAST_CORE_OK);
    EXPECT_EQ(tensor.name.data, info.name);
    EXPECT_EQ(tensor.dtype, dtype_name(info.dtype));
    EXPECT_TRUE(std::ranges::equal(std::span(tensor.shape, tensor.rank), info.shape.dims()));
    const auto payload = expected->payload(i);
    ASSERT_TRUE(payload) << payload.error().message;
    std::vector<std::byte> read(static_cast<size_t>(tensor.size));
    ASSERT_EQ(ballast_core_read(archive, i, read.data(), read.size()), BALLAST_CORE_OK) << ballast_core_message();
    EXPECT_TRUE(std::ranges::equal(read, payload->bytes())) << info.name;
  }
}

INSTANTIATE_TEST_SUITE_P(Formats, CoreRead, ::testing::ValuesIn(kSamples), name_of);

TEST(CoreArgmax, IsTheFirstOfTheLargestAndNoNaN) {
  const auto best = [](std::vector<float> values) { return ballast_core_argmax(values.data(), values.size()); };
  EXPECT_EQ(best({1, 3, 2, 3}), 1U);
  EXPECT_EQ(best({-2, -1}), 1U);
  EXPECT_EQ(best({NAN, -5, NAN}), 1U);
  EXPECT_EQ(best({-5, NAN}), 0U);
  EXPECT_EQ(best({NAN, NAN}), 0U);
  EXPECT_EQ(best({}), 0U);
}

}  // namespace
}  // namespace ballast::testing
