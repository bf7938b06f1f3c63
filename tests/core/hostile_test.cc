// Damaged images: an error or an archive all of which can be read, never more than the block, never a hang.
#include <gtest/gtest.h>

#include <random>

#include "tests/core/samples.h"

namespace ballast::testing {
namespace {

constexpr size_t kHostileRoom = size_t{256} << 10;

// Opens a copy of its own, so that a sanitizer sees every read outside the image.
void open_damaged(const ballast_core_format* format, const std::vector<unsigned char>& bytes, const std::string& what) {
  const ::testing::ScopedTrace trace(__FILE__, __LINE__, what);
  Block block(kHostileRoom);
  ballast_core* archive = nullptr;
  const ballast_core_code code = open_in(block, format, image_of(bytes), &archive);
  EXPECT_EQ(archive != nullptr, code == BALLAST_CORE_OK);
  EXPECT_NE(code, BALLAST_CORE_INTERNAL) << ballast_core_message();
  if (archive != nullptr) read_everything(archive);
  else EXPECT_STRNE(ballast_core_message(), "");
}

class CoreHostile : public ::testing::TestWithParam<Sample> {};

TEST_P(CoreHostile, SurvivesTruncation) {
  const auto bytes = read_file(GetParam().file);
  const size_t step = 1 + bytes.size() / 400;
  for (size_t size = 0; size < bytes.size(); size += step) {
    open_damaged(GetParam().format, {bytes.begin(), bytes.begin() + static_cast<ptrdiff_t>(size)},
                 "cut after " + std::to_string(size));
  }
}

TEST_P(CoreHostile, SurvivesDamage) {
  const auto bytes = read_file(GetParam().file);
  std::mt19937_64 random(1);
  const size_t ends = std::min<size_t>(bytes.size(), 2048);  // formats have their tables in front or at the end
  for (int round = 0; round < 400; ++round) {
    auto damaged = bytes;
    const size_t at = random() % ends;
    damaged[round % 2 == 0 ? at : bytes.size() - 1 - at] = static_cast<unsigned char>(random());
    if (round % 4 == 0) damaged[random() % damaged.size()] ^= static_cast<unsigned char>(1U << random() % 8);
    open_damaged(GetParam().format, damaged, "round " + std::to_string(round));
  }
}

struct Flash {
  std::vector<unsigned char> bytes;
  int reads_left;  // the next one fails at 0
};

int read_flash(void* user, uint64_t offset, void* out, size_t size) {
  auto& flash = *static_cast<Flash*>(user);
  EXPECT_TRUE(offset <= flash.bytes.size() && size <= flash.bytes.size() - offset) << offset << "+" << size;
  if (flash.reads_left-- == 0) return -1;
  std::memcpy(out, flash.bytes.data() + offset, size);
  return 0;
}

// Whichever read fails, opening says so.
TEST_P(CoreHostile, SaysThatAnImageCannotBeRead) {
  Flash flash{read_file(GetParam().file), 0};
  const ballast_core_image image = {
      .bytes = nullptr, .size = flash.bytes.size(), .read = read_flash, .user = &flash, .name = "serial flash"};
  ballast_core_code code = BALLAST_CORE_IO;
  int fails_at = 0;
  for (; code == BALLAST_CORE_IO; ++fails_at) {
    ASSERT_LT(fails_at, 10'000);
    flash.reads_left = fails_at;
    Block block(kHostileRoom);
    ballast_core* archive = nullptr;
    code = open_in(block, GetParam().format, image, &archive);
    if (code == BALLAST_CORE_IO) {
      EXPECT_NE(std::strstr(ballast_core_message(), "serial flash"), nullptr) << ballast_core_message();
    }
    if (archive == nullptr) continue;
    flash.reads_left = -1;
    EXPECT_EQ(read_everything(archive), ballast_core_count(archive));
  }
  EXPECT_EQ(code, BALLAST_CORE_OK) << ballast_core_message();
  EXPECT_GT(fails_at, 1);
}

INSTANTIATE_TEST_SUITE_P(Formats, CoreHostile, ::testing::ValuesIn(kSamples), name_of);

// What the layers say of themselves is damaged, and what opens all the same runs within its memory.
TEST(CoreHostile, SurvivesDamagedLayers) {
  const auto bytes = read_file("models/digits/digits.bpk");
  const uint64_t shape[] = {1, 8, 8};
  const std::string_view text(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  const size_t begin = text.find("\"Sequential\"");
  ASSERT_NE(begin, std::string_view::npos);
  std::mt19937_64 random(2);
  int runs = 0, refused = 0;
  for (int round = 0; round < 600; ++round) {
    auto damaged = bytes;
    const size_t at = begin + random() % 700;
    damaged[at] = static_cast<unsigned char>(round % 3 == 0 ? "0123456789"[random() % 10] : random() % 128);
    Block block(kHostileRoom);
    ballast_core* archive = nullptr;
    ballast_core_model* model = nullptr;
    if (open_in(block, &ballast_core_burnpack, image_of(damaged), &archive) != BALLAST_CORE_OK) continue;
    const ballast_core_code code = ballast_core_model_open(&model, archive, shape, 3);
    EXPECT_NE(code, BALLAST_CORE_INTERNAL) << ballast_core_message();
    EXPECT_EQ(model != nullptr, code == BALLAST_CORE_OK);
    ++(model != nullptr ? runs : refused);
    if (model == nullptr) continue;
    const std::vector<float> input(ballast_core_model_inputs(model), 0.5F);
    std::vector<float> output(ballast_core_model_outputs(model));
    EXPECT_EQ(ballast_core_model_run(model, input.data(), input.size(), output.data(), output.size()), BALLAST_CORE_OK);
  }
  EXPECT_GT(runs, 0);
  EXPECT_GT(refused, 100);
}

}  // namespace
}  // namespace ballast::testing
