#include "ballast/formats/burnpack/cbor.h"

#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <limits>
#include <random>

#include "tests/support/format_testing.h"

namespace ballast {
namespace {

using testing::from_hex;

std::string hex(const CborWriter& cbor) { return to_hex(as_bytes(cbor.bytes())); }

std::string hex_of_real(double value) { return hex(CborWriter().real(value)); }

// Keeps the bytes that its reader reads.
struct Bytes {
  ByteVector bytes;
  CborReader reader;
  explicit Bytes(std::string_view digits) : bytes(from_hex(digits)), reader(bytes, "test", 100) {}
};

Status skip(std::string_view digits) { return Bytes(digits).reader.skip_value(); }

std::string error_of_skip(std::string_view digits) {
  const Status status = skip(digits);
  return status ? "no error" : status.error().message;
}

TEST(CborWriter, WritesNumbersInTheShortestForm) {
  const std::pair<uint64_t, std::string> cases[] = {
      {0, "00"},
      {23, "17"},
      {24, "1818"},
      {255, "18ff"},
      {256, "190100"},
      {65535, "19ffff"},
      {65536, "1a00010000"},
      {4294967295, "1affffffff"},
      {4294967296, "1b0000000100000000"},
      {UINT64_MAX, "1bffffffffffffffff"},
  };
  for (const auto& [value, expected] : cases) EXPECT_EQ(hex(CborWriter().unsigned_number(value)), expected);
  EXPECT_EQ(hex(CborWriter().signed_number(-1)), "20");
  EXPECT_EQ(hex(CborWriter().signed_number(-24)), "37");
  EXPECT_EQ(hex(CborWriter().signed_number(-25)), "3818");
  EXPECT_EQ(hex(CborWriter().signed_number(INT64_MIN)), "3b7fffffffffffffff");
  EXPECT_EQ(hex(CborWriter().signed_number(5)), "05");
}

TEST(CborWriter, WritesTextContainersAndSimpleValues) {
  EXPECT_EQ(hex(CborWriter().text("")), "60");
  EXPECT_EQ(hex(CborWriter().text("é")), "62c3a9");
  EXPECT_EQ(hex(CborWriter().text(std::string(24, 'a'))).substr(0, 8), "78186161");
  EXPECT_EQ(hex(CborWriter().map(1).text("a").array(2).boolean(true).null()), "a1616182f5f6");
  EXPECT_EQ(hex(CborWriter().boolean(false)), "f4");
}

TEST(CborWriter, WritesFloatsInTheNarrowestFormWithTheSameBits) {
  EXPECT_EQ(hex_of_real(1.5), "f93e00");
  EXPECT_EQ(hex_of_real(0.1), "fb3fb999999999999a");
  EXPECT_EQ(hex_of_real(double{1e-8F}), "fa322bcc77");
  EXPECT_EQ(hex_of_real(std::bit_cast<double>(uint64_t{0x7ff8000000000000})), "f97e00");
  EXPECT_EQ(hex_of_real(HUGE_VAL), "f97c00");
  EXPECT_EQ(hex_of_real(-0.0), "f98000");
  EXPECT_EQ(hex_of_real(65504), "f97bff");
  EXPECT_EQ(hex_of_real(65505), "fa477fe100");
  EXPECT_EQ(hex_of_real(std::ldexp(1.0, -24)), "f90001") << "the smallest half";
  EXPECT_EQ(hex_of_real(std::ldexp(1.0, -25)), "fa33000000");
  EXPECT_EQ(hex_of_real(std::numeric_limits<double>::denorm_min()), "fb0000000000000001");
  EXPECT_EQ(hex_of_real(std::bit_cast<double>(uint64_t{0x7ff8000000000001})), "fb7ff8000000000001")
      << "a payload that only a double holds";
  EXPECT_EQ(hex_of_real(std::bit_cast<double>(uint64_t{0xfff8040000000000})), "f9fe01");
}

TEST(Cbor, EveryHalfAndManyDoublesComeBackWithTheSameBits) {
  for (uint32_t half = 0; half < 0x10000; ++half) {
    const ByteVector bytes = {std::byte{0xf9}, static_cast<std::byte>(half >> 8), static_cast<std::byte>(half)};
    const auto value = CborReader(bytes, "half").read_double();
    ASSERT_TRUE(value);
    const bool signalling = (half & 0x7c00) == 0x7c00 && (half & 0x3ff) != 0 && (half & 0x200) == 0;
    ASSERT_EQ(hex_of_real(*value),
              to_hex(ByteSpan(bytes).first(1)) +
                  to_hex(ByteVector{bytes[1] | (signalling ? std::byte{2} : std::byte{0}), bytes[2]}));
  }
  std::mt19937_64 random(1);
  for (int round = 0; round < 100'000; ++round) {
    const uint64_t bits = random();
    const auto value = std::bit_cast<double>(round % 2 == 0 ? bits : bits & ~uint64_t{0} << (bits % 53));
    CborWriter writer;
    writer.real(value);
    const auto again = CborReader(as_bytes(writer.bytes()), "double").read_double();
    ASSERT_TRUE(again);
    ASSERT_EQ(std::bit_cast<uint64_t>(*again), std::bit_cast<uint64_t>(value));
  }
}

TEST(CborReader, ReadsWhatTheWriterWrites) {
  CborWriter writer;
  writer.map(3).text("numbers").array(3).unsigned_number(UINT64_MAX).signed_number(-7).real(0.5);
  writer.text("flag").boolean(true).text("nothing").null();
  CborReader reader(as_bytes(writer.bytes()), "test");
  ASSERT_TRUE(reader.enter_map());
  EXPECT_EQ(*reader.count_ahead(), 3U);
  ASSERT_TRUE(*reader.next());
  EXPECT_EQ(*reader.read_text(), "numbers");
  EXPECT_EQ(*reader.peek(), CborType::kArray);
  ASSERT_TRUE(reader.enter_array());
  ASSERT_TRUE(*reader.next());
  EXPECT_EQ(*reader.read_u64(), UINT64_MAX);
  ASSERT_TRUE(*reader.next());
  EXPECT_EQ(*reader.read_i64(), -7);
  ASSERT_TRUE(*reader.next());
  EXPECT_EQ(*reader.read_double(), 0.5);
  EXPECT_FALSE(*reader.next());
  ASSERT_TRUE(*reader.next());
  EXPECT_EQ(*reader.read_text(), "flag");
  EXPECT_TRUE(*reader.read_bool());
  ASSERT_TRUE(*reader.next());
  EXPECT_EQ(*reader.read_text(), "nothing");
  EXPECT_TRUE(reader.read_null());
  EXPECT_FALSE(*reader.next());
  EXPECT_TRUE(reader.at_end());
  EXPECT_FALSE(reader.oddity());
}

TEST(CborReader, TakesIndefiniteLengthsTagsAndLongNumbersAndSaysSo) {
  Bytes list("9f 01 1800 9bffff");  // the last head is cut short
  ASSERT_TRUE(list.reader.enter_array());
  ASSERT_TRUE(*list.reader.next());
  EXPECT_EQ(*list.reader.read_u64(), 1U);
  EXPECT_EQ(*list.reader.read_u64(), 0U);
  EXPECT_EQ(list.reader.oddity()->what, "an indefinite length");
  EXPECT_EQ(list.reader.oddity()->offset, 100U);
  EXPECT_FALSE(list.reader.enter_array());

  Bytes text("7f 6161 60 62c3a9 ff");
  EXPECT_EQ(*text.reader.read_text(), "aé");
  EXPECT_TRUE(text.reader.at_end());

  Bytes bytes("5f 4101 420203 ff");
  EXPECT_EQ(to_hex(*bytes.reader.read_bytes()), "010203");

  Bytes tagged("d9d9f7 c0 05");
  EXPECT_EQ(*tagged.reader.peek(), CborType::kUnsigned);
  EXPECT_EQ(*tagged.reader.read_u64(), 5U);
  EXPECT_EQ(tagged.reader.oddity()->what, "a tag");

  Bytes number("1b0000000000000007");
  EXPECT_EQ(*number.reader.read_u64(), 7U);
  EXPECT_EQ(number.reader.oddity()->what, "a number longer than needed");
}

TEST(CborReader, CountsAheadWithoutMoving) {
  Bytes map("bf 6161 9f0102ff 6162 a0 ff 05");
  ASSERT_TRUE(map.reader.enter_map());
  EXPECT_EQ(*map.reader.count_ahead(), 2U);
  ASSERT_TRUE(*map.reader.next());
  EXPECT_EQ(*map.reader.read_text(), "a");
  Bytes lying("a4 6161 01 6162 02");
  EXPECT_FALSE(lying.reader.enter_map()) << "four entries cannot stand in six bytes";
  Bytes short_of_one("83 01 6161");
  ASSERT_TRUE(short_of_one.reader.enter_array());
  EXPECT_FALSE(short_of_one.reader.count_ahead());
}

TEST(CborReader, SaysWhatAContainerClaimsToHold) {
  Bytes map("a2 6161 01 6162 02");
  ASSERT_TRUE(map.reader.enter_map());
  EXPECT_EQ(map.reader.claimed_entries(), 2U);
  Bytes array("8301");
  EXPECT_FALSE(array.reader.enter_array()) << "three items cannot stand in one byte";
  Bytes indefinite("9f 01 ff");
  ASSERT_TRUE(indefinite.reader.enter_array());
  EXPECT_EQ(indefinite.reader.claimed_entries(), std::nullopt);
}

TEST(CborReader, ReadsNumbersOfEveryWidthAndNotesThoseThatAreTooLong) {
  struct Case {
    const char* text;
    uint64_t value;
    bool odd;
  };
  for (const Case& c :
       {Case{"17", 23, false}, Case{"1818", 24, false}, Case{"1817", 23, true}, Case{"18ff", 255, false},
        Case{"190100", 256, false}, Case{"1900ff", 255, true}, Case{"1a00010000", 65536, false},
        Case{"1a0000ffff", 65535, true}, Case{"1b0000000100000000", uint64_t{1} << 32, false},
        Case{"1b00000000ffffffff", 0xFFFFFFFF, true}}) {
    Bytes bytes(c.text);
    EXPECT_EQ(bytes.reader.read_u64().value(), c.value) << c.text;
    EXPECT_EQ(bytes.reader.oddity().has_value(), c.odd) << c.text;
    EXPECT_TRUE(bytes.reader.at_end());
  }
  for (const char* text : {"", "18", "1901", "1a010203", "1b01020304050607", "1c", "1f", "ff"}) {
    EXPECT_FALSE(Bytes(text).reader.read_u64()) << text;
  }
}

TEST(CborReader, RefusesValuesOfAnotherType) {
  EXPECT_FALSE(Bytes("20").reader.read_u64()) << "negative";
  EXPECT_FALSE(Bytes("6161").reader.read_u64());
  EXPECT_FALSE(Bytes("01").reader.read_text());
  EXPECT_FALSE(Bytes("4161").reader.read_text()) << "bytes are not text";
  EXPECT_FALSE(Bytes("01").reader.read_double()) << "a whole number";
  EXPECT_FALSE(Bytes("f7").reader.read_null()) << "undefined";
  EXPECT_FALSE(Bytes("f6").reader.read_bool());
  EXPECT_FALSE(Bytes("1b8000000000000000").reader.read_i64()) << "2^63";
  EXPECT_FALSE(Bytes("3b8000000000000000").reader.read_i64());
  EXPECT_EQ(*Bytes("3b7fffffffffffffff").reader.read_i64(), INT64_MIN);
  EXPECT_FALSE(Bytes("80").reader.enter_map());
  EXPECT_FALSE(Bytes("a0").reader.enter_array());
  EXPECT_EQ(Bytes("20").reader.read_u64().error().message,
            "test: byte 100: a negative number where a number of 0 or more should stand");
}

TEST(CborReader, AllocatesNothingOnALengthThatLies) {
  for (const char* digits : {"9bffffffffffffffff", "bbffffffffffffffff", "9b7fffffffffffffff00", "bb800000000000000000",
                             "7bffffffffffffffff61", "5bffffffffffffffff61", "9a0000ffff01", "7f7bffffffffffffffff"}) {
    EXPECT_NE(error_of_skip(digits).find("claims"), std::string::npos) << digits;
  }
}

TEST(CborReader, RefusesMalformedHeads) {
  for (const char* digits :
       {"1c",     "1d",   "1e",   "1f",       "3f",       "df",     "ff",     "fc",           "fd",
        "fe",     "f800", "f81f", "18",       "19ff",     "fb0000", "7f01ff", "7f7f6161ffff", "5f6161ff",
        "62ff61", "61ff", "9f01", "bf616101", "bf6161ff", "81ff",   "a1ff00", "8201ff",       ""}) {
    EXPECT_FALSE(skip(digits)) << digits;
  }
  EXPECT_TRUE(skip("f8ff")) << "a simple value that nobody has given a meaning yet";
  EXPECT_TRUE(skip("f7")) << "undefined";
  EXPECT_NE(error_of_skip("bf6161ff").find("between a key and its value"), std::string::npos);
}

TEST(CborReader, HoldsContainers128DeepAndNoDeeper) {
  const auto nested = [](size_t depth, const char* head) {
    std::string digits;
    for (size_t i = 0; i < depth; ++i) digits += head;
    return digits;
  };
  EXPECT_TRUE(skip(nested(127, "81") + "80"));
  EXPECT_TRUE(skip(nested(128, "81") + "00"));
  EXPECT_NE(error_of_skip(nested(129, "81") + "00").find("128 deep"), std::string::npos);
  EXPECT_NE(error_of_skip(nested(129, "9f")).find("128 deep"), std::string::npos);
  EXPECT_NE(error_of_skip(nested(200'000, "a100")).find("128 deep"), std::string::npos);
  EXPECT_TRUE(skip(nested(200'000, "c1") + "00")) << "tags nest without containers";
}

TEST(CborReader, FindsEveryTruncation) {
  const ByteVector whole = from_hex("a3616183011903e8fb3fb999999999999a61627f6161ff6163a1f4f90000");
  ASSERT_TRUE(CborReader(whole, "whole").skip_value());
  for (size_t length = 0; length < whole.size(); ++length) {
    CborReader reader(ByteSpan(whole).first(length), "cut");
    EXPECT_FALSE(reader.skip_value()) << length;
  }
}

TEST(CborReader, GivesTheBytesOfAValue) {
  Bytes list("83 01 a16161 02 03");
  ASSERT_TRUE(list.reader.enter_array());
  ASSERT_TRUE(list.reader.skip_value());
  const uint64_t start = list.reader.offset();
  ASSERT_TRUE(list.reader.skip_value());
  EXPECT_EQ(to_hex(list.reader.since(start)), "a1616102");
}

TEST(CborReader, TakesVariantsOfExactlyOneEntry) {
  Bytes good("a1 63496e74 05");
  ASSERT_TRUE(good.reader.enter_variant());
  EXPECT_EQ(*good.reader.read_text(), "Int");
  EXPECT_EQ(*good.reader.read_u64(), 5U);
  EXPECT_TRUE(good.reader.leave_variant());
  EXPECT_FALSE(Bytes("a0").reader.enter_variant());
  Bytes two("a2 6161 05 6162 06");
  ASSERT_TRUE(two.reader.enter_variant());
  ASSERT_TRUE(two.reader.skip_value());
  ASSERT_TRUE(two.reader.skip_value());
  EXPECT_FALSE(two.reader.leave_variant());
}

}  // namespace
}  // namespace ballast
