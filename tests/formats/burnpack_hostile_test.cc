// Burnpack files that are damaged, or were made to hurt.
#include <gtest/gtest.h>

#include <algorithm>

#include "tests/support/burnpack_files.h"
#include "tests/support/emulation.h"
#include "tests/support/format_testing.h"
#include "tests/support/memory_meter.h"
#include "tests/support/mutation.h"
#include "tests/support/test_files.h"

namespace ballast {
namespace {

using namespace ballast::testing;

// Larger fixtures repeat what the smaller ones have: of them not every byte is damaged.
constexpr size_t kSmall = 8 << 10;

size_t burnpack_header_size(ByteSpan bytes) { return 10 + load_le<uint32_t>(bytes.data() + 6); }

// ---------------------------------------------------------------- damage

class BurnpackDamage : public ::testing::TestWithParam<std::string> {
 protected:
  ByteVector bytes_ = read_burnpack(GetParam());
};

INSTANTIATE_TEST_SUITE_P(All, BurnpackDamage, ::testing::ValuesIn(burnpack_fixtures()),
                         [](const auto& fixture) { return test_name(fixture.param); });

// A cut file must not be taken for a whole one of another layout, so what opens must hold the very same tensors.
TEST_P(BurnpackDamage, ByTruncationGivesAnErrorOrTheSameTensors) {
  const auto whole = open_bytes(kBurnpackDriver, bytes_);
  ASSERT_TRUE(whole);
  size_t visited = 0;
  truncations(bytes_, [&](ByteSpan cut, const std::string& what) {
    const size_t step = bytes_.size() <= kSmall ? 1 : 61;
    if (visited++ % step != 0 || !check_survives(kBurnpackDriver, cut, what)) return;
    const auto archive = open_bytes(kBurnpackDriver, {cut.begin(), cut.end()});
    ASSERT_TRUE(same_content_description(archive->description(), whole->description())) << what;
    for (size_t i = 0; i < whole->tensors().size(); ++i) {
      ASSERT_TRUE(std::ranges::equal(archive->payload(i)->bytes(), whole->payload(i)->bytes())) << what;
    }
  });
}

TEST_P(BurnpackDamage, ByASingleBitGivesAnErrorOrASoundArchive) {
  const size_t header = burnpack_header_size(bytes_);
  size_t opened = 0;
  bit_flips(bytes_, bytes_.size() <= kSmall ? header : 256, [&](ByteSpan flipped, const std::string& what) {
    opened += check_survives(kBurnpackDriver, flipped, what) ? 1 : 0;
  });
  if (one_in() == 1) {
    EXPECT_GT(opened, 0U) << "a changed letter of a name is still a name";
  }
}

TEST_P(BurnpackDamage, AtRandomGivesAnErrorOrASoundArchive) {
  random_mutations(bytes_, fresh_seed(), 100,
                   [&](ByteSpan mutant, const std::string& what) { check_survives(kBurnpackDriver, mutant, what); });
}

// ---------------------------------------------------------------- made by hand

// Fails the test unless the file is refused with this code and a text that has `words`.
void expect_burnpack_refused(const ByteVector& bytes, ErrorCode code, std::string_view words) {
  check_survives(kBurnpackDriver, bytes, std::string(words));
  const Error error = open_error(kBurnpackDriver, bytes);
  EXPECT_EQ(error.code, code) << error.message;
  EXPECT_NE(error.message.find(words), std::string::npos) << error.message;
  EXPECT_NE(error.message.find("file"), std::string::npos) << error.message;
}

void expect_burnpack_corrupt(const ByteVector& bytes, std::string_view words) {
  expect_burnpack_refused(bytes, ErrorCode::kCorrupt, words);
}

ByteVector with_metadata(std::string_view digits, size_t data_size = 0) {
  return burnpack_file(from_hex(digits), nonzero_bytes(data_size));
}

ByteVector burnpack_of_one(const std::string& bytes, size_t data_size = 16) {
  return burnpack_file(tensors_metadata({{"w", bytes}}), nonzero_bytes(data_size));
}

// The descriptor of "w" with raw CBOR in the places of its values.
ByteVector raw_tensor(std::string_view dtype, std::string_view shape, std::string_view offsets) {
  MetadataText text;
  text.add(CborWriter().map(3).text("dtype")).hex(dtype);
  text.add(CborWriter().text("shape")).hex(shape);
  text.add(CborWriter().text("data_offsets")).hex(offsets);
  return burnpack_of_one(text.bytes);
}

TEST(BurnpackHostile, Headers) {
  const ByteVector good = with_metadata("a16774656e736f7273a0");
  const auto patched = [&](size_t at, std::string_view digits) {
    ByteVector bytes = good;
    std::ranges::copy(from_hex(digits), bytes.begin() + static_cast<ptrdiff_t>(at));
    return bytes;
  };
  expect_burnpack_corrupt({}, "too few");
  expect_burnpack_corrupt(patched(0, "4255524e"), "begins with bytes 4255524e");
  expect_burnpack_refused(patched(4, "0200"), ErrorCode::kUnsupported, "version 2");
  expect_burnpack_refused(patched(4, "ffff"), ErrorCode::kUnsupported, "version 65535");
  EXPECT_TRUE(check_survives(kBurnpackDriver, patched(4, "0000"), "version 0"));
  expect_burnpack_corrupt(patched(6, "00000000"), "the data ends");
  expect_burnpack_refused(patched(6, "01004006"), ErrorCode::kUnsupported, "104857601");
  expect_burnpack_corrupt(patched(6, "00004006"), "cut short");
  expect_burnpack_refused(patched(6, "ffffffff"), ErrorCode::kUnsupported, "4294967295");
  EXPECT_EQ(kBurnpackDriver.sniff({from_hex("4255524e"), 4, "model.bpk", nullptr}), SniffMatch::kNo);
  EXPECT_EQ(kBurnpackDriver.sniff({from_hex("4e5255"), 3, "model.bpk", nullptr}), SniffMatch::kNo);
  EXPECT_EQ(kBurnpackDriver.sniff({from_hex("4e525542"), 4, "x", nullptr}), SniffMatch::kCertain);
}

TEST(BurnpackHostile, LengthsThatLie) {
  expect_burnpack_corrupt(with_metadata("bbffffffffffffffff"), "claims");
  expect_burnpack_corrupt(with_metadata("a16774656e736f7273bbffffffffffffffff"), "claims");
  expect_burnpack_corrupt(with_metadata("a16774656e736f7273a17bffffffffffffffff"), "claims");
  expect_burnpack_corrupt(with_metadata("a16774656e736f7273bb7fffffffffffffff"), "claims");
  expect_burnpack_corrupt(raw_tensor(kF32Hex, "9bffffffffffffffff", "820000"), "claims");
  expect_burnpack_corrupt(raw_tensor(kF32Hex, "5bffffffffffffffff", "820000"), "claims");
  expect_burnpack_corrupt(raw_tensor("7bffffffffffffffff", "80", "820000"), "claims");
}

TEST(BurnpackHostile, DepthBombs) {
  const auto bomb = [](std::string_view piece, size_t depth) {
    std::string bytes(as_text(from_hex("a26178")));
    for (size_t i = 0; i < depth; ++i) bytes += as_text(from_hex(piece));
    return burnpack_file(as_bytes(bytes), {});
  };
  expect_burnpack_corrupt(bomb("81", 1 << 20), "128 deep");
  expect_burnpack_corrupt(bomb("9f", 1 << 20), "128 deep");
  expect_burnpack_corrupt(bomb("a100", 1 << 20), "128 deep");
  expect_burnpack_corrupt(bomb("d81c", 1 << 20), "the data ends");  // tags without end
}

TEST(BurnpackHostile, DTypes) {
  expect_burnpack_refused(burnpack_of_one(descriptor("63663332", {4}, 0, 16)), ErrorCode::kUnsupported, "\"f32\"");
  expect_burnpack_corrupt(burnpack_of_one(descriptor("a163463332f6", {4}, 0, 16)), "plain text");
  expect_burnpack_refused(burnpack_of_one(descriptor("a163513939f6", {4}, 0, 16)), ErrorCode::kUnsupported, "Q99");
  expect_burnpack_corrupt(burnpack_of_one(descriptor("a0", {4}, 0, 16)), "empty map");
  expect_burnpack_corrupt(burnpack_of_one(descriptor("a264426f6f6c62553864426f6f6c625538", {16}, 0, 16)),
                          "more than one");
  expect_burnpack_refused(burnpack_of_one(descriptor("a164426f6f6c63553634", {4}, 0, 16)), ErrorCode::kUnsupported,
                          "U64");
  expect_burnpack_corrupt(burnpack_of_one(descriptor("01", {4}, 0, 16)), "tensor \"w\"");
  expect_burnpack_corrupt(burnpack_of_one(descriptor("a16651466c6f617466737472696e67", {4}, 0, 16)), "tensor \"w\"");
}

TEST(BurnpackHostile, Ranges) {
  expect_burnpack_corrupt(burnpack_of_one(descriptor(kF32Hex, {4}, 16, 0)), "end before they begin");
  expect_burnpack_corrupt(burnpack_of_one(descriptor(kF32Hex, {4}, 0, 15)), "do not span the 16 bytes");
  expect_burnpack_corrupt(burnpack_of_one(descriptor(kF32Hex, {4}, 0, 17), 17), "do not span the 16 bytes");
  expect_burnpack_corrupt(burnpack_of_one(descriptor(kF32Hex, {4}, UINT64_MAX - 16, UINT64_MAX)), "cut short");
  expect_burnpack_corrupt(burnpack_of_one(descriptor(kF32Hex, {4}, UINT64_MAX - 15, 0)), "end before they begin");
  expect_burnpack_corrupt(burnpack_of_one(descriptor(kU8Hex, {uint64_t{11} << 30}, 0, uint64_t{11} << 30)),
                          "cut short");
  expect_burnpack_corrupt(raw_tensor(kF32Hex, "8104", "822010"), "negative");
  expect_burnpack_corrupt(raw_tensor(kF32Hex, "8104", "8110"), "two numbers");
  expect_burnpack_corrupt(raw_tensor(kF32Hex, "8104", "80"), "two numbers");
  expect_burnpack_corrupt(raw_tensor(kF32Hex, "8120", "820010"), "negative");
  expect_burnpack_corrupt(raw_tensor(kF32Hex, "81f94400", "820010"), "a simple value");
  EXPECT_TRUE(check_survives(kBurnpackDriver, raw_tensor(kF32Hex, "4104", "8300101818"), "three offsets"));
}

TEST(BurnpackHostile, Shapes) {
  constexpr uint64_t kHuge = uint64_t{1} << 40;
  EXPECT_TRUE(
      check_survives(kBurnpackDriver, burnpack_of_one(descriptor(kF32Hex, {0, kHuge, kHuge}, 0, 0)), "zero first"));
  expect_burnpack_corrupt(burnpack_of_one(descriptor(kF32Hex, {kHuge, kHuge, 0}, 0, 0)), "exceeds 2^64");
  expect_burnpack_corrupt(burnpack_of_one(descriptor(kF32Hex, {kHuge, kHuge}, 0, 0)), "exceeds 2^64");
  expect_burnpack_corrupt(burnpack_of_one(descriptor(kF32Hex, {uint64_t{1} << 62}, 0, 0)), "exceeds 2^64");
  const std::vector<uint64_t> rank_64(64, 1);
  EXPECT_TRUE(check_survives(kBurnpackDriver, burnpack_of_one(descriptor(kU8Hex, rank_64, 0, 1)), "rank 64"));
  const std::vector<uint64_t> rank_65(65, 1);
  expect_burnpack_refused(burnpack_of_one(descriptor(kU8Hex, rank_65, 0, 1)), ErrorCode::kUnsupported, "more than 64");
  const std::string bytes_65 = "5841" + std::string(130, '1');
  expect_burnpack_refused(raw_tensor(kU8Hex, bytes_65, "820001"), ErrorCode::kUnsupported, "more than 64");
}

TEST(BurnpackHostile, QuantisedTensorsOfAnyLengthAreCarried) {
  CborWriter dtype;
  dtype.map(1).text("QFloat").map(3).text("value").text("Q4S").text("mode").text("Symmetric").text("store");
  dtype.map(1).text("PackedU32").unsigned_number(UINT64_MAX);
  const std::string digits = to_hex(as_bytes(dtype.bytes()));
  for (const uint64_t size : {0, 1, 3, 16}) {
    const ByteVector bytes = burnpack_of_one(descriptor(digits, {3, uint64_t{1} << 63, 5}, 0, size), size);
    EXPECT_TRUE(check_survives(kBurnpackDriver, bytes, "odd length"));
    EXPECT_EQ(open_bytes(kBurnpackDriver, bytes)->tensors()[0].byte_size, size);
  }
}

TEST(BurnpackHostile, Descriptors) {
  expect_burnpack_corrupt(with_metadata("01"), "a map should stand");
  expect_burnpack_corrupt(with_metadata("a16774656e736f727380"), "a map should stand");
  expect_burnpack_corrupt(with_metadata("a16774656e736f7273a101a0"), "text should stand");
  expect_burnpack_corrupt(with_metadata("a16774656e736f7273a1617701"), "tensor \"w\"");
  expect_burnpack_corrupt(with_metadata("a16774656e736f7273a16177a0"), "lacks \"dtype\"");
  expect_burnpack_corrupt(with_metadata("a16774656e736f7273a161ffa0"), "not UTF-8");
  expect_burnpack_corrupt(burnpack_of_one(std::string(as_text(from_hex("a2 656474797065 625538 656474797065 625538")))),
                          "twice");
  MetadataText with_id;
  with_id.add(CborWriter().map(4).text("dtype").text("U8").text("shape").array(0).text("data_offsets").array(2));
  with_id.add(CborWriter().unsigned_number(0).unsigned_number(1).text("param_id").signed_number(-1));
  expect_burnpack_corrupt(burnpack_of_one(with_id.bytes), "negative");
}

TEST(BurnpackHostile, MetadataAndScalars) {
  const auto scalars = [](std::string_view value) {
    MetadataText text;
    text.add(CborWriter().map(2).text("tensors").map(0).text("scalars").map(1).text("s")).hex(value);
    return burnpack_file(to_byte_vector(text.bytes), {});
  };
  expect_burnpack_corrupt(scalars("01"), "a map should stand");
  expect_burnpack_corrupt(scalars("a0"), "empty map");
  expect_burnpack_corrupt(scalars("a163496e741b8000000000000000"), "64 bits");
  expect_burnpack_corrupt(scalars("a16455496e7420"), "negative");
  expect_burnpack_corrupt(scalars("a165466c6f617401"), "floating-point");
  expect_burnpack_corrupt(scalars("a164426f6f6c01"), "true or false");
  expect_burnpack_corrupt(scalars("a263496e740163496e7401"), "more than one");
  expect_burnpack_refused(scalars("a1645465787460"), ErrorCode::kUnsupported, "\"Text\"");
  const auto largest = open_bytes(kBurnpackDriver, scalars("a16455496e741bffffffffffffffff"));
  EXPECT_EQ(largest->description().metadata[0], (MetaEntry{"s", UINT64_MAX}));
  const auto half = open_bytes(kBurnpackDriver, scalars("a165466c6f6174f93c00"));
  EXPECT_EQ(half->description().metadata[0], (MetaEntry{"s", 1.0}));
  const auto infinity = open_bytes(kBurnpackDriver, scalars("a165466c6f6174fb7ff0000000000000"));
  EXPECT_TRUE(infinity.has_value());
  expect_burnpack_corrupt(with_metadata("a26774656e736f7273a0686d65746164617461f6"), "a map should stand");
  expect_burnpack_corrupt(with_metadata("a26774656e736f7273a0686d65746164617461a1616101"), "text should stand");
}

// ---------------------------------------------------------------- many

// Tensors "0", "1", ... of one byte each, all at the same place, the shortest descriptors there are.
ByteVector burnpack_of_many(size_t count) {
  std::vector<NamedDescriptor> tensors;
  for (size_t i = 0; i < count; ++i) tensors.push_back({std::to_string(i), descriptor(kU8Hex, {}, 0, 1)});
  return burnpack_file(tensors_metadata(tensors), nonzero_bytes(1));
}

TEST(BurnpackHostile, TooManyTensors) {
  EXPECT_TRUE(check_survives(kBurnpackDriver, burnpack_of_many(100'000), "100,000 tensors"));
  expect_burnpack_refused(burnpack_of_many(100'001), ErrorCode::kUnsupported, "100001 tensors");
}

TEST(BurnpackHostile, ManyTensorsOfOneName) {
  std::vector<NamedDescriptor> tensors(50'000, {"same", descriptor(kU8Hex, {}, 0, 1)});
  const ByteVector bytes = burnpack_file(tensors_metadata(tensors), nonzero_bytes(1));
  EXPECT_TRUE(check_survives(kBurnpackDriver, bytes, "one name"));
  EXPECT_EQ(open_bytes(kBurnpackDriver, bytes)->tensors().size(), 1U);
}

TEST(BurnpackHostile, ManyTinyMetadataEntries) {
  const auto entries = [](size_t count) {
    std::string bytes;
    bytes += CborWriter().map(2).text("tensors").map(0).text("metadata").map(count).bytes();
    bytes.append(count * 2, '\x60');  // "" -> ""
    return burnpack_file(as_bytes(bytes), {});
  };
  EXPECT_TRUE(check_survives(kBurnpackDriver, entries(100'000), "many entries"));
  expect_burnpack_refused(entries(1'000'000), ErrorCode::kUnsupported, "1000000 entries");
}

TEST(BurnpackHostile, ManyDimensions) {
  const std::vector<uint64_t> dims(64, 1);
  std::vector<NamedDescriptor> tensors;
  for (size_t i = 0; i < 20'000; ++i) tensors.push_back({std::to_string(i), descriptor(kU8Hex, dims, 0, 1)});
  expect_burnpack_refused(burnpack_file(tensors_metadata(tensors), nonzero_bytes(1)), ErrorCode::kUnsupported,
                          "more than 1048576 dimensions");
}

TEST(BurnpackHostile, OneVeryLongName) {
  const ByteVector bytes =
      burnpack_file(tensors_metadata({{std::string(10 << 20, 'n'), descriptor(kU8Hex, {}, 0, 1)}}), nonzero_bytes(1));
  EXPECT_TRUE(check_survives(kBurnpackDriver, bytes, "a name of 10 MiB"));
}

}  // namespace
}  // namespace ballast
