// Compressed files that are far larger inside: memory follows neither what they claim nor what they hold.
#include <gtest/gtest.h>

#include <filesystem>

#include "ballast/archive/convert.h"
#include "ballast/archive/open.h"
#include "ballast/archive/verify.h"
#include "ballast/formats/container/deflate.h"
#include "ballast/formats/drivers.h"
#include "tests/support/memory_meter.h"
#include "tests/support/temp_folder.h"
#include "tests/support/test_files.h"

namespace ballast {
namespace {

using ::ballast::testing::make_info;
using ::ballast::testing::MemoryMeter;
using ::ballast::testing::TempFolder;

constexpr uint64_t kMiB = uint64_t{1} << 20;
constexpr uint64_t kInflated = 160 * kMiB;

std::string write_bomb(const TempFolder& folder) {
  WritePlan plan;
  plan.add_tensor(make_info("bomb", DType::kF32, {kInflated / 4}), [](ByteSink& sink) -> Status {
    const ByteVector zeros(kMiB);
    for (uint64_t at = 0; at < kInflated; at += kMiB) BALLAST_CHECK(sink.write(zeros));
    return {};
  });
  WriteSettings settings;
  settings.format.compress = true;
  settings.commit.sync = false;
  const std::string path = folder.path("bomb.npz");
  const auto written = write_archive(path, kNpzDriver, plan, settings);
  EXPECT_TRUE(written) << written.error().message;
  return path;
}

TEST(ZipBomb, IsVerifiedAndConvertedInBoundedMemory) {
  const TempFolder folder;
  const std::string path = write_bomb(folder);
  EXPECT_LT(std::filesystem::file_size(path), kMiB);
  for (const VerifyLevel level : {VerifyLevel::kStructure, VerifyLevel::kContent}) {
    const MemoryMeter meter;
    const auto report = verify_archive(path, {.level = level, .progress = {}});
    ASSERT_TRUE(report) << report.error().message;
    EXPECT_TRUE(report->sound());
    EXPECT_LT(meter.peak(), 16 * kMiB);
  }
  const auto archive = open_archive(path);
  ASSERT_TRUE(archive);
  const MemoryMeter meter;
  ConvertOptions options;
  options.write.commit.sync = false;
  const auto converted = convert_archive(*archive, folder.path("out.safetensors"), kSafetensorsDriver, options);
  ASSERT_TRUE(converted) << converted.error().message;
  EXPECT_LT(meter.peak(), 16 * kMiB);
  EXPECT_GT(std::filesystem::file_size(folder.path("out.safetensors")), kInflated);
}

// ---------------------------------------------------------------- column-major

constexpr uint64_t kRows = 9000, kColumns = 8000;
std::byte value_at(uint64_t row, uint64_t column) { return static_cast<std::byte>(row * 31 + column); }

// Compares what comes with the row-major tensor, and keeps nothing.
class ComparingSink final : public ByteSink {
 public:
  Status write(ByteSpan bytes) override {
    for (const std::byte byte : bytes) {
      differences_ += byte != value_at(position_ / kColumns, position_ % kColumns);
      ++position_;
    }
    return {};
  }
  Status patch(uint64_t, ByteSpan) override { return make_error(ErrorCode::kInvalidArgument, "not here"); }
  uint64_t position() const override { return position_; }
  uint64_t differences() const { return differences_; }

 private:
  uint64_t position_ = 0;
  uint64_t differences_ = 0;
};

TEST(ZipBomb, InColumnMajorOrderIsUnpackedPartByPart) {
  static_assert(kRows * kColumns > Archive::kStreamMemory);
  MemorySink memory;
  uint32_t crc = 0;
  {
    DeflateSink deflate(memory);
    ByteVector column(kRows);
    for (uint64_t c = 0; c < kColumns; ++c) {
      for (uint64_t r = 0; r < kRows; ++r) column[r] = value_at(r, c);
      crc = crc32_of(column, crc);
      ASSERT_TRUE(deflate.write(column));
    }
    ASSERT_TRUE(deflate.finish());
  }
  ByteVector stored = memory.take();
  Description description;
  description.tensors.push_back(make_info("t", DType::kU8, {kRows, kColumns}));
  const StoredExtent extent{
      .offset = 0, .length = stored.size(), .crc32 = crc, .deflated = true, .fortran_order = true};
  const Archive archive(description, {extent}, {MemorySource::owning(std::move(stored))});
  const MemoryMeter meter;
  ComparingSink sink;
  const Status streamed = archive.stream_deflated(0, sink);
  ASSERT_TRUE(streamed) << streamed.error().message;
  EXPECT_EQ(sink.position(), kRows * kColumns);
  EXPECT_EQ(sink.differences(), 0U);
  EXPECT_LT(meter.peak(), Archive::kStreamMemory + 4 * kMiB);
}

}  // namespace
}  // namespace ballast
