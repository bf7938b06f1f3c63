// What needs no file: archives from bytes that the caller has, and bytes instead of a file.
#include <gtest/gtest.h>

#include <algorithm>

#include "ballast/archive/digest.h"
#include "ballast/archive/open.h"
#include "ballast/archive/write.h"
#include "ballast/formats/drivers.h"
#include "tests/support/burnpack_files.h"
#include "tests/support/format_testing.h"
#include "tests/support/temp_folder.h"
#include "tests/support/test_files.h"

namespace ballast::testing {
namespace {

bool lies_in(ByteSpan part, ByteSpan whole) {
  return part.data() >= whole.data() && part.data() + part.size() <= whole.data() + whole.size();
}

WritePlan small_plan(const ByteVector& payload) {
  WritePlan plan;
  plan.add_tensor(make_info("w", DType::kF32, {payload.size() / 4}), payload);
  return plan;
}

TEST(BytesInMemory, BorrowedBytesAreViewedWhereTheyLie) {
  const ByteVector payload = counting_bytes(64);
  for (const FormatDriver* format : {&kBurnpackDriver, &kSafetensorsDriver, &kGgufDriver, &kGptrsTensorsDriver}) {
    const auto file = write_archive_bytes(*format, small_plan(payload));
    ASSERT_TRUE(file) << file.error().message;
    const auto archive = open_archive_borrowed(*file);
    ASSERT_TRUE(archive) << archive.error().message;
    const auto read = archive->payload(0);
    ASSERT_TRUE(read) << read.error().message;
    EXPECT_TRUE(read->is_view()) << format->name;
    EXPECT_TRUE(lies_in(read->bytes(), *file)) << format->name;
    EXPECT_TRUE(std::ranges::equal(read->bytes(), payload)) << format->name;
  }
}

TEST(BytesInMemory, WhatIsWrittenToBytesIsTheFileAndOpensFromBytes) {
  const TempFolder folder;
  const ByteVector payload = counting_bytes(64);
  for (const FormatDriver* format : {&kBurnpackDriver, &kSafetensorsDriver, &kGgufDriver, &kGptrsTensorsDriver}) {
    const WritePlan plan = small_plan(payload);
    auto bytes = write_archive_bytes(*format, plan);
    ASSERT_TRUE(bytes) << bytes.error().message;
    const std::string path = folder.path(std::string(format->name));
    const auto written = write_archive(path, *format, plan);
    ASSERT_TRUE(written) << written.error().message;
    EXPECT_EQ(to_byte_vector(read_text_file(path)), *bytes) << format->name;
    const auto archive = open_archive_bytes(*std::move(bytes));
    ASSERT_TRUE(archive) << archive.error().message;
    EXPECT_EQ(archive->description().format, format->name);
    const auto read = archive->payload(0);
    ASSERT_TRUE(read) << read.error().message;
    EXPECT_TRUE(std::ranges::equal(read->bytes(), payload)) << format->name;
  }
}

TEST(BurnpackPayload, OfAMappedFileIsAViewIntoTheMapping) {
  for (const std::string& name : burnpack_fixtures()) {
    const auto archive = open_archive(test_file_path("burnpack/" + name));
    ASSERT_TRUE(archive) << archive.error().message;
    ASSERT_EQ(archive->sources().size(), 1U);
    const ByteSource& source = *archive->sources()[0];
    const auto mapping = source.view(0, source.size());
    ASSERT_TRUE(mapping) << name;
    for (size_t i = 0; i < archive->tensors().size(); ++i) {
      const auto payload = archive->payload(i);
      ASSERT_TRUE(payload) << payload.error().message;
      EXPECT_TRUE(payload->is_view() && lies_in(payload->bytes(), *mapping))
          << name << " " << archive->tensors()[i].name;
    }
  }
}

// Writes down how far into the file anybody has read.
class WatchedSource final : public ByteSource {
 public:
  explicit WatchedSource(ByteVector bytes) : inner_(std::move(bytes)) {}
  uint64_t size() const override { return inner_.size(); }
  Status read_at(uint64_t offset, MutableByteSpan out) const override {
    farthest = std::max(farthest, offset + out.size());
    return inner_.read_at(offset, out);
  }
  std::optional<ByteSpan> view(uint64_t, uint64_t) const override { return std::nullopt; }
  const std::string& name() const override { return inner_.name(); }

  mutable uint64_t farthest = 0;

 private:
  ReadingSource inner_;
};

TEST(BurnpackPayload, IsNotReadByOpening) {
  const ByteVector payload = counting_bytes(1 << 20);
  const auto file = write_archive_bytes(kBurnpackDriver, small_plan(payload));
  ASSERT_TRUE(file) << file.error().message;
  const auto source = std::make_shared<WatchedSource>(*file);
  OpenRequest request;
  request.source = source;
  Findings findings = Findings::stop_at_first_error();
  const auto archive = kBurnpackDriver.open(request, findings);
  ASSERT_TRUE(archive) << archive.error().message;
  EXPECT_LE(source->farthest, archive->extent(0).offset);
  ASSERT_TRUE(archive->payload(0));
  EXPECT_EQ(source->farthest, archive->extent(0).offset + payload.size());
}

}  // namespace
}  // namespace ballast::testing
