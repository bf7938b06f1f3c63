// Files that lie: every case of the collection, damage of every kind, and what `verify` says of it.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "ballast/base/json.h"
#include "ballast/formats/drivers.h"
#include "ballast/formats/gguf/gguf.h"
#include "tests/support/format_testing.h"
#include "tests/support/gguf_builder.h"
#include "tests/support/json_path.h"
#include "tests/support/memory_siblings.h"
#include "tests/support/mutation.h"
#include "tests/support/temp_folder.h"
#include "tests/support/test_files.h"

namespace ballast::testing {
namespace {

using ::testing::HasSubstr;

// ---------------------------------------------------------------- the collection

struct HostileCase {
  std::string name;
  std::string level;
  std::string grade;
  std::vector<std::string> files;
};

std::string word_at(const std::string& json, const std::string& path) {
  const std::string raw = json_at(json, path);
  return raw.size() < 2 ? raw : raw.substr(1, raw.size() - 2);
}

std::vector<HostileCase> hostile_cases() {
  const std::string manifest = read_text_file(test_file_path("gguf/hostile/manifest.json"));
  std::vector<HostileCase> cases;
  for (size_t i = 0;; ++i) {
    const std::string one = json_at(manifest, fmt::format("cases/{}", i));
    if (one.empty()) return cases;
    HostileCase found{word_at(one, "name"), word_at(one, "level"), word_at(one, "grade"), {}};
    for (size_t k = 0; !json_at(one, fmt::format("files/{}", k)).empty(); ++k) {
      found.files.push_back(word_at(one, fmt::format("files/{}", k)));
    }
    cases.push_back(std::move(found));
  }
}

Result<Archive> open_case(const HostileCase& hostile, Findings& findings) {
  MemorySiblings siblings;
  for (const std::string& file : hostile.files) siblings.files[file] = read_test_data("gguf/hostile/" + file);
  const OpenRequest request{siblings.source(hostile.files.front()), hostile.files.front(), "", &siblings};
  return kGgufDriver.open(request, findings);
}

// Two files whose every tensor can be found: only llama.cpp, which reads by running sums, has to refuse them.
bool is_sound_all_the_same(const HostileCase& hostile) {
  return hostile.name == "offset_reordered" || hostile.name == "offset_gap";
}
// These are whole files; what is wrong with them is for those to find who make something of the metadata.
bool concerns_the_container(const HostileCase& hostile) {
  return hostile.level == "container" || hostile.level == "data" || hostile.level == "set";
}

class HostileGguf : public ::testing::TestWithParam<HostileCase> {};

TEST_P(HostileGguf, IsRefusedOrReadFaithfully) {
  const HostileCase& hostile = GetParam();
  Findings opening = Findings::stop_at_first_error();
  const auto opened = open_case(hostile, opening);
  Findings verifying = Findings::collect_all();
  const auto verified = open_case(hostile, verifying);
  EXPECT_EQ(opened.has_value(), verified.has_value() && !verifying.has_errors()) << "opening and verifying disagree";
  if (!concerns_the_container(hostile)) {
    EXPECT_TRUE(opened) << opened.error().message;
  } else if (is_sound_all_the_same(hostile)) {
    ASSERT_TRUE(opened) << opened.error().message;
    EXPECT_EQ(verifying.items().front().severity, Severity::kWarning);
    expect_sound(*opened);
  } else {
    ASSERT_FALSE(opened) << hostile.grade;
    EXPECT_GT(opened.error().message.size(), 20U) << "an error that says something";
  }
}

TEST_P(HostileGguf, CostsNeitherTimeNorMemory) {
  for (const std::string& file : GetParam().files) {
    check_survives(kGgufDriver, read_test_data("gguf/hostile/" + file), file);
  }
}

INSTANTIATE_TEST_SUITE_P(Cases, HostileGguf, ::testing::ValuesIn(hostile_cases()),
                         [](const auto& given) { return test_name(given.param.name); });

TEST(HostileGgufCases, AreAllThere) { EXPECT_EQ(hostile_cases().size(), 117U); }

// ---------------------------------------------------------------- damage

TEST(GgufDamage, EveryTruncationIsNoticed) {
  for (const char* name : {"small/meta_all_types.gguf", "small/v3_big_endian.gguf", "small/align_8.gguf"}) {
    const ByteVector bytes = read_test_data(std::string("gguf/") + name);
    truncations(bytes, [&](ByteSpan mutant, const std::string& what) { check_survives(kGgufDriver, mutant, what); });
  }
}

TEST(GgufDamage, NoBitOfTheHeaderCanDoHarm) {
  for (const char* name : {"small/v2.gguf", "small/meta_nested_arrays.gguf", "quant/q4_k.gguf"}) {
    const ByteVector bytes = read_test_data(std::string("gguf/") + name);
    bit_flips(bytes, std::min<size_t>(bytes.size(), 1500),
              [&](ByteSpan mutant, const std::string& what) { check_survives(kGgufDriver, mutant, what); });
  }
}

TEST(GgufDamage, RandomDamageIsSurvived) {
  for (const char* name : {"small/meta_all_types.gguf", "small/ranks.gguf", "quant/q8_0.gguf"}) {
    const ByteVector bytes = read_test_data(std::string("gguf/") + name);
    random_mutations(bytes, fresh_seed(), 500,
                     [&](ByteSpan mutant, const std::string& what) { check_survives(kGgufDriver, mutant, what); });
  }
}

// ---------------------------------------------------------------- what is said

std::string floats(size_t count) { return std::string(4 * count, 'f'); }

std::string open_text(const std::string& file) { return open_error(kGgufDriver, to_byte_vector(file)).message; }

TEST(GgufErrors, NameTheTypeThatIsGoneOrUnknown) {
  EXPECT_THAT(open_text(GgufBuilder().tensor("w", {32}, 4, floats(8)).build()),
              HasSubstr("type 4, which ggml has removed"));
  EXPECT_THAT(open_text(GgufBuilder().tensor("w", {32}, 43, floats(8)).build()),
              HasSubstr("type 43, which this version"));
}

TEST(GgufErrors, NameTheVersion) {
  EXPECT_THAT(open_text(GgufBuilder().build(1)), HasSubstr("version 1"));
  EXPECT_EQ(open_error(kGgufDriver, to_byte_vector(GgufBuilder().build(4))).code, ErrorCode::kUnsupported);
}

TEST(GgufErrors, SayHowRowsAndBlocksDisagree) {
  EXPECT_THAT(open_text(GgufBuilder().tensor("w", {33}, 2, floats(9)).build()),
              HasSubstr("rows of 33 elements, but q4_0 is stored in blocks of 32"));
}

TEST(GgufErrors, SayWhichTensorIsCutShort) {
  std::string file = GgufBuilder().tensor("a", {4}, 0, floats(4)).tensor("b", {4}, 0, floats(4)).build();
  file.resize(file.size() - 17);
  EXPECT_THAT(open_text(file), HasSubstr("tensor \"b\" takes 16 bytes"));
}

TEST(GgufErrors, RefuseBigEndianBlocksThatNobodyAgreesOn) {
  const Archive archive = open_or_die(kGgufDriver, read_test_data("gguf/quant/q5_0.gguf"));
  Description description = archive.description();
  description.stored_form = "big_endian";
  ArchiveFeed feed(archive, description);
  const auto written = encode(kGgufDriver, description, feed, {});
  ASSERT_TRUE(written);
  EXPECT_EQ(*written, read_test_data("gguf/quant/q5_0.gguf")) << "written little-endian instead";
}

TEST(GgufVerify, WarnsOfWhatLlamaCppRefuses) {
  const auto codes = [](const std::string& file) {
    const Verified verified = verify_bytes(kGgufDriver, to_byte_vector(file));
    EXPECT_TRUE(verified.readable);
    std::vector<std::string> found;
    for (const Finding& finding : verified.findings.items()) found.push_back(finding.code);
    return found;
  };
  using Codes = std::vector<std::string>;
  EXPECT_EQ(codes(GgufBuilder().alignment(24).tensor("a", {6}, 0, floats(6)).build()), Codes{"alignment"});
  EXPECT_EQ(codes(GgufBuilder().alignment(4).tensor("a", {6}, 0, floats(6)).build()), Codes{"alignment"});
  EXPECT_EQ(codes(GgufBuilder().pair("k", MetaType::kBool, "\x02").build()), Codes{"bool"});
  EXPECT_EQ(codes(GgufBuilder().build() + "junk"), Codes{"trailing_bytes"});
  EXPECT_EQ(codes(GgufBuilder().tensor("a", {8}, 0, floats(8)).build() + "junk"), Codes{"trailing_bytes"});
  EXPECT_EQ(codes(GgufBuilder().tensor_at({"a", {8}, 0, 32, floats(8)}).tensor_at({"b", {8}, 0, 0, floats(8)}).build()),
            Codes{"order"});
}

TEST(GgufVerify, CollectsEveryError) {
  const std::string file = GgufBuilder()
                               .tensor_at({"a", {8}, 0, 0, floats(8)})
                               .tensor_at({"b", {8}, 0, 0, floats(8)})
                               .tensor_at({"c", {8}, 0, 7, ""})
                               .tensor_at({"d", {8}, 0, 3200, ""})
                               .build();
  const Verified verified = verify_bytes(kGgufDriver, to_byte_vector(file));
  for (const char* code : {"unaligned", "truncated", "overlap"}) EXPECT_NE(verified.find(code), nullptr) << code;
}

TEST(GgufRescue, KeepsWhatNoErrorNames) {
  const std::string file = GgufBuilder().tensor("a", {8}, 0, floats(8)).tensor_at({"b", {8}, 0, 3200, ""}).build();
  Findings findings = Findings::rescue();
  const auto archive = kGgufDriver.open({MemorySource::owning(to_byte_vector(file)), "", "", nullptr}, findings);
  ASSERT_TRUE(archive);
  EXPECT_EQ(archive->tensors().size(), 2U);
  EXPECT_EQ(findings.damaged(), std::vector<std::string>{"b"});
  EXPECT_TRUE(archive->payload(0));
}

}  // namespace
}  // namespace ballast::testing
