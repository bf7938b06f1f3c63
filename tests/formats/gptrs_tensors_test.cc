#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "ballast/formats/drivers.h"
#include "tests/formats/gptrs_builder.h"
#include "tests/support/format_testing.h"
#include "tests/support/test_files.h"

namespace ballast::testing {
namespace {

using ::testing::HasSubstr;

Archive open_tensors(ByteVector bytes) { return open_or_die(kGptrsTensorsDriver, std::move(bytes)); }

std::vector<uint32_t> words(const Archive& archive, std::string_view name) {
  const auto payload = archive.aligned_payload(archive.find(name).value(), 4);
  EXPECT_TRUE(payload.has_value());
  std::vector<uint32_t> values;
  for (size_t at = 0; at < payload->bytes().size(); at += 4) values.push_back(load_le<uint32_t>(&payload->bytes()[at]));
  return values;
}

GptrsFileSpec archive_spec() {
  GptrsFileSpec spec;
  spec.checkpoint = false;
  return spec;
}

TEST(GptrsTensors, ReadsAndWritesTheSampleOfTheSpecification) {
  const ByteVector sample = from_hex(
      "47 50 54 52 53 54 45 4e 02 00 00 00 37 00 00 00 01 00 00 00 06 00 00 00 6c 6f 67 69 74 73 02 00"
      "00 00 01 00 00 00 00 00 00 00 03 00 00 00 00 00 00 00 00 00 00 00 00 47 00 00 00 00 00 00 00 0c"
      "00 00 00 00 00 00 00 00 00 00 3f 00 00 80 3f 00 00 80 bf");
  const Archive archive = open_tensors(sample);
  ASSERT_EQ(archive.tensors().size(), 1U);
  EXPECT_EQ(archive.tensors()[0].name, "logits");
  EXPECT_EQ(archive.tensors()[0].shape, (Shape{1, 3}));
  EXPECT_FALSE(archive.description().config.has_value());
  EXPECT_EQ(words(archive, "logits"), (std::vector<uint32_t>{0x3f000000, 0x3f800000, 0xbf800000}));
  ArchiveFeed feed(archive, archive.description());
  const auto written = encode(kGptrsTensorsDriver, archive.description(), feed, {});
  ASSERT_TRUE(written.has_value());
  EXPECT_EQ(*written, sample);
}

TEST(GptrsTensors, KeepsEveryBitOfOddValues) {
  const Archive archive = open_tensors(read_test_data("gptrs/archives/mixed.gptrsten"));
  EXPECT_EQ(words(archive, "a"),
            (std::vector<uint32_t>{1065353216, 1073741824, 1077936128, 1082130432, 1084227584, 1086324736}));
  EXPECT_EQ(words(archive, "b.i"), (std::vector<uint32_t>{0x80000000, 0xffffffff, 0, 0x7fffffff}));
  EXPECT_EQ(words(archive, "B"), std::vector<uint32_t>{1036831949});
  EXPECT_EQ(words(archive, "a.10"), (std::vector<uint32_t>{1, 2147483648}));          // denormal, -0
  EXPECT_EQ(words(archive, "a.2"), (std::vector<uint32_t>{2143289344, 4286578688}));  // NaN, -infinity
  EXPECT_EQ(words(archive, "empty"), std::vector<uint32_t>());
}

TEST(GptrsTensors, ReadsVersion1AndWritesItAsVersion2) {
  GptrsFileSpec spec = archive_spec();
  spec.entries = {{"a", {2}, 0, "aaaabbbb"}, {"ids", {1}, 3, "cccc", 1}, {"none", {0, 5}, 0, ""}};
  spec.version = 1;
  const Archive old = open_tensors(build_gptrs(spec));
  EXPECT_EQ(old.description().version, "1");
  EXPECT_EQ(old.tensors().size(), 3U);
  EXPECT_EQ(words(old, "ids"), std::vector<uint32_t>{0x63636363});
  const auto written = encode_again(kGptrsTensorsDriver, old);
  ASSERT_TRUE(written.has_value());
  spec.version = 2;
  EXPECT_EQ(*written, build_gptrs(spec));
}

TEST(GptrsTensors, ReportsWhatFollowsTheLastRecordOfVersion1) {
  GptrsFileSpec spec = archive_spec();
  spec.version = 1;
  spec.entries = {{"a", {1}, 0, "aaaa"}};
  spec.trailing = "more";
  EXPECT_EQ(open_tensors(build_gptrs(spec)).tensors().size(), 1U);
  const Verified verified = verify_bytes(kGptrsTensorsDriver, build_gptrs(spec));
  ASSERT_NE(verified.find("trailing_bytes"), nullptr);
  EXPECT_EQ(verified.findings.items().size(), 1U);
}

TEST(GptrsTensors, TakesEveryUtf8Name) {
  GptrsFileSpec spec = archive_spec();
  spec.entries = {{"gr\xC3\xB6\xC3\x9F\x65", {1}, 0, "aaaa"}};
  const auto written = encode_again(kGptrsTensorsDriver, open_tensors(build_gptrs(spec)));
  ASSERT_TRUE(written.has_value());
  EXPECT_EQ(*written, build_gptrs(spec));
}

TEST(GptrsTensors, RefusesNamesThatAreNotUtf8) {
  GptrsFileSpec spec = archive_spec();
  spec.entries = {{"a\xFF", {1}, 0, "aaaa"}};
  const Error error = open_error(kGptrsTensorsDriver, build_gptrs(spec));
  EXPECT_EQ(error.code, ErrorCode::kCorrupt);
  EXPECT_THAT(error.message, HasSubstr("UTF-8"));

  Description description;
  description.tensors.resize(1);
  description.tensors[0].name = "a\xFF";
  const auto losses = kGptrsTensorsDriver.find_losses(description, {});
  ASSERT_EQ(losses.size(), 1U);
  EXPECT_FALSE(losses[0].drop || losses[0].acceptable || losses[0].cast_to);
}

TEST(GptrsTensors, CarriesAnOriginAsAHiddenTensor) {
  GptrsFileSpec spec = archive_spec();
  spec.entries = {{"z", {1}, 0, "zzzz"}};
  const Archive archive = open_tensors(build_gptrs(spec));
  for (const char* origin : {"x", "xy", "xyz", "{\"\xE2\x82\xAC\":1}"}) {
    Description description = archive.description();
    description.origin = origin;
    ArchiveFeed feed(archive, description);
    const auto written = encode(kGptrsTensorsDriver, description, feed, {});
    ASSERT_TRUE(written.has_value());
    const Archive carrier = open_tensors(*written);
    EXPECT_EQ(carrier.description().origin, origin);
    ASSERT_EQ(carrier.tensors().size(), 1U);
    EXPECT_EQ(words(carrier, "z"), std::vector<uint32_t>{0x7a7a7a7a});

    // To gpt.rs it is an ordinary vector of i32.
    GptrsFileSpec expected = spec;
    std::string padded = origin;
    padded.resize((padded.size() + 3) / 4 * 4);
    expected.entries.push_back({"ballast.origin", {padded.size() / 4}, 3, padded});
    EXPECT_EQ(*written, build_gptrs(expected));
    EXPECT_EQ(verify_bytes(kGptrsTensorsDriver, *written).findings.items().size(), 0U);
  }
}

TEST(GptrsTensors, LeavesOtherTensorsOfTheReservedNameAlone) {
  for (const GptrsEntry& entry : {
           GptrsEntry{"ballast.origin", {1}, 0, "text"},                          // not i32
           GptrsEntry{"ballast.origin", {1, 1}, 3, "text"},                       // not a vector
           GptrsEntry{"ballast.origin", {0}, 3, ""},                              // empty
           GptrsEntry{"ballast.origin", {1}, 3, std::string(4, '\0')},            // no text
           GptrsEntry{"ballast.origin", {2}, 3, std::string("text\0\0\0\0", 8)},  // too much padding
           GptrsEntry{"ballast.origin", {1}, 3, std::string("a\0b\0", 4)},        // a zero inside
           GptrsEntry{"ballast.origin", {1}, 3, "\xFF\xFF\xFF\xFF"},              // not UTF-8
       }) {
    GptrsFileSpec spec = archive_spec();
    spec.entries = {entry};
    const Archive archive = open_tensors(build_gptrs(spec));
    EXPECT_FALSE(archive.description().origin.has_value());
    EXPECT_EQ(archive.tensors().size(), 1U);
  }
}

TEST(GptrsTensors, DoesNotWriteATensorOfTheReservedName) {
  Description description;
  description.tensors.resize(1);
  description.tensors[0].name = "ballast.origin";
  const auto losses = kGptrsTensorsDriver.find_losses(description, {});
  ASSERT_EQ(losses.size(), 1U);
  EXPECT_TRUE(losses[0].drop);
  EXPECT_FALSE(kGptrsTensorsDriver.plan_write({description, {}, "file"}).has_value());
}

TEST(GptrsTensors, HasNoIds) {
  const Archive archive = open_tensors(read_test_data("gptrs/archives/one.gptrsten"));
  EXPECT_EQ(archive.tensors()[0].stored_form(), "");
  EXPECT_FALSE(archive.tensors()[0].param_id.has_value());
}

TEST(GptrsTensors, IsFoundByExtension) {
  EXPECT_EQ(format_for_extension("a.gptrsten"), &kGptrsTensorsDriver);
  EXPECT_EQ(format_for_extension("a.gten"), &kGptrsTensorsDriver);
}

}  // namespace
}  // namespace ballast::testing
