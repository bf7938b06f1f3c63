#include "ballast/formats/safetensors/safetensors.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "ballast/formats/drivers.h"
#include "tests/support/format_testing.h"
#include "tests/support/memory_meter.h"
#include "tests/support/memory_plan.h"
#include "tests/support/mutation.h"
#include "tests/support/test_files.h"

namespace ballast::testing {
namespace {

std::string file_with(std::string_view header, size_t payload_bytes) {
  std::string out;
  append_le<uint64_t>(out, header.size());
  out += header;
  out.append(payload_bytes, 'x');
  return out;
}

Result<Archive> open_safetensors(std::string_view file) {
  Findings findings = Findings::stop_at_first_error();
  return kSafetensorsDriver.open({MemorySource::borrowing(as_bytes(file), "test"), "test", "", nullptr}, findings);
}

std::string open_error(std::string_view file) {
  const auto archive = open_safetensors(file);
  return archive ? "opened" : archive.error().message;
}

std::vector<std::string> codes_found(std::string_view file) {
  Findings findings = Findings::collect_all();
  const auto archive =
      kSafetensorsDriver.open({MemorySource::borrowing(as_bytes(file), "test"), "test", "", nullptr}, findings);
  std::vector<std::string> codes;
  for (const Finding& finding : findings.items()) codes.push_back(finding.code);
  return codes;
}

MemoryPlan sample_plan() {
  static const ByteVector bytes = counting_bytes(64);
  MemoryPlan plan;
  plan.add_tensor(make_info("b", DType::kF32, {2, 2}), ByteSpan(bytes).first(16));
  plan.add_tensor(make_info("a", DType::kF32, {1}), ByteSpan(bytes).first(4));
  plan.add_tensor(make_info("flags", DType::kBool, {3}), ByteSpan(bytes).first(3));
  plan.add_tensor(make_info("n", DType::kI64, {}), ByteSpan(bytes).first(8));
  plan.add_tensor(make_info("none", DType::kF16, {0, 4}), ByteSpan());
  plan.description.metadata = {{"format", std::string("pt")}};
  return plan;
}

TEST(Safetensors, WritesExactlyWhatTheReferenceWriterWrites) {
  const auto bytes = sample_plan().write(kSafetensorsDriver);
  ASSERT_TRUE(bytes);
  const std::string_view text = as_text(*bytes);
  const std::string expected =
      R"({"__metadata__":{"format":"pt"},"n":{"dtype":"I64","shape":[],"data_offsets":[0,8]},)"
      R"("a":{"dtype":"F32","shape":[1],"data_offsets":[8,12]},"b":{"dtype":"F32","shape":[2,2],"data_offsets":[12,28]},)"
      R"("none":{"dtype":"F16","shape":[0,4],"data_offsets":[28,28]},)"
      R"("flags":{"dtype":"BOOL","shape":[3],"data_offsets":[28,31]}})";
  EXPECT_EQ(text.substr(8, expected.size()), expected);
  const auto header_length = load_le<uint64_t>(bytes->data());
  EXPECT_EQ(header_length % 8, 0U);
  EXPECT_EQ(bytes->size(), 8 + header_length + 31);
}

TEST(Safetensors, ReadsBackWhatItWroteAndReencodesItByteForByte) {
  const auto bytes = sample_plan().write(kSafetensorsDriver);
  ASSERT_TRUE(bytes);
  const Archive archive = open_or_die(kSafetensorsDriver, *bytes);
  ASSERT_EQ(archive.tensors().size(), 5U);
  EXPECT_EQ(archive.description().metadata, (std::vector<MetaEntry>{{"format", std::string("pt")}}));
  const auto index = archive.find("b");
  ASSERT_TRUE(index);
  EXPECT_EQ(archive.tensors()[*index].shape, (Shape{2, 2}));
  const auto payload = archive.payload(*index);
  ASSERT_TRUE(payload);
  EXPECT_TRUE(payload->is_view());
  EXPECT_EQ(to_hex(payload->bytes()), "0102030405060708090a0b0c0d0e0f10");
  EXPECT_FALSE(archive.find("c"));
  EXPECT_EQ(*encode_again(kSafetensorsDriver, archive), *bytes);
}

TEST(Safetensors, ReencodesFilesOfTheReferenceImplementationByteForByte) {
  for (const char* name : {"safetensors/reference.safetensors", "safetensors/dtypes.safetensors"}) {
    const ByteVector bytes = read_test_data(name);
    const Archive archive = open_or_die(kSafetensorsDriver, bytes);
    const auto again = encode_again(kSafetensorsDriver, archive);
    ASSERT_TRUE(again) << again.error().message;
    EXPECT_TRUE(*again == bytes) << name;
  }
}

TEST(Safetensors, KeepsAnEmptyMetadataObject) {
  const std::string file = file_with(R"({"__metadata__":{}}     )", 0);
  const auto archive = open_safetensors(file);
  ASSERT_TRUE(archive);
  const auto again = encode_again(kSafetensorsDriver, *archive);
  ASSERT_TRUE(again);
  EXPECT_EQ(as_text(*again), file);
}

TEST(Safetensors, EveryTypeOfTheFormatHasItsNameAndSize) {
  size_t known = 0;
  for (const DTypeInfo& row : all_dtypes()) {
    MemoryPlan plan;
    const ByteVector bytes = counting_bytes(8 * 16);
    const TensorInfo info = make_info("t", row.dtype, {8});
    plan.add_tensor(info, ByteSpan(bytes).first(static_cast<size_t>(info.byte_size)));
    const auto written = plan.write(kSafetensorsDriver);
    if (!written) {
      EXPECT_EQ(written.error().code, ErrorCode::kLossy) << row.name;
      continue;
    }
    ++known;
    const Archive archive = open_or_die(kSafetensorsDriver, *written);
    EXPECT_EQ(archive.tensors()[0].dtype, row.dtype);
    EXPECT_EQ(archive.tensors()[0].byte_size, 8U * row.bits / 8);
  }
  EXPECT_EQ(known, 22U);
}

TEST(Safetensors, NamesTheTypeThatWouldStandIn) {
  Description description;
  description.tensors = {make_info("z", DType::kC128, {2}), make_info("q", DType::kOpaque, {2})};
  const auto losses = kSafetensorsDriver.find_losses(description, {});
  ASSERT_EQ(losses.size(), 2U);
  EXPECT_EQ(losses[0].cast_to, DType::kC64);
  EXPECT_EQ(losses[1].cast_to, DType::kU8);
}

TEST(Safetensors, OriginTravelsInTheMetadataButIsNotPartOfIt) {
  MemoryPlan plan = sample_plan();
  plan.description.origin = "{\"x\":\"y\"}";
  const auto bytes = plan.write(kSafetensorsDriver);
  ASSERT_TRUE(bytes);
  const Archive archive = open_or_die(kSafetensorsDriver, *bytes);
  EXPECT_EQ(archive.description().origin, plan.description.origin);
  EXPECT_EQ(archive.description().metadata.size(), 1U);
}

TEST(Safetensors, RefusesHostileHeaders) {
  const auto entry = [](std::string_view fields) { return fmt::format("{{\"a\":{{{}}}}}", fields); };
  const std::string good = R"("dtype":"U8","shape":[4],"data_offsets":[0,4])";
  ASSERT_EQ(open_error(file_with(entry(good), 4)), "opened");
  const std::vector<std::string> bad = {
      file_with("", 0),
      file_with("[]", 0),
      file_with("{}", 1),
      file_with("\xEF\xBB\xBF{}", 0),
      file_with(entry(good), 3),
      file_with(entry(good), 5),
      file_with(entry(good) + "x", 4),
      file_with(entry(R"("dtype":"U8","shape":[4])"), 4),
      file_with(entry(good + R"(,"extra":1)"), 4),
      file_with(entry(good + R"(,"dtype":"U8")"), 4),
      file_with(entry(R"("dtype":"u8","shape":[4],"data_offsets":[0,4])"), 4),
      file_with(entry(R"("dtype":"U8","shape":[4.0],"data_offsets":[0,4])"), 4),
      file_with(entry(R"("dtype":"U8","shape":[-4],"data_offsets":[0,4])"), 4),
      file_with(entry(R"("dtype":"U8","shape":["4"],"data_offsets":[0,4])"), 4),
      file_with(entry(R"("dtype":"U8","shape":[4e0],"data_offsets":[0,4])"), 4),
      file_with(entry(R"("dtype":"U8","shape":[18446744073709551616],"data_offsets":[0,4])"), 4),
      file_with(entry(R"("dtype":"U8","shape":[4294967296,4294967296],"data_offsets":[0,0])"), 0),
      file_with(entry(R"("dtype":"U8","shape":[4294967296,4294967296,0],"data_offsets":[0,0])"), 0),
      file_with(entry(R"("dtype":"U8","shape":[4],"data_offsets":[4,0])"), 4),
      file_with(entry(R"("dtype":"U8","shape":[4],"data_offsets":[0,4,8])"), 4),
      file_with(entry(R"("dtype":"U8","shape":[4],"data_offsets":[0])"), 4),
      file_with(entry(R"("dtype":"U8","shape":[4],"data_offsets":[1,5])"), 5),
      file_with(entry(R"("dtype":"F4","shape":[3],"data_offsets":[0,2])"), 2),
      file_with(
          R"({"a":{"dtype":"U8","shape":[4],"data_offsets":[0,4]},"b":{"dtype":"U8","shape":[4],"data_offsets":[2,6]}})",
          6),
      file_with(
          R"({"a":{"dtype":"U8","shape":[1],"data_offsets":[0,1]},"a":{"dtype":"U8","shape":[1],"data_offsets":[1,2]}})",
          2),
      file_with(R"({"__metadata__":{"k":1}})", 0),
      file_with(R"({"__metadata__":{"k":"1","k":"2"}})", 0),
      file_with(R"({"__metadata__":{},"__metadata__":{}})", 0),
      file_with("{\"a\xFF\":{}}", 0),
      file_with(R"({"\ud800":{}})", 0),
      file_with(std::string(100'000, '['), 0),
      file_with("{\"a\":" + std::string(100'000, '{'), 0),
  };
  for (const std::string& file : bad) EXPECT_NE(open_error(file), "opened") << file.substr(8, 100);
}

TEST(Safetensors, RefusesImpossibleHeaderLengthsWithoutAllocating) {
  for (const uint64_t length : {uint64_t{1}, uint64_t{100'000'001}, uint64_t{1} << 63, UINT64_MAX}) {
    std::string file;
    append_le(file, length);
    EXPECT_NE(open_error(file).find(std::to_string(length)), std::string::npos);
  }
  EXPECT_NE(open_error("1234567"), "opened");
}

TEST(Safetensors, NoHeaderTakesManyTimesItsSizeInMemory) {
  const std::string shortest = R"("":{"dtype":"U8","shape":[],"data_offsets":[0,0]},)";
  std::string entries;
  while (entries.size() < 1'000'000) entries += shortest;
  for (const std::string& header : {"{\"a\":" + std::string(1'000'000, '{'), "{" + entries, "{" + entries + "\"a\":"}) {
    const std::string file = file_with(header, 0);
    const MemoryMeter meter;
    EXPECT_NE(open_error(file), "opened");
    EXPECT_LT(meter.peak(), 8 * header.size());
  }
}

TEST(Safetensors, AcceptsWhatTheReferenceReaderAccepts) {
  EXPECT_EQ(open_error(file_with("  {}  ", 0)), "opened");
  EXPECT_EQ(open_error(file_with(R"({"a":{"data_offsets":[0,0],"shape":[0],"dtype":"F32"},)"
                                 R"("b":{"dtype":"U8","shape":[2],"data_offsets":[0,2]}})",
                                 2)),
            "opened");
}

TEST(Safetensors, ErrorsNameTheTensorAndTheNumbers) {
  const std::string message =
      open_error(file_with(R"({"w.x":{"dtype":"F32","shape":[2,2],"data_offsets":[0,12]}})", 12));
  EXPECT_NE(message.find("w.x"), std::string::npos) << message;
  EXPECT_NE(message.find("[0, 12]"), std::string::npos) << message;
  EXPECT_NE(message.find("16 bytes"), std::string::npos) << message;
}

TEST(Safetensors, VerifyCollectsEveryFinding) {
  const std::string file = file_with(
      R"({"a":{"dtype":"U8","shape":[4],"data_offsets":[0,4]},"b":{"dtype":"U8","shape":[4],"data_offsets":[2,6]},)"
      R"("c":{"dtype":"U8","shape":[1],"data_offsets":[9,10]}})",
      12);
  EXPECT_EQ(codes_found(file), (std::vector<std::string>{"overlap", "hole", "trailing_bytes"}));
}

TEST(Safetensors, SurvivesDamage) {
  const auto bytes = sample_plan().write(kSafetensorsDriver);
  ASSERT_TRUE(bytes);
  const MutantVisitor survives = [](ByteSpan mutant, const std::string& what) {
    check_survives(kSafetensorsDriver, mutant, what);
  };
  truncations(*bytes, survives);
  bit_flips(*bytes, bytes->size(), survives);
  random_mutations(*bytes, fresh_seed(), 3000, survives);
}

TEST(Safetensors, AHundredThousandTensorsInReverseOrderOpenAndAreFound) {
  std::string header = "{";
  constexpr size_t kCount = 100'000;
  for (size_t i = 0; i < kCount; ++i) {
    header += fmt::format("{}\"t{}\":{{\"dtype\":\"U8\",\"shape\":[1],\"data_offsets\":[{},{}]}}", i == 0 ? "" : ",", i,
                          kCount - 1 - i, kCount - i);
  }
  header += "}";
  const std::string file = file_with(header, kCount);
  const auto archive = open_safetensors(file);
  ASSERT_TRUE(archive);
  EXPECT_EQ(archive->tensors().size(), kCount);
  EXPECT_EQ(archive->tensors().front().name, fmt::format("t{}", kCount - 1));
  EXPECT_EQ(archive->find("t77"), kCount - 1 - 77);
}

}  // namespace
}  // namespace ballast::testing
