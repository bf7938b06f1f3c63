// Burn 0.19 wrote its data unaligned under the same version number: which file is which.
#include <gtest/gtest.h>

#include "tests/support/burnpack_files.h"
#include "tests/support/format_testing.h"

namespace ballast {
namespace {

using namespace ballast::testing;

// Metadata of bytes tensors at these ranges, with an optional version text.
ByteVector metadata_of(const std::vector<std::pair<uint64_t, uint64_t>>& ranges, std::string_view version = "") {
  MetadataText text;
  text.add(CborWriter().map(version.empty() ? 1 : 2).text("tensors").map(ranges.size()));
  for (size_t i = 0; i < ranges.size(); ++i) {
    text.add(CborWriter().text("t" + std::to_string(i)));
    text.bytes += descriptor(kU8Hex, {ranges[i].second - ranges[i].first}, ranges[i].first, ranges[i].second);
  }
  if (!version.empty()) text.add(CborWriter().text("metadata").map(1).text("version").text(version));
  EXPECT_NE((text.bytes.size() + 10) % 256, 0U) << "the layouts would begin at the same place";
  return to_byte_vector(text.bytes);
}

ByteVector cut(ByteVector bytes, size_t count) {
  bytes.resize(bytes.size() - count);
  return bytes;
}

ByteVector grown(ByteVector bytes, size_t count) {
  bytes.resize(bytes.size() + count, std::byte{0x55});
  return bytes;
}

size_t padding_of(ByteSpan cbor) { return 256 - (cbor.size() + 10) % 256; }

// "unaligned", "aligned", or the error's code; and the tensors must hold what was put into them.
std::string layout_of(const ByteVector& bytes, ByteSpan data) {
  const auto archive = open_bytes(kBurnpackDriver, bytes);
  if (!archive) return std::string(error_code_name(archive.error().code));
  const bool unaligned = archive->description().stored_form == "layout=unaligned";
  const uint64_t metadata_end = 10 + load_le<uint32_t>(bytes.data() + 6);
  const uint64_t start = unaligned ? metadata_end : (metadata_end + 255) / 256 * 256;
  for (size_t i = 0; i < archive->tensors().size(); ++i) {
    const uint64_t begin = archive->extent(i).offset - start;
    const ByteSpan expected = data.subspan(begin, archive->tensors()[i].byte_size);
    EXPECT_TRUE(std::ranges::equal(archive->payload(i)->bytes(), expected)) << "tensor " << i << " holds other bytes";
  }
  return unaligned ? "unaligned" : "aligned";
}

class OneTensor : public ::testing::Test {
 protected:
  ByteVector cbor_ = metadata_of({{0, 300}});
  ByteVector cbor_019_ = metadata_of({{0, 300}}, "0.19.1");
  ByteVector cbor_021_ = metadata_of({{0, 300}}, "0.21.0");
  ByteVector data_ = nonzero_bytes(300);
  ByteVector zeros_ = ByteVector(300);
};

TEST_F(OneTensor, IsToldByItsSize) {
  EXPECT_EQ(layout_of(burnpack_file(cbor_, data_), data_), "aligned");
  EXPECT_EQ(layout_of(burnpack_file(cbor_, data_, true), data_), "unaligned");
  EXPECT_EQ(layout_of(burnpack_file(cbor_021_, data_, true), data_), "unaligned") << "metadata may be a copy";
  EXPECT_EQ(layout_of(burnpack_file(cbor_019_, data_), data_), "aligned") << "metadata may be a copy";
}

TEST_F(OneTensor, CutShortIsNeverTakenForTheOtherLayout) {
  const ByteVector whole = burnpack_file(cbor_, data_);
  for (size_t count = 1; count < 290 + padding_of(cbor_); ++count) {
    EXPECT_EQ(layout_of(cut(whole, count), data_), "corrupt") << count;
  }
  EXPECT_EQ(layout_of(cut(burnpack_file(cbor_, data_, true), 1), data_), "corrupt");
  const auto error = open_error(kBurnpackDriver, cut(whole, padding_of(cbor_)));
  EXPECT_NE(error.message.find("looks like padding"), std::string::npos) << error.message;
}

TEST_F(OneTensor, ThatBeginsWithZerosNeedsTheVersion) {
  EXPECT_EQ(layout_of(burnpack_file(cbor_, zeros_), zeros_), "aligned");
  EXPECT_EQ(layout_of(burnpack_file(cbor_019_, zeros_, true), zeros_), "unaligned");
  EXPECT_EQ(layout_of(burnpack_file(cbor_, zeros_, true), zeros_), "corrupt") << "or an aligned file cut short";
  EXPECT_EQ(layout_of(burnpack_file(cbor_021_, zeros_, true), zeros_), "corrupt");
}

TEST_F(OneTensor, WithBytesBehindItIsStillRead) {
  for (const size_t count : {size_t{1}, size_t{10}, padding_of(cbor_), size_t{300}}) {
    EXPECT_EQ(layout_of(grown(burnpack_file(cbor_, data_), count), data_), "aligned") << count;
  }
  const size_t pad = padding_of(cbor_019_);
  for (const size_t count : {size_t{1}, pad - 1, pad + 1, size_t{300}}) {
    EXPECT_EQ(layout_of(grown(burnpack_file(cbor_019_, data_, true), count), data_), "unaligned") << count;
  }
}

TEST_F(OneTensor, WithOtherBytesThanZeroInThePaddingIsStillAligned) {
  ByteVector bytes = burnpack_file(cbor_, data_);
  bytes[10 + cbor_.size()] = std::byte{1};
  EXPECT_EQ(layout_of(bytes, data_), "aligned");
  EXPECT_EQ(layout_of(grown(bytes, 1), data_), "aligned");
  EXPECT_EQ(layout_of(cut(bytes, 1), data_), "corrupt");
}

TEST(BurnpackLayout, TensorsBesideMultiplesOf256AreUnaligned) {
  const ByteVector cbor = metadata_of({{0, 100}, {100, 200}});
  const ByteVector data = nonzero_bytes(200);
  const ByteVector zeros(200);
  EXPECT_EQ(layout_of(burnpack_file(cbor, data, true), data), "unaligned");
  EXPECT_EQ(layout_of(burnpack_file(cbor, zeros, true), zeros), "unaligned");
  EXPECT_EQ(layout_of(grown(burnpack_file(cbor, data, true), 3), data), "unaligned");
  EXPECT_EQ(layout_of(cut(burnpack_file(cbor, data, true), 1), data), "corrupt");
  EXPECT_EQ(layout_of(burnpack_file(cbor, data), data), "aligned") << "made by hand: Burn reads it like this";
}

TEST(BurnpackLayout, TensorsWithGapsAreAligned) {
  const ByteVector cbor = metadata_of({{0, 100}, {256, 356}});
  ByteVector data = nonzero_bytes(356);
  std::fill(data.begin() + 100, data.begin() + 256, std::byte{0});
  const ByteVector whole = burnpack_file(cbor, data);
  EXPECT_EQ(layout_of(whole, data), "aligned");
  EXPECT_EQ(layout_of(grown(whole, 5), data), "aligned");
  for (size_t count = 1; count < 100 + padding_of(cbor); ++count) {
    EXPECT_EQ(layout_of(cut(whole, count), data), "corrupt") << count;
  }
}

TEST(BurnpackLayout, FilesWithoutTensorsNeedNoPadding) {
  const ByteVector cbor = from_hex("a16774656e736f7273a0");
  EXPECT_EQ(layout_of(burnpack_file(cbor, {}, true), {}), "unaligned");
  EXPECT_EQ(layout_of(burnpack_file(cbor, {}), {}), "aligned");
  EXPECT_EQ(layout_of(cut(burnpack_file(cbor, {}), 100), {}), "aligned");
  EXPECT_NE(verify_bytes(kBurnpackDriver, cut(burnpack_file(cbor, {}), 100)).find("padding"), nullptr);
}

TEST(BurnpackLayout, EmptyTensorsAloneAreReadInBothLayouts) {
  const ByteVector cbor = metadata_of({{0, 0}, {0, 0}});
  EXPECT_EQ(layout_of(burnpack_file(cbor, {}, true), {}), "unaligned");
  EXPECT_EQ(layout_of(burnpack_file(cbor, {}), {}), "aligned");
}

TEST(BurnpackLayout, WhereTheMetadataEndsAtAMultipleOf256NothingCanBeMisread) {
  ByteVector cbor = tensors_metadata({{std::string(1, 'a'), descriptor(kU8Hex, {10}, 0, 10)},
                                      {std::string(1, 'b'), descriptor(kU8Hex, {10}, 10, 20)}});
  // Garbage behind the CBOR fills the metadata up; Burn passes over it too.
  cbor.resize(246);
  const ByteVector data = nonzero_bytes(20);
  const ByteVector bytes = burnpack_file(cbor, data, true);
  EXPECT_EQ(bytes, burnpack_file(cbor, data));
  EXPECT_EQ(layout_of(bytes, data), "unaligned");
  const Verified verified = verify_bytes(kBurnpackDriver, bytes);
  ASSERT_NE(verified.find("layout_0.19"), nullptr);
  EXPECT_NE(verified.find("layout_0.19")->message.find("happens to end"), std::string::npos);
}

}  // namespace
}  // namespace ballast
