#include <gtest/gtest.h>

#include <ctime>

#include "tests/support/burnpack_files.h"
#include "tests/support/emulation.h"
#include "tests/support/format_testing.h"
#include "tests/support/memory_meter.h"

namespace ballast {
namespace {

using namespace ballast::testing;

WriteOptions for_target(std::string target) {
  WriteOptions options;
  options.target = std::move(target);
  return options;
}

Result<ByteVector> write(const Description& description, const WriteOptions& options = {}) {
  BlankFeed feed(description);
  return encode(kBurnpackDriver, description, feed, options);
}

// Written and read again.
Description rewritten(const Description& description, const WriteOptions& options = {}) {
  const auto file = write(description, options);
  EXPECT_TRUE(file) << file.error().message;
  auto archive = open_bytes(kBurnpackDriver, *file);
  EXPECT_TRUE(archive) << archive.error().message;
  return archive->description();
}

std::vector<std::string> lost_tensors(const Description& description, const std::string& target) {
  std::vector<std::string> names;
  for (const Loss& loss : kBurnpackDriver.find_losses(description, for_target(target))) names.push_back(loss.tensor);
  return names;
}

TEST(BurnpackWrite, KeepsTheGivenOrderOnDisk) {
  Description description;
  for (const char* name : {"c", "a", "b"}) description.tensors.push_back(plain_tensor(name, DType::kF32, {3}));
  for (const bool keep_order : {false, true}) {
    WriteOptions options;
    options.keep_order = keep_order;
    const Description again = rewritten(description, options);
    EXPECT_EQ(again.tensors[0].name, "c");
    EXPECT_EQ(again.tensors[1].name, "a");
    EXPECT_EQ(again.tensors[2].name, "b");
  }
}

TEST(BurnpackWrite, PadsUpToAnEmptyTensorAtTheEnd) {
  Description description;
  description.tensors = {plain_tensor("a", DType::kU8, {3}), plain_tensor("b", DType::kU8, {0})};
  const auto file = write(description);
  ASSERT_TRUE(file);
  EXPECT_EQ(file->size(), 256U + 256U);
}

TEST(BurnpackWrite, CarriesTheOriginAmongTheMetadata) {
  Description description;
  description.metadata = {{"z", "last"}, {"a", "first"}};
  description.origin = "{\"format\":\"npz\"}";
  const Description again = rewritten(description);
  EXPECT_EQ(again.origin, description.origin);
  const std::vector<MetaEntry> expected = {{"a", "first"}, {"z", "last"}};
  EXPECT_EQ(again.metadata, expected) << "and not as one of them";
  const auto file = write(description);
  EXPECT_EQ(verify_bytes(kBurnpackDriver, *file).findings.items().size(), 0U) << "sorted with the others";
}

TEST(BurnpackWrite, KeepsEveryTypeOfMetadata) {
  Description description;
  description.metadata = {{"key", "text"},     {"double", std::bit_cast<double>(uint64_t{0x7ff8000000000123})},
                          {"false", false},    {"int", INT64_MIN},
                          {"key", int64_t{5}}, {"negative zero", -0.0},
                          {"uint", UINT64_MAX}};
  EXPECT_EQ(rewritten(description).metadata, description.metadata);
  EXPECT_EQ(rewritten(description, for_target("burn-0.20")).metadata, description.metadata)
      << "Burn 0.20 passes over scalars, so they may stay";
}

TEST(BurnpackWrite, NamesRepeatedMetadataAsALoss) {
  Description description;
  description.metadata = {{"a", "1"}, {"a", "2"}, {"a", uint64_t{3}}};
  const auto losses = kBurnpackDriver.find_losses(description, {});
  ASSERT_EQ(losses.size(), 1U);
  EXPECT_TRUE(losses[0].drop);
  const std::vector<MetaEntry> expected = {{"a", "2"}, {"a", uint64_t{3}}};
  EXPECT_EQ(rewritten(description).metadata, expected);
}

TEST(BurnpackWrite, NamesTheTypesThatBurnLacks) {
  Description description;
  for (const DTypeInfo& type : all_dtypes()) {
    if (type.bits % 8 != 0 || type.bits == 0) continue;
    description.tensors.push_back(plain_tensor(std::string(type.name), type.dtype, {2}));
  }
  const auto losses = kBurnpackDriver.find_losses(description, {});
  std::vector<std::string> names;
  for (const Loss& loss : losses) names.push_back(loss.tensor);
  const std::vector<std::string> expected = {"c64",         "c128",        "f8_e4m3", "f8_e5m2", "f8_e8m0",
                                             "f8_e4m3fnuz", "f8_e5m2fnuz", "f128",    "c256"};
  EXPECT_EQ(names, expected);
  EXPECT_EQ(losses[2].cast_to, DType::kF32);
  EXPECT_FALSE(write(description)) << "what cannot be said is not written";
}

TEST(BurnpackWrite, SpellsTruthValuesForEachBurn) {
  Description description;
  description.tensors = {plain_tensor("b", DType::kBool, {2}), plain_tensor("w", DType::kBool32, {2})};
  EXPECT_EQ(lost_tensors(description, "burn-0.20"), std::vector<std::string>{"w"});
  EXPECT_EQ(kBurnpackDriver.find_losses(description, for_target("burn-0.20"))[0].cast_to, DType::kBool);
  for (const char* target : {"burn-0.21", "burn-0.22", "burn-0.23", ""}) {
    EXPECT_TRUE(lost_tensors(description, target).empty());
    EXPECT_EQ(rewritten(description, for_target(target)).tensors[0].stored_form(), "");
  }
  description.tensors.pop_back();
  EXPECT_EQ(rewritten(description, for_target("burn-0.20")).tensors[0].stored_form(), "bool=text");
}

TEST(BurnpackWrite, SpellsSchemesForEachBurn) {
  Description description;
  description.tensors = {
      quantised_tensor("block", "q8s:native:symmetric:block=32/f16", {4, 32}, 136),
      quantised_tensor("lookup", "q4f:packed_u32=0:lookup:block=16/f16", {4, 32}, 80),
      quantised_tensor("two", "q4s:packed_u32=0:symmetric:block=16/f16:tensor=f32", {4, 32}, 84),
  };
  const std::vector<std::string> lost = {"lookup", "two"};
  EXPECT_EQ(lost_tensors(description, "burn-0.20"), lost);
  EXPECT_EQ(lost_tensors(description, "burn-0.21"), lost);
  EXPECT_TRUE(lost_tensors(description, "burn-0.22").empty());
  EXPECT_TRUE(same_content_description(rewritten(description, for_target("burn-0.22")), description));
  description.tensors.resize(1);
  const Description old = rewritten(description, for_target("burn-0.21"));
  EXPECT_EQ(old.tensors[0].stored_form(), "qfloat=0.20");
  EXPECT_TRUE(same_content_description(old, description));
}

TEST(BurnpackWrite, RefusesSchemesThatMakeNoSense) {
  Description description;
  description.tensors = {quantised_tensor("q", "made up", {4}, 8)};
  EXPECT_EQ(lost_tensors(description, ""), std::vector<std::string>{"q"});
  EXPECT_FALSE(write(description));
}

TEST(BurnpackWrite, KeepsStoredFormsOfItsOwnFilesOnlyAndOnlyWhenAsked) {
  Description description;
  description.format = "burnpack";
  description.stored_form = "layout=unaligned";
  description.tensors = {plain_tensor("a", DType::kBool, {3}), plain_tensor("b", DType::kBool, {3}),
                         quantised_tensor("q", "q8s:native:symmetric:tensor=f32", {4}, 8)};
  description.tensors[0].set_stored_form("bool=text");
  description.tensors[1].set_stored_form("bool=u8");
  description.tensors[2].set_stored_form("qfloat=0.20");
  const auto forms = [](const Description& from) {
    std::vector<std::string> all = {from.stored_form};
    for (const TensorInfo& tensor : from.tensors) all.push_back(tensor.stored_form());
    return all;
  };
  using Forms = std::vector<std::string>;
  EXPECT_EQ(forms(rewritten(description)), forms(description));
  EXPECT_EQ(forms(rewritten(description, for_target("burn-0.23"))), (Forms{"", "", "bool=u8", ""}));
  EXPECT_EQ(forms(rewritten(description, for_target("burn-0.20"))),
            (Forms{"", "bool=text", "bool=text", "qfloat=0.20"}));
  WriteOptions plain;
  plain.keep_form = false;
  EXPECT_EQ(forms(rewritten(description, plain)), (Forms{"", "", "", ""}));
  description.format = "npz";
  EXPECT_EQ(forms(rewritten(description)), (Forms{"", "", "", ""}));
}

TEST(BurnpackWrite, IgnoresFormsThatDoNotFit) {
  Description description;
  description.format = "burnpack";
  description.stored_form = "layout=sideways";
  description.tensors = {plain_tensor("a", DType::kBool32, {3}),
                         quantised_tensor("q", "q4s:native:symmetric:block=4/f16:tensor=f32", {4}, 10),
                         quantised_tensor("r", "q4s:native:symmetric:tensor=f16", {4}, 6)};
  description.tensors[0].set_stored_form("bool=text");
  description.tensors[1].set_stored_form("qfloat=0.20");
  description.tensors[2].set_stored_form("qfloat=implied");
  const Description again = rewritten(description);
  EXPECT_TRUE(same_content_description(again, description));
  for (const TensorInfo& tensor : again.tensors) EXPECT_EQ(tensor.stored_form(), "");
}

TEST(BurnpackWrite, RefusesWhatBurnCouldNotRead) {
  Description description;
  description.tensors = {plain_tensor("\xff", DType::kU8, {1})};
  EXPECT_FALSE(write(description)) << "a name that is not UTF-8";
  description.tensors = {plain_tensor("a", DType::kU8, Shape(std::vector<uint64_t>(65, 1)))};
  EXPECT_FALSE(write(description)) << "rank 65";
  description.tensors = {plain_tensor("a", DType::kF32, {2})};
  description.tensors[0].byte_size = 7;
  EXPECT_FALSE(write(description)) << "a size that does not fit";
  description.tensors = {plain_tensor("a", DType::kU8, {UINT64_MAX}), plain_tensor("b", DType::kU8, {1})};
  EXPECT_FALSE(kBurnpackDriver.plan_write({description, {}, ""})) << "more than 2^64 bytes";
  description.tensors.clear();
  description.metadata = {{"a", "\xff"}};
  EXPECT_TRUE(write(description)) << "what CBOR has no word for is left to the origin";
  description.metadata = {{"a", std::string((100 << 20) + 1, 'x')}};
  EXPECT_FALSE(write(description)) << "metadata over 100 MiB";
  description.metadata.clear();
  description.tensors.assign(100'001, plain_tensor("a", DType::kU8, {0}));
  EXPECT_FALSE(write(description)) << "over 100,000 tensors";
}

TEST(BurnpackWrite, PlansAndOpensAHundredThousandTensorsQuickly) {
  Description description;
  for (uint64_t i = 0; i < 100'000; ++i) {
    // Names out of order on disk, every tensor an id of its own.
    const std::string name = "layer." + std::to_string(i * 7919 % 100'000) + ".weight";
    description.tensors.push_back(plain_tensor(name, DType::kU8, {1}, i << 40));
  }
  const std::clock_t start = std::clock();  // processor time: other programs do not count
  const auto file = write(description);
  ASSERT_TRUE(file) << file.error().message;
  const MemoryMeter meter;
  OpenRequest request;
  request.source = MemorySource::borrowing(*file);
  Findings findings = Findings::stop_at_first_error();
  const auto archive = kBurnpackDriver.open(request, findings);
  ASSERT_TRUE(archive) << archive.error().message;
  EXPECT_LT(meter.peak(), 4 * file->size() + (16 << 20));
  if (!is_emulated()) {
    EXPECT_LT(std::clock() - start, 2 * CLOCKS_PER_SEC);
  }
  EXPECT_TRUE(same_content_description(archive->description(), description));
}

}  // namespace
}  // namespace ballast
