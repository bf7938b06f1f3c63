#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "ballast/formats/container/zip_records.h"
#include "ballast/formats/drivers.h"
#include "tests/formats/zip_builder.h"
#include "tests/support/mutation.h"

namespace ballast::testing {
namespace {

using ::testing::HasSubstr;

// Offsets of fields in the two headers.
constexpr size_t kLocalFlags = 6, kLocalMethod = 8, kLocalCrc = 14, kLocalStored = 18, kLocalSize = 22,
                 kLocalExtra = 28;
constexpr size_t kCentralFlags = 8, kCentralMethod = 10, kCentralCrc = 16, kCentralStored = 20, kCentralSize = 24;
constexpr size_t kCentralDisk = 34, kCentralOffset = 42;

Result<ZipDirectory> read(const ByteVector& bytes) {
  Findings findings = Findings::stop_at_first_error();
  return read_zip_directory(*MemorySource::borrowing(bytes, "file"), findings);
}

// Reading fails with this code and a text that says `what`, and `verify` says the same.
void expect_zip_refused(const ByteVector& bytes, ErrorCode code, const std::string& what) {
  const auto directory = read(bytes);
  ASSERT_FALSE(directory.has_value()) << "expected: " << what;
  EXPECT_EQ(directory.error().code, code) << directory.error().message;
  EXPECT_THAT(directory.error().message, HasSubstr(what));
  EXPECT_THAT(directory.error().message, HasSubstr("file"));
  Findings all = Findings::collect_all();
  const auto verified = read_zip_directory(*MemorySource::borrowing(bytes, "file"), all);
  EXPECT_TRUE(!verified.has_value() || all.has_errors());
}

void expect_zip_corrupt(const ZipParts& parts, const std::string& what) {
  expect_zip_refused(parts.take(), ErrorCode::kCorrupt, what);
}

void expect_unsupported(const ZipParts& parts, const std::string& what) {
  expect_zip_refused(parts.take(), ErrorCode::kUnsupported, what);
}

ZipParts two_members() { return build_zip({{"a.npy", npy_text()}, {"b.npy", npy_text(5)}}); }

TEST(Zip, ReadsWhatItWrites) {
  const auto directory = read(two_members().take());
  ASSERT_TRUE(directory.has_value()) << directory.error().message;
  ASSERT_EQ(directory->members.size(), 2U);
  EXPECT_EQ(directory->members[0].name, "a.npy");
  EXPECT_EQ(directory->members[1].size, npy_text(5).size());
  EXPECT_EQ(directory->members[1].crc32, crc32_of(as_bytes(npy_text(5))));
  EXPECT_FALSE(directory->is_numpy_form);
}

TEST(Zip, TellsNumpysFormFromOthers) {
  const std::vector<ZipInput> inputs = {{"a.npy", npy_text()}, {"ü.npy", npy_text(), true}};
  EXPECT_TRUE(read(build_zip(inputs, {}).take())->is_numpy_form);
  const auto windows = read(build_zip(inputs, {.windows = true}).take());
  EXPECT_TRUE(windows->is_numpy_form);
  EXPECT_TRUE(windows->style.windows);
  EXPECT_FALSE(read(build_zip(inputs).take())->is_numpy_form);
  ZipParts dated = build_zip(inputs, {});
  dated.patch_both<uint16_t>(1, 12, 14, 0x5821);
  EXPECT_FALSE(read(dated.take())->is_numpy_form);
  ZipParts commented = build_zip(inputs, {});
  commented.patch<uint16_t>(commented.end + 20, 2).bytes += "hi";
  EXPECT_FALSE(read(commented.take())->is_numpy_form);
}

TEST(Zip, RefusesAFileWithoutEndRecord) {
  ZipParts parts = two_members();
  parts.bytes.resize(parts.end);
  expect_zip_corrupt(parts, "no zip end record");
  expect_zip_refused({}, ErrorCode::kCorrupt, "no zip end record");
}

TEST(Zip, RefusesBytesBehindTheEndRecord) {
  ZipParts parts = two_members();
  parts.bytes += "x";
  expect_zip_corrupt(parts, "does not reach the end of the file");
}

TEST(Zip, AcceptsACommentButNotASecondEndRecordInIt) {
  ZipParts parts = two_members();
  parts.patch<uint16_t>(parts.end + 20, 5).bytes += "hello";
  EXPECT_TRUE(read(parts.take()).has_value());

  ZipParts twice = two_members();
  const std::string end_record = twice.bytes.substr(twice.end);
  twice.patch<uint16_t>(twice.end + 20, static_cast<uint16_t>(end_record.size())).bytes += end_record;
  expect_zip_corrupt(twice, "another end record");

  ZipParts mark = two_members();
  mark.patch<uint16_t>(mark.end + 20, 6).bytes += "PK\x05\x06xx";
  expect_zip_corrupt(mark, "another end record");
}

TEST(Zip, AcceptsAnEndRecordInsideAMember) {
  const ZipParts inner = two_members();
  const auto directory = read(build_zip({{"nested.zip", inner.bytes}, {"a.npy", npy_text()}}).take());
  ASSERT_TRUE(directory.has_value()) << directory.error().message;
  EXPECT_EQ(directory->members.size(), 2U);
}

TEST(Zip, RefusesSentinelsWithoutTheirRecords) {
  ZipParts end = two_members();
  end.patch<uint32_t>(end.end + 16, zip::kIn64);
  expect_zip_corrupt(end, "zip64 record that is not there");
  ZipParts central = two_members();
  central.patch<uint32_t>(central.central[0] + kCentralSize, zip::kIn64);
  expect_zip_corrupt(central, "zip64 field that is not there");
  ZipParts offset = two_members();
  offset.patch<uint32_t>(offset.central[1] + kCentralOffset, zip::kIn64);
  expect_zip_corrupt(offset, "zip64 field that is not there");
  ZipParts local = two_members();
  local.patch<uint32_t>(local.local[0] + kLocalSize, zip::kIn64);
  expect_zip_corrupt(local, "zip64 field that is not there");
}

TEST(Zip, RefusesSeveralDisks) {
  for (const size_t field : {4, 6, 8}) {
    ZipParts parts = two_members();
    parts.patch<uint16_t>(parts.end + field, 7);
    expect_unsupported(parts, "one part of several");
  }
  ZipParts member = two_members();
  member.patch<uint16_t>(member.central[1] + kCentralDisk, 1);
  expect_unsupported(member, "another disk");
}

TEST(Zip, RefusesHeadersThatContradictTheDirectory) {
  ZipParts name = two_members();
  name.bytes[name.local[0] + 30] = 'z';
  expect_zip_corrupt(name, "another name");
  ZipParts method = two_members();
  method.patch<uint16_t>(method.local[0] + kLocalMethod, zip::kDeflated);
  expect_zip_corrupt(method, "another method");
  ZipParts flags = two_members();
  flags.patch<uint16_t>(flags.local[0] + kLocalFlags, zip::kFlagUtf8);
  expect_zip_corrupt(flags, "other flags");
  for (const size_t field : {kLocalCrc, kLocalStored, kLocalSize}) {
    ZipParts parts = two_members();
    parts.patch<uint32_t>(parts.local[1] + field, 1);
    expect_zip_corrupt(parts, "its own header says");
  }
  ZipParts gone = two_members();
  gone.patch<uint32_t>(gone.local[1], 0);
  expect_zip_corrupt(gone, "there is no header at byte");
}

TEST(Zip, RefusesEncryptionAndUnknownMethods) {
  for (const uint16_t flag :
       {zip::kFlagEncrypted, zip::kFlagStrongEncryption, zip::kFlagMaskedHeaders, zip::kFlagPatch}) {
    ZipParts parts = two_members();
    parts.patch_both<uint16_t>(0, kLocalFlags, kCentralFlags, flag);
    expect_unsupported(parts, "encrypted");
  }
  for (const uint16_t method : {1, 9, 12, 14, 93}) {
    ZipParts parts = two_members();
    parts.patch_both<uint16_t>(0, kLocalMethod, kCentralMethod, method);
    expect_unsupported(parts, "compression method");
  }
}

TEST(Zip, RefusesMembersThatShareBytes) {
  // The second member begins inside the first one's data.
  const std::string inner = build_zip({{"b.npy", npy_text()}}).bytes;
  ZipParts parts = build_zip({{"a.npy", inner}, {"b.npy", npy_text()}});
  parts.patch<uint32_t>(parts.central[1] + kCentralOffset, static_cast<uint32_t>(parts.data[0]));
  expect_zip_corrupt(parts, "inside the member before it");
}

TEST(Zip, RefusesMembersOutsideTheFile) {
  ZipParts header = two_members();
  header.patch<uint32_t>(header.central[1] + kCentralOffset, 0x7FFFFFFF);
  expect_zip_corrupt(header, "lies outside");
  ZipParts data = two_members();
  data.patch_both<uint32_t>(1, kLocalStored, kCentralStored, 0x7FFFFFFF)
      .patch_both<uint32_t>(1, kLocalSize, kCentralSize, 0x7FFFFFFF);
  expect_zip_corrupt(data, "run past");
  ZipParts extra = two_members();
  extra.patch<uint16_t>(extra.local[1] + kLocalExtra, 0xFFFF);
  expect_zip_corrupt(extra, "runs past");
}

TEST(Zip, RefusesDamagedExtraFields) {
  ZipParts local = build_zip({{"a.npy", npy_text()}}, {});
  local.patch<uint16_t>(local.local[0] + 30 + 5 + 2, 0xFFF0);
  expect_zip_corrupt(local, "extra fields of its header are damaged");
}

TEST(Zip, RefusesDuplicateNames) {
  expect_zip_corrupt(build_zip({{"a.npy", npy_text()}, {"b.npy", npy_text()}, {"a.npy", npy_text()}}), "stands twice");
}

TEST(Zip, RefusesUnsafeNames) {
  for (const std::string name : {"../a.npy", "a/../b.npy", "a/..", "..", "/a.npy", "C:/a.npy", "a\\b.npy"}) {
    SCOPED_TRACE(name);
    EXPECT_NE(unsafe_zip_name(name), "");
    expect_zip_corrupt(build_zip({{name, npy_text()}}), "its name");
  }
  EXPECT_NE(unsafe_zip_name(std::string_view("a\0b", 3)), "");
  for (const std::string name : {"0:weight.npy", "a..b.npy", "...npy", "a/b/c.npy", "c:d.npy", ".npy", "a//b.npy"}) {
    EXPECT_EQ(unsafe_zip_name(name), "") << name;
  }
}

TEST(Zip, ReadsNamesOfOldToolsAsPythonDoes) {
  ZipParts parts =
      build_zip({{"gr\xC3\xB6\xC3\x9F"
                  "e.npy",
                  npy_text()}});
  parts.patch_both<uint16_t>(0, kLocalFlags, kCentralFlags, 0);
  EXPECT_EQ(read(parts.take())->members[0].name, "gr├╢├ƒe.npy");
  ZipParts broken =
      build_zip({{"gr\xF6\xDF"
                  "e.npy",
                  npy_text()}});
  expect_zip_corrupt(broken, "claims to be UTF-8");
}

TEST(Zip, RefusesSizesThatCannotBe) {
  ZipParts stored = two_members();
  stored.patch_both<uint32_t>(0, kLocalSize, kCentralSize, 5);
  expect_zip_corrupt(stored, "not compressed, yet");
  ZipParts bomb = build_zip({{"a.npy", std::string(1000, 'x'), true}});
  bomb.patch_both<uint32_t>(0, kLocalSize, kCentralSize, 0x7FFFFFFF);
  expect_zip_corrupt(bomb, "deflate reaches at most");
}

TEST(Zip, AcceptsTheHighestRatioDeflateReaches) {
  const auto directory = read(build_zip({{"a.npy", std::string(50'000'000, '\0'), true}}).take());
  ASSERT_TRUE(directory.has_value()) << directory.error().message;
  EXPECT_GT(directory->members[0].size, directory->members[0].stored_size * 1000);
}

TEST(Zip, RefusesDataPutInFrontOrInside) {
  ZipParts front = two_members();
  front.bytes.insert(0, "#!/bin/sh\n");
  expect_zip_corrupt(front, "10 bytes were put in front");
  ZipParts cut = two_members();
  cut.bytes.erase(0, 10);
  expect_zip_corrupt(cut, "run past its end record");
}

TEST(Zip, ReportsBytesThatBelongToNoMember) {
  const ZipParts parts = build_zip({{"a.npy", npy_text(), false, "hidden"}, {"b.npy", npy_text()}});
  EXPECT_TRUE(read(parts.take()).has_value());
  const Verified verified = verify_bytes(kNpzDriver, parts.take());
  ASSERT_NE(verified.find("hole"), nullptr);
  EXPECT_EQ(verified.find("hole")->offset, parts.data[0] + npy_text().size());
  EXPECT_EQ(verified.count(Severity::kError), 0U);
}

TEST(Zip, RefusesAWrongCountOfMembers) {
  for (const uint16_t count : {0, 1, 3, 1000}) {
    ZipParts parts = two_members();
    parts.patch<uint16_t>(parts.end + 8, count).patch<uint16_t>(parts.end + 10, count);
    EXPECT_FALSE(read(parts.take()).has_value()) << count;
  }
}

TEST(Zip, ChecksDataDescriptors) {
  const auto with_descriptor = [](std::string descriptor) {
    ZipParts parts = build_zip({{"a.npy", npy_text(), false, std::move(descriptor)}, {"b.npy", npy_text()}});
    parts.patch_both<uint16_t>(0, kLocalFlags, kCentralFlags, zip::kFlagDescriptor);
    for (const size_t field : {kLocalCrc, kLocalStored, kLocalSize}) parts.patch<uint32_t>(parts.local[0] + field, 0);
    return parts;
  };
  const auto descriptor = [](bool marked, bool large, uint32_t crc) {
    std::string text;
    if (marked) append_le<uint32_t>(text, zip::kDescriptorSignature);
    append_le<uint32_t>(text, crc);
    for (int i = 0; i < 2; ++i) {
      if (large) append_le<uint64_t>(text, npy_text().size());
      else append_le<uint32_t>(text, static_cast<uint32_t>(npy_text().size()));
    }
    return text;
  };
  const uint32_t crc = crc32_of(as_bytes(npy_text()));
  for (const bool marked : {false, true}) {
    for (const bool large : {false, true}) {
      const ZipParts parts = with_descriptor(descriptor(marked, large, crc));
      EXPECT_TRUE(read(parts.take()).has_value());
      EXPECT_EQ(verify_bytes(kNpzDriver, parts.take()).find("hole"), nullptr);
    }
  }
  expect_zip_corrupt(with_descriptor(descriptor(true, false, crc + 1)), "data descriptor");
  expect_zip_corrupt(with_descriptor(""), "data descriptor");
}

TEST(Zip, GoesOverTo64BitsWherePythonDoes) {
  ZipMember member{.name = "a.npy", .size = 0x7FFFFFFF, .crc32 = 1};
  member.stored_size = member.size;
  EXPECT_EQ(zip_central_header(member, {}).size(), 46U + 5);
  member.header_offset = 0x80000000;
  EXPECT_EQ(zip_central_header(member, {}).size(), 46U + 5 + 4 + 8);
  member.size = member.stored_size = 0x80000000;
  EXPECT_EQ(zip_central_header(member, {}).size(), 46U + 5 + 4 + 24);
  EXPECT_EQ(zip_local_header(member, {.always_zip64 = false}).size(), 30U + 5 + 20);
  EXPECT_EQ(zip_end_records(65535, 0x7FFFFFFF, 0).size(), 22U);
  EXPECT_EQ(zip_end_records(65536, 0, 0).size(), 22U + 56 + 20);
  EXPECT_EQ(zip_end_records(1, 0x80000000, 0).size(), 22U + 56 + 20);
}

TEST(Zip, RefusesContradictingEndRecords) {
  // A directory at a far place, as the 64-bit record says; the short one says otherwise.
  ZipParts parts = two_members();
  const std::string directory = parts.bytes.substr(parts.central[0], parts.end - parts.central[0]);
  std::string large = zip_end_records(65536, parts.central[0], directory.size());
  parts.bytes = parts.bytes.substr(0, parts.end) + large;
  // Both count 65536 members; the directory has two.
  expect_zip_corrupt(parts, "cannot be listed");
  const size_t record = parts.end;
  const size_t end = record + 56 + 20;
  parts.patch<uint64_t>(record + 24, 2).patch<uint64_t>(record + 32, 2);
  EXPECT_TRUE(read(parts.take()).has_value());
  ZipParts count = parts;
  count.patch<uint16_t>(end + 8, 1).patch<uint16_t>(end + 10, 1);
  expect_zip_corrupt(count, "contradict each other");
  ZipParts disks = parts;
  disks.patch<uint32_t>(record + 56 + 16, 2);
  expect_unsupported(disks, "one part of several");
  ZipParts place = parts;
  place.patch<uint64_t>(record + 56 + 8, record + 8);
  expect_zip_corrupt(place, "zip64 end record");
}

TEST(Zip, SurvivesEveryTruncationAndEveryFlip) {
  const ZipParts parts = build_zip({{"a.npy", npy_text()}, {"b.npy", npy_text(), true}}, {});
  truncations(as_bytes(parts.bytes), [](ByteSpan mutant, const std::string& what) {
    EXPECT_FALSE(check_survives(kNpzDriver, mutant, what)) << what;
  });
  const ByteVector bytes = parts.take();
  bit_flips(bytes, bytes.size(),
            [](ByteSpan mutant, const std::string& what) { check_survives(kNpzDriver, mutant, what); });
}

}  // namespace
}  // namespace ballast::testing
