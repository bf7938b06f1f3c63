#include "ballast/params/param_source.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <numeric>

#include "ballast/archive/open.h"
#include "ballast/archive/write.h"
#include "ballast/params/narrow_params.h"
#include "ballast/params/param_store.h"
#include "ballast/params/trained_params.h"
#include "tests/support/memory_archive.h"
#include "tests/support/temp_folder.h"
#include "tests/support/test_files.h"

namespace ballast {
namespace {

using testing::counting_bytes;
using ::testing::HasSubstr;
using testing::make_info;
using testing::MemoryArchive;
using testing::TempFolder;

std::shared_ptr<const ParamSource> source_of(const Archive& archive) {
  return make_param_source(std::make_shared<Archive>(archive));
}

std::vector<float> read_floats(const ParamSource& source, size_t index, uint64_t first, size_t count) {
  std::vector<float> values(count);
  EXPECT_TRUE(source.read(index, first * 4, std::as_writable_bytes(std::span(values))));
  return values;
}

TEST(ParamSource, GivesViewsOfWhatIsMappedAndCanonical) {
  MemoryArchive archive;
  archive.add<float>("a", DType::kF32, {2, 2}, {1, 2, 3, 4});
  archive.add<float>("swapped", DType::kF32, {2, 2}, {5, 6, 7, 8}).make_big_endian();
  const auto mapped = source_of(archive.build());
  ASSERT_TRUE(mapped->view(0));
  EXPECT_EQ(mapped->view(0)->size(), 16U);
  EXPECT_FALSE(mapped->view(1));
  EXPECT_FALSE(source_of(archive.build_unviewable())->view(0));
  EXPECT_EQ(mapped->find("swapped"), 1U);
  EXPECT_EQ(mapped->find("b"), std::nullopt);
}

// Whatever holds the parameters: by name and by id is the same.
void expect_finds_by_id(const ParamSource& source) {
  for (size_t i = 0; i < source.params().size(); ++i) {
    EXPECT_EQ(source.find(base_param_id(source.params()[i].name)), i) << source.params()[i].name;
  }
  EXPECT_EQ(source.find(base_param_id("absent")), std::nullopt);
  EXPECT_EQ(source.find(BaseParamId{}), std::nullopt);
}

TEST(ParamSource, FindsParametersByTheirIds) {
  MemoryArchive archive;
  archive.add<double>("wide", DType::kF64, {2}, {1, 2});
  archive.add<float>("a", DType::kF32, {2}, {3, 4});
  const auto source = source_of(archive.build());
  expect_finds_by_id(*source);
  expect_finds_by_id(*narrow_f64_params(source));

  std::vector<MemoryParam> memory(2);
  memory[0].info.name = "second";
  memory[1].info.name = "first";
  expect_finds_by_id(*make_param_source(std::move(memory)));

  TrainedParams trained;
  ASSERT_TRUE(trained.add(make_info("b", DType::kF32, {2})));
  expect_finds_by_id(trained);
  ASSERT_TRUE(trained.add(make_info("a", DType::kF32, {2})));
  expect_finds_by_id(trained);
}

TEST(ParamSource, ReadsPartsInCanonicalForm) {
  MemoryArchive archive;
  archive.add<float>("a", DType::kF32, {2, 2}, {1, 2, 3, 4});
  archive.add<float>("swapped", DType::kF32, {2, 2}, {5, 6, 7, 8}).make_big_endian();
  for (const auto& source : {source_of(archive.build()), source_of(archive.build_unviewable())}) {
    EXPECT_EQ(read_floats(*source, 0, 2, 2), (std::vector<float>{3, 4}));
    EXPECT_TRUE(source->reads_parts(1));
    EXPECT_EQ(read_floats(*source, 1, 1, 2), (std::vector<float>{6, 7}));
    // Not even whole elements.
    ByteVector byte(1);
    ASSERT_TRUE(source->read(1, 3, byte));
    EXPECT_EQ(byte[0], std::byte{0x40});  // the sign and exponent of 5.0
  }
}

TEST(ParamSource, RefusesBytesThatATensorDoesNotHave) {
  MemoryArchive archive;
  archive.add<float>("a", DType::kF32, {2}, {1, 2});
  ByteVector out(8);
  const auto source = source_of(archive.build());
  const Status status = source->read(0, 4, out);
  ASSERT_FALSE(status);
  EXPECT_EQ(status.error().code, ErrorCode::kInvalidArgument);
  EXPECT_THAT(status.error().message, HasSubstr("\"a\""));
  EXPECT_FALSE(source->read(0, ~uint64_t{0}, out));
}

TEST(ParamSource, MemoryHasTheSizesOfItsPayloads) {
  std::vector<MemoryParam> params;
  params.push_back({make_info("z", DType::kU8, {4}), counting_bytes(4)});
  params.push_back({make_info("a", DType::kU8, {3}), counting_bytes(3, 9)});
  const auto source = make_param_source(std::move(params), "made");
  EXPECT_EQ(source->name(), "made");
  EXPECT_EQ(source->find("a"), 1U);
  EXPECT_EQ(source->find("z"), 0U);
  EXPECT_EQ(source->find("m"), std::nullopt);
  EXPECT_EQ(source->params()[0].byte_size, 4U);
  ByteVector out(2);
  ASSERT_TRUE(source->read(1, 1, out));
  EXPECT_EQ(out, counting_bytes(2, 10));
  EXPECT_FALSE(source->read(1, 2, out));
}

// Two tensors of 64 KiB, "early" before "late".
std::string write_file(const TempFolder& folder) {
  const std::string path = folder.path("model.safetensors");
  std::vector<float> values(16384);
  std::iota(values.begin(), values.end(), 0.0F);
  WritePlan plan;
  for (const char* name : {"early", "late"}) {
    plan.add_tensor(make_info(name, DType::kF32, {128, 128}), std::as_bytes(std::span(values)));
  }
  const auto written = write_archive(path, *find_format("safetensors"), plan);
  EXPECT_TRUE(written) << written.error().message;
  return path;
}

std::unique_ptr<ParamStore> open_file_store(const std::string& path, FileAccess access,
                                            const ResidencyOptions& options) {
  auto archive = open_archive(path, {.access = access});
  EXPECT_TRUE(archive);
  auto store = ParamStore::open(make_param_source(std::make_shared<Archive>(std::move(*archive))), options);
  EXPECT_TRUE(store);
  return std::move(*store);
}

TEST(ParamSource, AFileCutShortAfterOpeningIsAnErrorThatNamesTheTensor) {
  for (const bool with_budget : {true, false}) {
    for (const FileAccess access : {FileAccess::kPositional, FileAccess::kMapped}) {
      const TempFolder folder;
      const std::string path = write_file(folder);
      ResidencyOptions options{.read_ahead = false};
      if (with_budget) options.budget = 64 << 10;
      const auto store = open_file_store(path, access, options);
      std::filesystem::resize_file(path, std::filesystem::file_size(path) - 50000);
      const Param late = *store->get("late");
      const auto lease = store->rows(late, 127);
      ASSERT_FALSE(lease);
      EXPECT_EQ(lease.error().code, ErrorCode::kIo);
      EXPECT_THAT(lease.error().message, HasSubstr("\"late\""));
      EXPECT_THAT(lease.error().message, HasSubstr("truncated"));
      // The rest of the model is still there.
      const auto early = store->rows(*store->get("early"));
      ASSERT_TRUE(early);
      float second = 0;
      std::memcpy(&second, early->bytes().data() + 4, 4);
      EXPECT_EQ(second, 1);
    }
  }
}

TEST(ParamSource, AFileReplacedByAnotherIsNotNoticed) {
  const TempFolder folder;
  const std::string path = write_file(folder);
  const auto store = open_file_store(path, FileAccess::kPositional, {.budget = 64 << 10});
  std::filesystem::rename(folder.write("other", "something else"), path);
  EXPECT_TRUE(store->rows(*store->get("late"), 0));
}

}  // namespace
}  // namespace ballast
