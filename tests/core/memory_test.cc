// Blocks of every size: whatever allocation fails, the call ends with an error, and nothing outside the block is
// touched.
#include <gtest/gtest.h>

#include "tests/core/samples.h"

namespace ballast::testing {
namespace {

constexpr size_t kRoom = size_t{1} << 20;
constexpr size_t kUnit = 16;  // of the arena

class CoreMemory : public ::testing::TestWithParam<Sample> {};

TEST_P(CoreMemory, EveryBlockHoldsTheArchiveOrIsTooSmall) {
  const auto bytes = read_file(GetParam().file);
  const ballast_core_image image = image_of(bytes);
  Block enough(kRoom);
  ballast_core* archive = nullptr;
  ASSERT_EQ(open_in(enough, GetParam().format, image, &archive), BALLAST_CORE_OK) << ballast_core_message();
  const size_t peak = ballast_core_peak(archive), count = ballast_core_count(archive);
  for (size_t size = 0; size <= peak + kUnit; size += size < 64 ? 1 : kUnit) {
    Block block(size);
    const ballast_core_code code = open_in(block, GetParam().format, image, &archive);
    ASSERT_TRUE(code == BALLAST_CORE_OK || code == BALLAST_CORE_OUT_OF_MEMORY)
        << size << ": " << ballast_core_message();
    ASSERT_EQ(archive != nullptr, code == BALLAST_CORE_OK) << size;
    if (archive == nullptr) {
      ASSERT_LT(size, peak + kUnit) << ballast_core_message();
      continue;
    }
    ASSERT_LE(ballast_core_peak(archive), size);
    ASSERT_EQ(ballast_core_count(archive), count);
  }
}

// With little memory left, what needs some fails, again and again, and the archive stays what it was.
TEST_P(CoreMemory, AnArchiveOutlivesCallsThatRunOutOfMemory) {
  const auto bytes = read_file(GetParam().file);
  const ballast_core_image image = image_of(bytes);
  Block enough(kRoom);
  ballast_core* archive = nullptr;
  ASSERT_EQ(open_in(enough, GetParam().format, image, &archive), BALLAST_CORE_OK) << ballast_core_message();
  const size_t readable = read_everything(archive), opened = ballast_core_peak(archive);
  ASSERT_EQ(readable, ballast_core_count(archive));
  Block block(opened + kUnit);
  ASSERT_EQ(open_in(block, GetParam().format, image, &archive), BALLAST_CORE_OK) << ballast_core_message();
  for (int i = 0; i < 3; ++i) ASSERT_EQ(read_everything(archive), readable);
}

INSTANTIATE_TEST_SUITE_P(Formats, CoreMemory, ::testing::ValuesIn(kSamples), name_of);

TEST(CoreMemory, EveryBlockRunsTheModelOrIsTooSmall) {
  const auto bytes = read_file("models/digits/digits.bpk");
  const ballast_core_image image = image_of(bytes);
  const uint64_t shape[] = {1, 8, 8};
  std::array<float, 64> picture{};
  std::array<float, 10> expected{}, scores{};
  Block enough(kRoom);
  ballast_core* archive = nullptr;
  ballast_core_model* model = nullptr;
  ASSERT_EQ(open_in(enough, &ballast_core_burnpack, image, &archive), BALLAST_CORE_OK);
  const size_t opened = ballast_core_peak(archive);
  ASSERT_EQ(ballast_core_model_open(&model, archive, shape, 3), BALLAST_CORE_OK) << ballast_core_message();
  ASSERT_EQ(ballast_core_model_run(model, picture.data(), 64, expected.data(), 10), BALLAST_CORE_OK);
  const size_t peak = ballast_core_peak(archive);
  ASSERT_GT(peak, opened);
  for (size_t size = opened; size <= peak + kUnit; size += kUnit) {
    Block block(size);
    if (open_in(block, &ballast_core_burnpack, image, &archive) != BALLAST_CORE_OK) continue;
    const ballast_core_code code = ballast_core_model_open(&model, archive, shape, 3);
    ASSERT_TRUE(code == BALLAST_CORE_OK || code == BALLAST_CORE_OUT_OF_MEMORY)
        << size << ": " << ballast_core_message();
    ASSERT_EQ(model != nullptr, code == BALLAST_CORE_OK);
    if (model == nullptr) {
      ASSERT_LT(size, peak + kUnit);
      continue;
    }
    ASSERT_EQ(ballast_core_model_run(model, picture.data(), 64, scores.data(), 10), BALLAST_CORE_OK);
    ASSERT_EQ(scores, expected) << size;
  }
}

class CoreWriter : public ::testing::TestWithParam<const ballast_core_writer*> {};

TEST_P(CoreWriter, EveryBlockAndEveryCapacityWritesTheFileOrSaysWhatIsMissing) {
  const uint64_t shape[] = {2, 3};
  const std::array<float, 6> values = {1, 2, 3, 4, 5, 6};
  const ballast_core_entry entry = {"step", "17"};
  std::array<ballast_core_tensor, 3> tensors;
  const std::array<const char*, 3> names = {"layer.weight", "layer.bias", "a"};
  for (size_t i = 0; i < tensors.size(); ++i) {
    tensors[i] = {{names[i], std::strlen(names[i])}, "f32", shape, 2, sizeof values, values.data()};
  }
  const ballast_core_content content = {tensors.data(), tensors.size(), &entry, 1};
  const auto write = [&](size_t block_size, void* out, size_t capacity, uint64_t* size) {
    Block block(block_size);
    return ballast_core_write(GetParam(), block.data(), block.size(), &content, out, capacity, size);
  };
  uint64_t whole = 0, size = 0;
  ASSERT_EQ(write(kRoom, nullptr, 0, &whole), BALLAST_CORE_OK) << ballast_core_message();
  std::vector<unsigned char> expected(static_cast<size_t>(whole));
  ASSERT_EQ(write(kRoom, expected.data(), expected.size(), &size), BALLAST_CORE_OK) << ballast_core_message();
  for (size_t capacity = 0; capacity < whole; ++capacity) {
    std::vector<unsigned char> out(capacity + 1);  // never a null pointer, which asks for the size alone
    ASSERT_EQ(write(kRoom, out.data(), capacity, &size), BALLAST_CORE_INVALID_ARGUMENT) << capacity;
    ASSERT_EQ(size, whole);
  }
  size_t written = 0;
  for (size_t block_size = 0; written < 8; block_size += kUnit) {
    std::vector<unsigned char> out(static_cast<size_t>(whole));
    const ballast_core_code code = write(block_size, out.data(), out.size(), &size);
    ASSERT_TRUE(code == BALLAST_CORE_OK || code == BALLAST_CORE_OUT_OF_MEMORY) << ballast_core_message();
    ASSERT_LT(block_size, kRoom);
    if (code != BALLAST_CORE_OK) continue;
    ASSERT_EQ(out, expected) << block_size;
    ++written;
  }
}

INSTANTIATE_TEST_SUITE_P(Formats, CoreWriter,
                         ::testing::Values(&ballast_core_write_burnpack, &ballast_core_write_safetensors));

}  // namespace
}  // namespace ballast::testing
