// What `verify` says about files that Burn takes in silence, and what nobody should take.
#include <gtest/gtest.h>

#include <algorithm>

#include "tests/support/burnpack_files.h"
#include "tests/support/format_testing.h"

namespace ballast {
namespace {

using namespace ballast::testing;

// Verifies and fails unless exactly these codes come out, all of this severity; and opening agrees with that.
void expect_findings(const ByteVector& bytes, Severity severity, std::vector<std::string> codes) {
  const Verified verified = verify_bytes(kBurnpackDriver, bytes);
  EXPECT_TRUE(verified.readable);
  std::vector<std::string> found;
  for (const Finding& finding : verified.findings.items()) {
    found.push_back(finding.code);
    EXPECT_EQ(finding.severity, severity) << finding.message;
    EXPECT_LE(finding.offset, bytes.size()) << finding.message;
    EXPECT_TRUE(finding.message.starts_with("file: ")) << finding.message;
  }
  std::ranges::sort(codes);
  std::ranges::sort(found);
  EXPECT_EQ(found, codes);
  EXPECT_EQ(open_bytes(kBurnpackDriver, bytes).has_value(), severity != Severity::kError);
}

void expect_warnings(const ByteVector& bytes, std::vector<std::string> codes) {
  expect_findings(bytes, Severity::kWarning, std::move(codes));
}

ByteVector two_tensors(uint64_t begin_a, uint64_t end_a, uint64_t begin_b, uint64_t end_b, size_t data_size) {
  const ByteVector cbor = tensors_metadata({{"a", descriptor(kU8Hex, {end_a - begin_a}, begin_a, end_a)},
                                            {"b", descriptor(kU8Hex, {end_b - begin_b}, begin_b, end_b)}});
  ByteVector data(data_size);
  for (size_t i = begin_a; i < end_a; ++i) data[i] = std::byte{1};
  for (size_t i = begin_b; i < end_b; ++i) data[i] = std::byte{2};
  return burnpack_file(cbor, data);
}

TEST(BurnpackVerify, FindsNothingInASoundFile) { expect_warnings(two_tensors(0, 100, 256, 300, 300), {}); }

TEST(BurnpackVerify, FindsOverlap) {
  const ByteVector bytes = two_tensors(0, 300, 256, 400, 400);
  expect_warnings(bytes, {"overlap"});
  const Verified verified = verify_bytes(kBurnpackDriver, bytes);
  EXPECT_EQ(verified.find("overlap")->tensor, "b");
  EXPECT_EQ(verified.find("overlap")->offset, 256U + 256U);
}

TEST(BurnpackVerify, FindsOverlapWithATensorFurtherBack) {
  const ByteVector cbor = tensors_metadata({{"a", descriptor(kU8Hex, {1000}, 0, 1000)},
                                            {"b", descriptor(kU8Hex, {1}, 256, 257)},
                                            {"c", descriptor(kU8Hex, {1}, 512, 513)}});
  expect_warnings(burnpack_file(cbor, nonzero_bytes(1000)), {"overlap", "overlap"});
}

TEST(BurnpackVerify, FindsHoles) {
  expect_warnings(two_tensors(0, 100, 512, 600, 600), {"hole"});
  expect_warnings(two_tensors(256, 300, 512, 600, 600), {"hole"});
}

TEST(BurnpackVerify, FindsMisalignedTensors) {
  expect_warnings(two_tensors(0, 100, 100, 200, 200), {"misaligned"});
  expect_warnings(two_tensors(0, 100, 300, 400, 400), {"hole", "misaligned"});
}

TEST(BurnpackVerify, FindsPaddingThatIsNotZero) {
  ByteVector bytes = two_tensors(0, 100, 256, 300, 300);
  bytes[200] = std::byte{7};
  expect_warnings(bytes, {"padding"});
  EXPECT_EQ(verify_bytes(kBurnpackDriver, bytes).findings.items()[0].offset, 200U);
  bytes[256 + 110] = std::byte{7};
  expect_warnings(bytes, {"padding", "padding"});
}

TEST(BurnpackVerify, FindsBytesBehindTheLastTensor) {
  expect_warnings(two_tensors(0, 100, 256, 300, 301), {"trailing_bytes"});
  EXPECT_EQ(verify_bytes(kBurnpackDriver, two_tensors(0, 100, 256, 300, 301)).findings.items()[0].offset, 556U);
}

TEST(BurnpackVerify, FindsDuplicateNamesAndTakesTheLast) {
  const ByteVector cbor = tensors_metadata({{"a", descriptor(kU8Hex, {8}, 0, 8)},
                                            {"b", descriptor(kU8Hex, {4}, 256, 260)},
                                            {"a", descriptor(kU8Hex, {2}, 512, 514)}});
  const ByteVector bytes = burnpack_file(cbor, ByteVector(514));
  const auto archive = open_bytes(kBurnpackDriver, bytes);
  ASSERT_TRUE(archive);
  ASSERT_EQ(archive->tensors().size(), 2U);
  EXPECT_EQ(archive->tensors()[*archive->find("a")].byte_size, 2U);
  const Verified verified = verify_bytes(kBurnpackDriver, bytes);
  ASSERT_NE(verified.find("duplicate_name"), nullptr);
  EXPECT_EQ(verified.find("duplicate_name")->tensor, "a");
  EXPECT_NE(verified.find("hole"), nullptr) << "where the first one was";
}

TEST(BurnpackVerify, FindsMetadataKeysThatStandTwiceAndTakesTheLast) {
  MetadataText text;
  text.add(CborWriter().map(3).text("tensors").map(0));
  text.add(CborWriter().text("metadata").map(3).text("b").text("1").text("a").text("2").text("b").text("3"));
  text.add(CborWriter().text("scalars").map(1).text("b").map(1).text("UInt").unsigned_number(4));
  const ByteVector bytes = burnpack_file(to_byte_vector(text.bytes), {});
  expect_warnings(bytes, {"duplicate_key"});
  const auto archive = open_bytes(kBurnpackDriver, bytes);
  const std::vector<MetaEntry> expected = {{"a", "2"}, {"b", "3"}, {"b", uint64_t{4}}};
  EXPECT_EQ(archive->description().metadata, expected) << "texts and scalars may share a key";
}

TEST(BurnpackVerify, FindsQuantisedTensorsOfALengthThatDoesNotFitTheirScheme) {
  CborWriter dtype;
  dtype.map(1).text("QFloat").map(5).text("value").text("Q8S").text("store").text("Native").text("mode");
  dtype.text("Symmetric").text("tensor").text("F32").text("block").null();
  const std::string digits = to_hex(as_bytes(dtype.bytes()));
  const auto file = [&](uint64_t size) {
    return burnpack_file(tensors_metadata({{"q", descriptor(digits, {3, 3}, 0, size)}}), nonzero_bytes(size));
  };
  expect_warnings(file(13), {});
  expect_warnings(file(12), {"qfloat_length"});
  expect_warnings(file(0), {"qfloat_length"});
}

TEST(BurnpackVerify, FindsKeysNobodyKnows) {
  MetadataText text;
  text.add(CborWriter().map(2).text("checksum").map(1).text("a").null().text("tensors").map(1).text("a").map(4));
  text.add(CborWriter().text("colour").array(0).text("dtype").text("U8").text("shape").array(0));
  text.add(CborWriter().text("data_offsets").array(2).unsigned_number(0).unsigned_number(1));
  expect_warnings(burnpack_file(to_byte_vector(text.bytes), nonzero_bytes(1)), {"unknown_key", "unknown_key"});
}

TEST(BurnpackVerify, FindsMetadataThatGoesOnAfterItsEnd) {
  ByteVector cbor = from_hex("a16774656e736f7273a0 00");
  expect_warnings(burnpack_file(cbor, {}), {"metadata_trailing"});
}

TEST(BurnpackVerify, NotesSpellingsThatBurnNeverUses) {
  const auto notes = [](std::string_view digits) {
    expect_findings(burnpack_file(from_hex(digits), {}), Severity::kNote, {"cbor_form"});
  };
  notes("bf6774656e736f7273a0ff");
  notes("c1a16774656e736f7273a0");
  notes("b8016774656e736f7273a0");
  const ByteVector unsorted =
      tensors_metadata({{"b", descriptor(kU8Hex, {0}, 0, 0)}, {"a", descriptor(kU8Hex, {0}, 0, 0)}});
  expect_findings(burnpack_file(unsorted, {}), Severity::kNote, {"unsorted_names"});
  ByteVector version_0 = burnpack_file(from_hex("a16774656e736f7273a0"), {});
  version_0[4] = std::byte{0};
  expect_findings(version_0, Severity::kNote, {"version"});
}

TEST(BurnpackVerify, FindsEveryDamagedTensorNotOnlyTheFirst) {
  const ByteVector cbor = tensors_metadata({{"backwards", descriptor(kU8Hex, {4}, 260, 256)},
                                            {"cut", descriptor(kU8Hex, {100}, 512, 612)},
                                            {"dtype", descriptor("63463333", {1}, 0, 4)},
                                            {"huge", descriptor(kU8Hex, {UINT64_MAX, 2}, 256, 257)},
                                            {"size", descriptor(kF32Hex, {1}, 256, 257)}});
  const Verified verified = verify_bytes(kBurnpackDriver, burnpack_file(cbor, nonzero_bytes(600)));
  EXPECT_TRUE(verified.readable);
  for (const auto& [code, tensor] : std::vector<std::pair<std::string, std::string>>{
           {"range", "backwards"}, {"truncated", "cut"}, {"dtype", "dtype"}, {"size", "backwards"}}) {
    ASSERT_NE(verified.find(code), nullptr) << code;
    EXPECT_EQ(verified.find(code)->tensor, tensor);
    EXPECT_EQ(verified.find(code)->severity, Severity::kError);
  }
  EXPECT_EQ(verified.count(Severity::kError), 6U) << "backwards has two faults";
}

TEST(BurnpackVerify, WarnsOfFilesTooLargeForBurn) {
  // Nothing of the payload is read, so the file need not exist.
  class LongSource final : public ByteSource {
   public:
    LongSource(ByteVector head, uint64_t size) : head_(std::move(head)), size_(size) {}
    uint64_t size() const override { return size_; }
    Status read_at(uint64_t offset, MutableByteSpan out) const override {
      std::ranges::fill(out, std::byte{0});
      for (uint64_t i = offset; i < std::min<uint64_t>(head_.size(), offset + out.size()); ++i)
        out[i - offset] = head_[i];
      return {};
    }
    std::optional<ByteSpan> view(uint64_t, uint64_t) const override { return std::nullopt; }
    const std::string& name() const override { return name_; }

   private:
    ByteVector head_;
    uint64_t size_;
    std::string name_ = "long";
  };
  constexpr uint64_t kTensor = uint64_t{101} << 30;
  const ByteVector head = burnpack_file(tensors_metadata({{"a", descriptor(kU8Hex, {kTensor}, 0, kTensor)}}), {});
  OpenRequest request;
  request.source = std::make_shared<LongSource>(head, head.size() + kTensor);
  Findings findings = Findings::collect_all();
  ASSERT_TRUE(kBurnpackDriver.open(request, findings));
  ASSERT_EQ(findings.items().size(), 2U);
  EXPECT_EQ(findings.items()[0].code, "burn_limit");
  EXPECT_EQ(findings.items()[1].code, "burn_limit");
}

TEST(BurnpackVerify, SaysHowOldFilesAreRewritten) {
  const Verified verified = verify_bytes(kBurnpackDriver, read_burnpack("0.20.1/quant_schemes.bpk"));
  ASSERT_NE(verified.find("old_quantisation"), nullptr);
  EXPECT_NE(verified.find("old_quantisation")->message.find("target burn-0.23"), std::string::npos);
  const Verified bools = verify_bytes(kBurnpackDriver, read_burnpack("0.19.1/dtypes.bpk"));
  ASSERT_NE(bools.find("old_bool"), nullptr);
  EXPECT_EQ(bools.find("old_bool")->tensor, "dtype.bool");
  ASSERT_NE(bools.find("layout_0.19"), nullptr);
}

}  // namespace
}  // namespace ballast
