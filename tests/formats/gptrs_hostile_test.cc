// Damaged and malicious GPTRSCHK and GPTRSTEN files.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>

#include "ballast/base/param_id.h"
#include "ballast/formats/drivers.h"
#include "tests/formats/gptrs_builder.h"
#include "tests/support/format_testing.h"
#include "tests/support/memory_meter.h"
#include "tests/support/mutation.h"

namespace ballast::testing {
namespace {

using ::testing::HasSubstr;

constexpr uint32_t kMax32 = std::numeric_limits<uint32_t>::max();
constexpr uint64_t kMax64 = std::numeric_limits<uint64_t>::max();

struct Sample {
  const FormatDriver* driver;
  ByteVector bytes;
  std::string name;
};

// Small files of every layout.
std::vector<Sample> samples() {
  std::vector<Sample> list;
  for (const bool checkpoint : {true, false}) {
    for (const uint32_t version : {1U, 2U}) {
      GptrsFileSpec spec;
      spec.checkpoint = checkpoint;
      spec.version = version;
      const std::string name = "blocks.0.w";
      const auto id = base_param_id(name).bytes;
      spec.entries = {{name, {2, 1}, 0, "aaaabbbb", 1, std::string(as_text(id))},
                      {"empty", {0, 7}, 0, ""},
                      {"ids", {3}, 3, "ccccddddeeee"},
                      {"half", {2}, 1, "ffff"}};
      list.push_back({checkpoint ? &kGptrsCheckpointDriver : &kGptrsTensorsDriver, build_gptrs(spec),
                      std::string(checkpoint ? "checkpoint" : "archive") + " version " + std::to_string(version)});
    }
  }
  list.push_back({&kGptrsTensorsDriver, read_test_data("gptrs/archives/mixed.gptrsten"), "mixed.gptrsten"});
  return list;
}

size_t gptrs_header_size(const Sample& sample) {
  const auto archive = open_bytes(*sample.driver, sample.bytes);
  EXPECT_TRUE(archive.has_value()) << sample.name;
  size_t end = sample.bytes.size();
  for (size_t i = 0; archive && i < archive->tensors().size(); ++i) {
    if (archive->description().version == "2") end = std::min<size_t>(end, archive->extent(i).offset);
  }
  return end;
}

TEST(GptrsHostile, RefusesEveryTruncation) {
  std::vector<Sample> all = samples();
  all.push_back({&kGptrsCheckpointDriver, read_test_data("gptrs/gpt_micro/model.gptrs"), "gpt_micro"});
  all.push_back({&kGptrsCheckpointDriver, read_test_data("gptrs/variants/v1_sequential.gptrs"), "v1_sequential"});
  all.push_back({&kGptrsTensorsDriver, read_test_data("gptrs/gpt_micro/trace.gptrsten"), "trace"});
  for (const Sample& sample : all) {
    truncations(sample.bytes, [&](ByteSpan mutant, const std::string& what) {
      EXPECT_FALSE(check_survives(*sample.driver, mutant, sample.name + ": " + what)) << what;
    });
  }
}

TEST(GptrsHostile, SurvivesEveryBitFlipOfAHeader) {
  std::vector<Sample> all = samples();
  all.push_back({&kGptrsCheckpointDriver, read_test_data("gptrs/variants/ids_nonzero.gptrs"), "ids_nonzero"});
  for (const Sample& sample : all) {
    bit_flips(sample.bytes, gptrs_header_size(sample), [&](ByteSpan mutant, const std::string& what) {
      check_survives(*sample.driver, mutant, sample.name + ": " + what);
    });
  }
}

TEST(GptrsHostile, SurvivesRandomMutations) {
  const uint64_t seed = fresh_seed();
  for (const Sample& sample : samples()) {
    random_mutations(sample.bytes, seed, 2000, [&](ByteSpan mutant, const std::string& what) {
      check_survives(*sample.driver, mutant, sample.name + ": " + what);
    });
  }
}

GptrsFileSpec one_entry(bool checkpoint = true) {
  GptrsFileSpec spec;
  spec.checkpoint = checkpoint;
  spec.entries = {{"w", {2, 2}, 0, "aaaabbbbccccdddd"}};
  return spec;
}

// Opens nowhere and says so.
Error expect_gptrs_refused(const GptrsFileSpec& spec, const std::string& what) {
  const FormatDriver& driver = spec.checkpoint ? kGptrsCheckpointDriver : kGptrsTensorsDriver;
  const ByteVector bytes = build_gptrs(spec);
  EXPECT_FALSE(check_survives(driver, bytes, what)) << what;
  return open_error(driver, bytes);
}

TEST(GptrsHostile, RefusesCountsThatCannotBe) {
  for (const bool checkpoint : {true, false}) {
    for (const uint32_t version : {1U, 2U}) {
      GptrsFileSpec spec = one_entry(checkpoint);
      spec.version = version;
      for (const uint32_t count : {kMax32, kMax32 - 1, 0x80000000U, 1000U, 2U}) {
        spec.count = count;
        EXPECT_EQ(expect_gptrs_refused(spec, "count").code, ErrorCode::kCorrupt) << count;
      }
      spec.count.reset();
      for (const uint32_t name_len : {kMax32, 0x7fffffffU, 1000U}) {
        spec.entries[0].name_len = name_len;
        EXPECT_EQ(expect_gptrs_refused(spec, "name_len").code, ErrorCode::kCorrupt) << name_len;
      }
      spec.entries[0].name_len.reset();
      for (const uint32_t rank : {kMax32, 0x20000000U, 1000U, 3U, 1U}) {
        spec.entries[0].rank = rank;
        expect_gptrs_refused(spec, "rank");
      }
    }
  }
}

TEST(GptrsHostile, RefusesLengthsThatLeaveTheFile) {
  GptrsFileSpec spec = one_entry();
  const auto size = static_cast<uint32_t>(build_gptrs(spec).size());
  for (const uint32_t length : {kMax32, 0x80000000U, size, size - 15}) {
    spec.config_len = length;
    expect_gptrs_refused(spec, "config_len");
    spec.config_len.reset();
    spec.index_len = length;
    EXPECT_THAT(expect_gptrs_refused(spec, "index_len").message, HasSubstr("cut short"));
    spec.index_len.reset();
  }
  for (const uint32_t length : {0U, 3U, 4U, 20U}) {
    spec.index_len = length;
    expect_gptrs_refused(spec, "index_len");
  }
}

TEST(GptrsHostile, RefusesShapesThatDoNotFitTheirBytes) {
  GptrsFileSpec spec = one_entry();
  for (const std::vector<uint64_t>& dims : {
           std::vector<uint64_t>{4, 2},
           {2, 1},
           {kMax64, kMax64},
           {uint64_t{1} << 62, 4},        // 2^64 elements
           {uint64_t{1} << 62, 1},        // 2^64 bytes
           {(uint64_t{1} << 62) + 4, 1},  // wraps to 16 bytes
           {uint64_t{1} << 32, uint64_t{1} << 32, 4},
           {kMax64, kMax64, 0},
       }) {
    spec.entries[0].dims = dims;
    EXPECT_EQ(expect_gptrs_refused(spec, "dims").code, ErrorCode::kCorrupt);
  }
}

TEST(GptrsHostile, TakesHugeDimensionsOfAnEmptyTensor) {
  GptrsFileSpec spec = one_entry();
  spec.entries[0].dims = {0, kMax64, kMax64};
  spec.entries[0].payload = "";
  EXPECT_TRUE(check_survives(kGptrsCheckpointDriver, build_gptrs(spec), "zero"));
}

TEST(GptrsHostile, RefusesExtentsOutsideThePayloads) {
  GptrsFileSpec spec = one_entry();
  const uint64_t size = build_gptrs(spec).size();
  for (const uint64_t offset : {kMax64, kMax64 - 15, uint64_t{1} << 63, size, size - 15, uint64_t{0}, size - 17}) {
    spec.entries[0].offset = offset;
    const Error error = expect_gptrs_refused(spec, "offset");
    EXPECT_EQ(error.code, ErrorCode::kCorrupt);
    EXPECT_THAT(error.message, HasSubstr("\"w\""));
  }
  spec.entries[0].offset.reset();
  for (const uint64_t length : {kMax64, uint64_t{1} << 63, uint64_t{17}, uint64_t{0}}) {
    spec.entries[0].byte_len = length;
    expect_gptrs_refused(spec, "byte_len");
    spec.version = 1;
    expect_gptrs_refused(spec, "byte_len of version 1");
    spec.version = 2;
  }
}

TEST(GptrsHostile, RefusesUnknownTypesAndVersions) {
  GptrsFileSpec spec = one_entry();
  for (const uint32_t tag : {4U, 255U, 0x80000000U, kMax32}) {
    spec.entries[0].dtype = tag;
    EXPECT_THAT(expect_gptrs_refused(spec, "tag").message, HasSubstr("dtype tag " + std::to_string(tag)));
  }
  for (const bool checkpoint : {true, false}) {
    for (const uint32_t version : {0U, 3U, 0x02000000U, kMax32}) {
      spec = one_entry(checkpoint);
      spec.version = version;
      EXPECT_EQ(expect_gptrs_refused(spec, "version").code, ErrorCode::kUnsupported) << version;
    }
  }
}

TEST(GptrsHostile, RefusesTheOtherKindsMagic) {
  EXPECT_EQ(open_error(kGptrsTensorsDriver, build_gptrs(one_entry(true))).code, ErrorCode::kCorrupt);
  EXPECT_EQ(open_error(kGptrsCheckpointDriver, build_gptrs(one_entry(false))).code, ErrorCode::kCorrupt);
}

// ---------------------------------------------------------------- the index of one day in December 2025

ByteVector early_file(bool checkpoint) {
  std::string index;
  append_le<uint64_t>(index, 1);
  append_le<uint64_t>(index, 3);
  index += "a.w";
  if (checkpoint) index += std::string(as_text(base_param_id("a.w").bytes));
  append_le<uint64_t>(index, 1);
  append_le<uint64_t>(index, 2);
  append_le<uint32_t>(index, 0);
  append_le<uint8_t>(index, 0);
  const std::string config = checkpoint ? R"({"vocab_size":19})" : "";
  append_le<uint64_t>(index, 12 + (checkpoint ? 4 + config.size() : 0) + 4 + index.size() + 16);
  append_le<uint64_t>(index, 8);
  std::string file = checkpoint ? "GPTRSCHK" : "GPTRSTEN";
  append_le<uint32_t>(file, 2);
  if (checkpoint) append_le<uint32_t>(file, static_cast<uint32_t>(config.size()));
  file += config;
  append_le<uint32_t>(file, static_cast<uint32_t>(index.size()));
  return to_byte_vector(file + index + "aaaabbbb");
}

TEST(GptrsHostile, RefusesTheEarlyIndexByItsName) {
  for (const bool checkpoint : {true, false}) {
    const FormatDriver& driver = checkpoint ? kGptrsCheckpointDriver : kGptrsTensorsDriver;
    EXPECT_FALSE(check_survives(driver, early_file(checkpoint), "early index"));
    const Error error = open_error(driver, early_file(checkpoint));
    EXPECT_EQ(error.code, ErrorCode::kUnsupported);
    EXPECT_THAT(error.message, HasSubstr("27 December 2025"));
  }
}

TEST(GptrsHostile, DoesNotTakeAnEmptyNameForTheEarlyIndex) {
  for (const bool checkpoint : {true, false}) {
    GptrsFileSpec spec = one_entry(checkpoint);
    spec.entries[0].name = "";
    EXPECT_TRUE(check_survives(checkpoint ? kGptrsCheckpointDriver : kGptrsTensorsDriver, build_gptrs(spec), "empty"));
  }
}

// ---------------------------------------------------------------- many tensors

GptrsFileSpec gptrs_of_many(size_t count, bool checkpoint, const std::string& payload) {
  GptrsFileSpec spec;
  spec.checkpoint = checkpoint;
  spec.entries.reserve(count);
  for (size_t i = 0; i < count; ++i) {
    // Names in no order, as the worst case for whoever sorts.
    spec.entries.push_back({"t" + std::to_string(i * 7919 % count), {payload.size() / 4}, 0, payload});
  }
  return spec;
}

TEST(GptrsHostile, OpensAHundredThousandTensorsQuickly) {
  for (const bool checkpoint : {true, false}) {
    for (const uint32_t version : {1U, 2U}) {
      GptrsFileSpec spec = gptrs_of_many(100'000, checkpoint, "abcd");
      spec.version = version;
      const FormatDriver& driver = checkpoint ? kGptrsCheckpointDriver : kGptrsTensorsDriver;
      EXPECT_TRUE(check_survives(driver, build_gptrs(spec), "100,000 tensors"));
    }
  }
}

TEST(GptrsHostile, OpensAHundredThousandTensorsOfTheSameName) {
  GptrsFileSpec spec = gptrs_of_many(100'000, true, "abcd");
  for (GptrsEntry& entry : spec.entries) entry.name = "same";
  EXPECT_TRUE(check_survives(kGptrsCheckpointDriver, build_gptrs(spec), "namesakes"));
  EXPECT_EQ(open_bytes(kGptrsCheckpointDriver, build_gptrs(spec))->tensors().size(), 1U);
}

TEST(GptrsHostile, WritesAHundredThousandTensorsBack) {
  const ByteVector bytes = build_gptrs(gptrs_of_many(100'000, true, "abcd"));
  const auto archive = open_bytes(kGptrsCheckpointDriver, bytes);
  ASSERT_TRUE(archive.has_value());
  const auto written = encode_again(kGptrsCheckpointDriver, *archive);
  ASSERT_TRUE(written.has_value());
  EXPECT_EQ(*written, bytes);
}

TEST(GptrsHostile, RefusesFloodsOfEmptyTensorsInsteadOfFillingMemory) {
  GptrsFileSpec spec = gptrs_of_many(400'000, false, "");
  for (GptrsEntry& entry : spec.entries) {
    entry.dims.clear();
    entry.byte_len = 4;
  }
  spec.trailing = "abcd";  // all of them share it
  spec.entries.back().offset = 0;
  const uint64_t start = build_gptrs(spec).size() - 4;
  for (GptrsEntry& entry : spec.entries) entry.offset = start;
  const ByteVector bytes = build_gptrs(spec);
  EXPECT_FALSE(check_survives(kGptrsTensorsDriver, bytes, "flood"));
  EXPECT_EQ(open_error(kGptrsTensorsDriver, bytes).code, ErrorCode::kUnsupported);
}

TEST(GptrsHostile, ACountThatLiesInALargeFileReservesLittle) {
  GptrsFileSpec spec = one_entry(false);
  spec.index_trailing = std::string(32 << 20, '\xFF');
  spec.count = 1'000'000;
  EXPECT_FALSE(check_survives(kGptrsTensorsDriver, build_gptrs(spec), "count"));
}

TEST(GptrsHostile, ALongNameOrShapeCostsLittle) {
  GptrsFileSpec spec = one_entry(false);
  spec.entries[0].name = std::string(20 << 20, 'n');
  EXPECT_TRUE(check_survives(kGptrsTensorsDriver, build_gptrs(spec), "long name"));
  spec = one_entry(false);
  spec.entries[0].dims.assign(4 << 20, 1);
  spec.entries[0].payload = "abcd";
  EXPECT_TRUE(check_survives(kGptrsTensorsDriver, build_gptrs(spec), "long shape"));
}

TEST(GptrsHostile, AnErrorAboutALongNameOrShapeIsShort) {
  constexpr size_t kShort = 1000;
  GptrsFileSpec spec = one_entry(false);
  spec.entries[0].name = std::string(1 << 20, 'n');
  spec.entries[0].dims = {3};
  EXPECT_LT(expect_gptrs_refused(spec, "long name").message.size(), kShort);
  spec.entries[0].name = "w";
  spec.entries[0].dims.assign(1 << 20, kMax64);
  EXPECT_LT(expect_gptrs_refused(spec, "long shape").message.size(), kShort);
}

TEST(GptrsHostile, ALongConfigOrOriginCostsLittle) {
  GptrsFileSpec spec = one_entry();
  std::string quotes;
  for (int i = 0; i < 4 << 20; ++i) quotes += "a\\\"";
  for (const char* key : {"note", "ballast.origin"}) {
    spec.config = std::string("{\"kind\":\"gpt\",\"") + key + "\":\"" + quotes + "\"}";
    EXPECT_TRUE(check_survives(kGptrsCheckpointDriver, build_gptrs(spec), key));
  }
}

TEST(GptrsHostile, ReadsTheSameWithoutAMapping) {
  for (Sample& sample : samples()) {
    random_mutations(sample.bytes, 1, 300, [&](ByteSpan mutant, const std::string& what) {
      OpenRequest request;
      request.source = std::make_shared<ReadingSource>(ByteVector(mutant.begin(), mutant.end()));
      Findings findings = Findings::stop_at_first_error();
      const auto reading = sample.driver->open(request, findings);
      const auto viewing = open_bytes(*sample.driver, ByteVector(mutant.begin(), mutant.end()));
      ASSERT_EQ(reading.has_value(), viewing.has_value()) << what;
      if (!reading) return;
      expect_sound(*reading);
      EXPECT_TRUE(same_content_description(reading->description(), viewing->description())) << what;
    });
  }
}

}  // namespace
}  // namespace ballast::testing
