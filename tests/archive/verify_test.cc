#include "ballast/archive/verify.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <fstream>
#include <limits>

#include "ballast/archive/manifest.h"
#include "ballast/archive/write.h"
#include "ballast/formats/drivers.h"
#include "tests/support/memory_archive.h"
#include "tests/support/temp_folder.h"

namespace ballast::testing {
namespace {

constexpr float kInf = std::numeric_limits<float>::infinity();

class Verify : public ::testing::Test {
 protected:
  // Writes the archive as safetensors and returns the path.
  std::string write(const MemoryArchive& content, const std::string& name = "m.safetensors",
                    const FormatDriver& format = kSafetensorsDriver, bool compress = false) {
    const Archive archive = content.build();
    WriteSettings settings;
    settings.format.compress = compress;
    settings.commit.overwrite = true;
    const auto written = write_archive(folder_.path(name), format, make_plan(archive), settings);
    EXPECT_TRUE(written) << (written ? "" : written.error().message);
    return folder_.path(name);
  }

  static VerifyReport verify(const std::string& path, VerifyLevel level = VerifyLevel::kContent, unsigned threads = 0) {
    auto report = verify_archive(path, {level, threads, {}});
    EXPECT_TRUE(report) << (report ? "" : report.error().message);
    return report ? *report : VerifyReport{};
  }

  // The findings of one code.
  static std::vector<Finding> only(const VerifyReport& report, std::string_view code) {
    std::vector<Finding> found;
    for (const Finding& finding : report.findings) {
      if (finding.code == code) found.push_back(finding);
    }
    return found;
  }

  static void write_manifest(const std::string& path) {
    const auto archive = open_archive(path);
    ASSERT_TRUE(archive);
    const auto digests = digest_tensors(*archive);
    ASSERT_TRUE(digests);
    std::ofstream(manifest_path(path)) << manifest_to_json(make_manifest(*archive, *digests));
  }

  // Replaces one byte of a file.
  static void poke(const std::string& path, uint64_t offset, unsigned char value) {
    std::fstream file(path, std::ios::in | std::ios::out | std::ios::binary);
    file.seekp(static_cast<std::streamoff>(offset));
    file.put(static_cast<char>(value));
  }

  TempFolder folder_;
};

MemoryArchive sound_content() {
  return MemoryArchive()
      .add("a", DType::kF32, {2}, std::vector<float>{1, 2})
      .add("b", DType::kI64, {1}, std::vector<int64_t>{-1})
      .add("empty", DType::kF32, {0}, std::vector<float>{});
}

TEST_F(Verify, ASoundFileHasNothingButANoteThatThereIsNoManifest) {
  const std::string path = write(sound_content());
  const VerifyReport structure = verify(path, VerifyLevel::kStructure);
  EXPECT_TRUE(structure.sound());
  EXPECT_TRUE(structure.findings.empty());
  EXPECT_EQ(structure.format, "safetensors");
  const VerifyReport content = verify(path);
  EXPECT_TRUE(content.sound());
  ASSERT_EQ(content.findings.size(), 1U);
  EXPECT_EQ(content.findings[0].code, "no_manifest");
  EXPECT_EQ(content.findings[0].severity, Severity::kNote);
}

TEST_F(Verify, WhatIsNotThereOrNotKnownIsAnErrorAndNoReport) {
  const auto missing = verify_archive(folder_.path("nothing"));
  ASSERT_FALSE(missing);
  EXPECT_EQ(missing.error().code, ErrorCode::kNotFound);
  const auto unknown = verify_archive(folder_.write("text", "no weights here, only words"));
  ASSERT_FALSE(unknown);
  EXPECT_EQ(unknown.error().code, ErrorCode::kUnknownFormat);
}

TEST_F(Verify, AFileOfAKindThatIsNotHandledIsAnErrorAndNoReport) {
  std::string header = R"({"a":{"dtype":"F3_NEW","shape":[1],"data_offsets":[0,4]}})";
  std::string file;
  append_le<uint64_t>(file, header.size());
  const auto report = verify_archive(folder_.write("new.safetensors", file + header + "1234"));
  ASSERT_FALSE(report);
  EXPECT_EQ(report.error().code, ErrorCode::kUnsupported);
}

TEST_F(Verify, AllFaultsOfAFileAreFoundInTheOrderOfTheirOffsets) {
  const std::string header =
      R"({"a":{"dtype":"F32","shape":[2],"data_offsets":[4,12]},"b":{"dtype":"F32","shape":[1],"data_offsets":[8,12]},)"
      R"("a":{"dtype":"F32","shape":[1],"data_offsets":[12,16]}})";
  std::string file;
  append_le<uint64_t>(file, header.size());
  const VerifyReport report = verify(folder_.write("bad.safetensors", file + header + std::string(20, '\0')));
  EXPECT_FALSE(report.sound());
  EXPECT_EQ(report.format, "safetensors");
  EXPECT_EQ(only(report, "hole").size(), 1U);
  EXPECT_EQ(only(report, "overlap").size(), 1U);
  EXPECT_EQ(only(report, "duplicate_name").size(), 1U);
  EXPECT_EQ(only(report, "trailing_bytes").size(), 1U);
  EXPECT_EQ(report.findings.size(), 4U);  // and no payload was looked at
  EXPECT_TRUE(std::ranges::is_sorted(report.findings, {}, &Finding::offset));
  EXPECT_EQ(only(report, "hole")[0].offset, 8 + header.size() + 4);
}

TEST_F(Verify, WhatCannotBeInterpretedAtAllIsAFindingToo) {
  std::string file = read_text_file(write(sound_content()));
  file[20] = '\x01';  // inside the JSON
  const VerifyReport report = verify(folder_.write("torn.safetensors", file));
  EXPECT_FALSE(report.sound());
  EXPECT_EQ(report.format, "safetensors");
  ASSERT_EQ(report.findings.size(), 1U);
  EXPECT_EQ(report.findings[0].code, "unreadable");
  EXPECT_EQ(report.findings[0].severity, Severity::kError);
  EXPECT_NE(report.findings[0].message.find("torn.safetensors"), std::string::npos);
}

TEST_F(Verify, CountsValuesThatAreNotFiniteAndPointsAtTheFirst) {
  const std::string path = write(MemoryArchive()
                                     .add("fine", DType::kF32, {2}, std::vector<float>{1, 2})
                                     .add("odd", DType::kF32, {4}, std::vector<float>{1, kInf, std::nanf(""), -kInf}));
  const VerifyReport report = verify(path);
  EXPECT_FALSE(report.sound());
  const auto found = only(report, "non_finite");
  ASSERT_EQ(found.size(), 1U);
  EXPECT_EQ(found[0].severity, Severity::kWarning);
  EXPECT_EQ(found[0].tensor, "odd");
  EXPECT_NE(found[0].message.find("1 NaN, 1 +Inf and 1 -Inf; the first is element 1"), std::string::npos);
  const auto archive = open_archive(path);
  ASSERT_TRUE(archive);
  EXPECT_EQ(found[0].offset, archive->extent(*archive->find("odd")).offset + 4);
  EXPECT_TRUE(verify(path, VerifyLevel::kStructure).sound());
}

TEST_F(Verify, FindsANanFarInsideALargeTensor) {
  std::vector<double> values(3'000'000, 0.5);
  values[2'999'999] = std::nan("");
  const std::string path = write(MemoryArchive().add("w", DType::kF64, {values.size()}, values));
  for (const unsigned threads : {1U, 3U}) {
    const auto found = only(verify(path, VerifyLevel::kContent, threads), "non_finite");
    ASSERT_EQ(found.size(), 1U);
    EXPECT_NE(found[0].message.find("the first is element 2999999"), std::string::npos);
  }
}

TEST_F(Verify, CountsNonFiniteValuesOfSmallTypesAndNoneOfIntegers) {
  const std::string path =
      write(MemoryArchive()
                .add("f16", DType::kF16, {4}, std::vector<uint16_t>{0x7C00, 0x7E00, 0x3C00, 0xFC00})
                .add("f8", DType::kF8E4M3, {2}, std::vector<uint8_t>{0x7F, 0x38})
                .add("int", DType::kU8, {2}, std::vector<uint8_t>{0xFF, 0x7F}));
  const VerifyReport report = verify(path);
  EXPECT_EQ(only(report, "non_finite").size(), 2U);
}

TEST_F(Verify, NotesTensorsThatHoldTheSameContent) {
  const std::vector<float> tied = {1, 2, 3};
  const std::string path = write(MemoryArchive()
                                     .add("embed", DType::kF32, {3}, tied)
                                     .add("head", DType::kF32, {3}, tied)
                                     .add("other", DType::kF32, {3}, std::vector<float>{1, 2, 4})
                                     .add("reshaped", DType::kF32, {3, 1}, tied)
                                     .add("empty1", DType::kF32, {0}, std::vector<float>{})
                                     .add("empty2", DType::kF32, {0}, std::vector<float>{}));
  const VerifyReport report = verify(path);
  EXPECT_TRUE(report.sound());
  const auto found = only(report, "duplicate_payload");
  ASSERT_EQ(found.size(), 1U);
  EXPECT_EQ(found[0].severity, Severity::kNote);
  EXPECT_EQ(found[0].tensor, "embed");
  EXPECT_NE(found[0].message.find("2 tensors hold the same 12 bytes: \"embed\", \"head\""), std::string::npos);
}

TEST_F(Verify, NamesOnlySomeOfManyEqualTensors) {
  MemoryArchive content;
  for (int i = 0; i < 20; ++i) content.add("bias" + std::to_string(10 + i), DType::kF32, {1}, std::vector<float>{0});
  const auto found = only(verify(write(content)), "duplicate_payload");
  ASSERT_EQ(found.size(), 1U);
  EXPECT_NE(found[0].message.find("20 tensors"), std::string::npos);
  EXPECT_NE(found[0].message.find("and 12 more"), std::string::npos);
}

TEST_F(Verify, AFileThatMatchesItsManifestIsSound) {
  const std::string path = write(sound_content());
  write_manifest(path);
  const VerifyReport report = verify(path);
  EXPECT_TRUE(report.sound());
  EXPECT_TRUE(report.findings.empty());
}

TEST_F(Verify, ContentThatDiffersFromTheManifestIsAnError) {
  const std::string path = write(sound_content());
  write_manifest(path);
  const auto archive = open_archive(path);
  ASSERT_TRUE(archive);
  const uint64_t offset = archive->extent(*archive->find("a")).offset;
  poke(path, offset, 0x7F);
  const VerifyReport report = verify(path);
  EXPECT_FALSE(report.sound());
  const auto found = only(report, "manifest");
  ASSERT_EQ(found.size(), 1U);
  EXPECT_EQ(found[0].severity, Severity::kError);
  EXPECT_EQ(found[0].tensor, "a");
  EXPECT_EQ(found[0].offset, offset);
  EXPECT_TRUE(verify(path, VerifyLevel::kStructure).sound());
}

TEST_F(Verify, MissingAndNewTensorsAreToldFromTheManifest) {
  const std::string path = write(sound_content());
  write_manifest(path);
  write(MemoryArchive()
            .add("a", DType::kF32, {2}, std::vector<float>{1, 2})
            .add("c", DType::kU8, {1}, std::vector<uint8_t>{1}));
  const auto found = only(verify(path), "manifest");
  ASSERT_EQ(found.size(), 3U);
  EXPECT_EQ(found[0].tensor, "b");
  EXPECT_EQ(found[1].tensor, "empty");
  EXPECT_EQ(found[2].tensor, "c");
}

TEST_F(Verify, AManifestThatCannotBeReadIsAnError) {
  const std::string path = write(sound_content());
  std::ofstream(manifest_path(path)) << "{]";
  const auto found = only(verify(path), "manifest");
  ASSERT_EQ(found.size(), 1U);
  EXPECT_EQ(found[0].severity, Severity::kError);
  EXPECT_NE(found[0].message.find(".ballast.json"), std::string::npos);
}

TEST_F(Verify, TheReportDoesNotDependOnTheNumberOfThreads) {
  MemoryArchive content;
  for (int i = 0; i < 50; ++i) {
    content.add("t" + std::to_string(i), DType::kF32, {2},
                std::vector<float>{i % 5 == 0 ? kInf : 1, static_cast<float>(i % 7)});
  }
  const std::string path = write(content);
  const VerifyReport one = verify(path, VerifyLevel::kContent, 1);
  const VerifyReport five = verify(path, VerifyLevel::kContent, 5);
  EXPECT_EQ(only(one, "non_finite").size(), 10U);
  EXPECT_GT(only(one, "duplicate_payload").size(), 0U);
  ASSERT_EQ(one.findings.size(), five.findings.size());
  for (size_t i = 0; i < one.findings.size(); ++i) {
    EXPECT_EQ(one.findings[i].message, five.findings[i].message);
    EXPECT_EQ(one.findings[i].offset, five.findings[i].offset);
  }
}

TEST_F(Verify, StopsWhenAskedTo) {
  const std::string path = write(sound_content());
  VerifyOptions options;
  options.level = VerifyLevel::kContent;
  options.progress = [](const ProgressUpdate&) { return false; };
  const auto report = verify_archive(path, options);
  ASSERT_FALSE(report);
  EXPECT_EQ(report.error().code, ErrorCode::kCancelled);
}

TEST_F(Verify, DamagedMembersOfAZipAreFoundByTheirChecksumAtBothLevels) {
  for (const bool compress : {false, true}) {
    std::vector<float> values(1000);  // hardly compressible, so that the damage below misses the NPY header
    for (size_t i = 0; i < values.size(); ++i) values[i] = std::sin(static_cast<float>(i));
    const MemoryArchive content = MemoryArchive()
                                      .add("a", DType::kF32, {1000}, values)
                                      .add("b", DType::kF32, {1000}, values)
                                      .add("c", DType::kF32, {1000}, std::vector<float>(1000, kInf));
    const std::string path = write(content, "m.npz", kNpzDriver, compress);
    EXPECT_TRUE(verify(path, VerifyLevel::kStructure).findings.empty());
    write_manifest(path);
    const auto archive = open_archive(path);
    ASSERT_TRUE(archive);
    const StoredExtent extent = archive->extent(*archive->find("b"));
    poke(path, extent.offset + extent.length / 2, 0xEE);
    for (const VerifyLevel level : {VerifyLevel::kStructure, VerifyLevel::kContent}) {
      const VerifyReport report = verify(path, level);
      EXPECT_FALSE(report.sound());
      const auto found = only(report, "checksum");
      ASSERT_EQ(found.size(), 1U) << compress;
      EXPECT_EQ(found[0].severity, Severity::kError);
      EXPECT_EQ(found[0].tensor, "b");
      EXPECT_EQ(found[0].offset, extent.offset);
      // The rest of the content is still looked at; what is damaged is told once.
      EXPECT_EQ(only(report, "non_finite").size(), level == VerifyLevel::kContent ? 1U : 0U);
      EXPECT_EQ(only(report, "manifest").size(), 0U);
      EXPECT_EQ(only(report, "duplicate_payload").size(), 0U);
    }
  }
}

TEST_F(Verify, TheFirstNonFiniteValueOfACompressedTensorHasTheOffsetOfItsMember) {
  const std::string path = write(MemoryArchive().add("w", DType::kF32, {2}, std::vector<float>{1, kInf}), "m.npz",
                                 kNpzDriver, /*compress=*/true);
  const auto archive = open_archive(path);
  ASSERT_TRUE(archive);
  const auto found = only(verify(path), "non_finite");
  ASSERT_EQ(found.size(), 1U);
  EXPECT_EQ(found[0].offset, archive->extent(0).offset);
}

TEST_F(Verify, TooManyFindingsAreCountedAndTheWorstIsNotForgotten) {
  MemoryArchive content;
  for (int i = 0; i < 10'050; ++i) content.add("t" + std::to_string(i), DType::kF32, {1}, std::vector<float>{kInf});
  const VerifyReport report = verify(write(content));
  EXPECT_FALSE(report.sound());
  EXPECT_EQ(report.findings.size(), 10'001U);
  EXPECT_EQ(report.findings.back().code, "more_findings");
  EXPECT_EQ(report.findings.back().severity, Severity::kWarning);
}

}  // namespace
}  // namespace ballast::testing
