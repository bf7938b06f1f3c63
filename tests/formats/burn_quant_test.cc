#include "ballast/formats/burnpack/burn_quant.h"

#include <gtest/gtest.h>

#include "tests/support/format_testing.h"

namespace ballast {
namespace {

using testing::from_hex;

constexpr std::string_view kQuantTexts[] = {
    "q8f:native:symmetric:tensor=f32",
    "e5m2:native:symmetric:tensor=f16",
    "e4m3:native:symmetric:block=32/ue8m0",
    "q4f:packed_u32=0:lookup:block=16/f16",
    "e2m1:packed_native=0:symmetric:block=16/ue4m3:tensor=f32",
    "q2f:packed_u32=3:symmetric:block=2x32/f32",
    "q8s:packed_u32=18446744073709551615:symmetric:tensor=ue4m3",
    "q4s:packed_u32=1:symmetric:block=1x2x3x4x255/bf16:tensor=bf16",
    "q2s:packed_u32=0:symmetric:tensor=bf16",
};

QuantScheme scheme_of(std::string_view text) {
  const auto scheme = parse_quant_scheme(text);
  EXPECT_TRUE(scheme) << text;
  return scheme.value_or(QuantScheme());
}

std::string spelled(const QuantScheme& scheme, QuantSpelling spelling) {
  CborWriter cbor;
  write_quant_scheme(cbor, scheme, spelling);
  return cbor.take();
}

Result<SpelledScheme> read_scheme(std::string_view bytes) {
  CborReader cbor(as_bytes(bytes), "scheme");
  return read_quant_scheme(cbor);
}

TEST(QuantScheme, HasOneTextThatGivesItBack) {
  for (const std::string_view text : kQuantTexts) EXPECT_EQ(quant_scheme_text(scheme_of(text)), text);
}

TEST(QuantScheme, RefusesEveryOtherText) {
  for (const char* text : {"",
                           "q8f",
                           "q8f:native",
                           "q8f:native:symmetric",
                           "q9f:native:symmetric:tensor=f32",
                           "q8f:native=0:symmetric:tensor=f32",
                           "q8f:packed_u32:symmetric:tensor=f32",
                           "q8f:packed_u32=x:symmetric:tensor=f32",
                           "q8f:packed_u32=01:symmetric:tensor=f32",
                           "q8f:native:asymmetric:tensor=f32",
                           "q8f:native:symmetric:tensor=f64",
                           "q8f:native:symmetric:tensor=",
                           "q8f:native:symmetric:block=/f32",
                           "q8f:native:symmetric:block=0/f32",
                           "q8f:native:symmetric:block=256/f32",
                           "q8f:native:symmetric:block=1x1x1x1x1x1/f32",
                           "q8f:native:symmetric:block=32",
                           "q8f:native:symmetric:block=32x/f32",
                           "q8f:native:symmetric:tensor=f32:block=32/f32",
                           "q8f:native:symmetric:tensor=f32:tensor=f32",
                           "q8f:native:symmetric:tensor=f32:",
                           "q8f:native:symmetric:other=1:tensor=f32",
                           "Q8F:native:symmetric:tensor=f32"}) {
    EXPECT_FALSE(parse_quant_scheme(text)) << text;
  }
}

TEST(QuantScheme, MeansTheSameInEverySpellingThatCanSayIt) {
  for (const std::string_view text : kQuantTexts) {
    const QuantScheme scheme = scheme_of(text);
    for (const auto spelling : {QuantSpelling::k019, QuantSpelling::k020, QuantSpelling::k022Pre2, QuantSpelling::k022,
                                QuantSpelling::k022Implied}) {
      if (!can_spell(scheme, spelling)) continue;
      const auto again = read_scheme(spelled(scheme, spelling));
      ASSERT_TRUE(again) << text << ": " << again.error().message;
      EXPECT_EQ(again->scheme, scheme) << text;
      EXPECT_FALSE(again->unknown_keys);
    }
  }
}

TEST(QuantScheme, KnowsWhatEachBurnCanSay) {
  const auto says = [](std::string_view text, QuantSpelling spelling) { return can_spell(scheme_of(text), spelling); };
  EXPECT_TRUE(says("q8f:native:symmetric:tensor=f32", QuantSpelling::k019));
  EXPECT_TRUE(says("q8f:packed_u32=0:symmetric:tensor=f32", QuantSpelling::k019));
  EXPECT_FALSE(says("q8f:packed_u32=1:symmetric:tensor=f32", QuantSpelling::k019)) << "0.19 names no axis";
  EXPECT_TRUE(says("q8f:packed_u32=1:symmetric:tensor=f32", QuantSpelling::k020));
  EXPECT_FALSE(says("q4s:native:symmetric:block=2x2/f16:tensor=f32", QuantSpelling::k020)) << "two levels";
  EXPECT_TRUE(says("q4s:native:symmetric:block=2x2/f16:tensor=f32", QuantSpelling::k022Pre2));
  EXPECT_FALSE(says("q4f:packed_u32=0:lookup:block=16/f16", QuantSpelling::k022Pre2)) << "lookup";
  EXPECT_TRUE(says("q4f:packed_u32=0:lookup:block=16/f16", QuantSpelling::k022));
  EXPECT_TRUE(says("q8f:native:symmetric:tensor=f32", QuantSpelling::k022Implied));
  EXPECT_FALSE(says("q8f:native:symmetric:tensor=f16", QuantSpelling::k022Implied));
}

TEST(QuantScheme, ReadsBurn019sPackedStore) {
  const QuantScheme scheme = scheme_of("q8f:packed_u32=0:symmetric:tensor=f32");
  const auto read = read_scheme(spelled(scheme, QuantSpelling::k019));
  ASSERT_TRUE(read);
  EXPECT_EQ(read->spelling, QuantSpelling::k019);
  EXPECT_EQ(read->scheme, scheme);
}

TEST(QuantScheme, TakesMissingLevelsAndUnknownKeysAsBurnDoes) {
  CborWriter cbor;
  cbor.map(4).text("mode").text("Symmetric").text("extra").map(1).text("a").null();
  cbor.text("store").text("Native").text("value").text("Q8S");
  const auto read = read_scheme(cbor.bytes());
  ASSERT_TRUE(read) << read.error().message;
  EXPECT_TRUE(read->unknown_keys);
  EXPECT_EQ(quant_scheme_text(read->scheme), "q8s:native:symmetric:tensor=f32");
  EXPECT_EQ(read->spelling, QuantSpelling::k022Implied);
}

// Replaces one piece of a good spelling.
std::string spoiled(std::string_view text, QuantSpelling spelling, std::string_view piece, std::string_view by) {
  std::string bytes = spelled(scheme_of(text), spelling);
  const size_t at = bytes.find(piece);
  EXPECT_NE(at, std::string::npos);
  return bytes.replace(at, piece.size(), by);
}

TEST(QuantScheme, RefusesWhatItDoesNotKnow) {
  const std::string_view text = "q8s:packed_u32=0:symmetric:block=32/f16:tensor=f32";
  const auto error = [&](std::string_view piece, std::string_view by) {
    const auto read = read_scheme(spoiled(text, QuantSpelling::k022, piece, by));
    return read ? make_error(ErrorCode::kNotFound, "read") : read.error();
  };
  EXPECT_EQ(error("Q8S", "Q9S").code, ErrorCode::kUnsupported);
  EXPECT_EQ(error("PackedU32", "PackedU64").code, ErrorCode::kUnsupported);
  EXPECT_EQ(error("Symmetric", "Symmetrix").code, ErrorCode::kUnsupported);
  EXPECT_EQ(error("F16", "F61").code, ErrorCode::kUnsupported);
  EXPECT_EQ(error("mode", "mods").code, ErrorCode::kCorrupt) << "no mode";
  EXPECT_EQ(error("len\x01", std::string_view("len\x00", 4)).code, ErrorCode::kCorrupt) << "no dimensions";
  EXPECT_EQ(error("len\x01", "len\x06").code, ErrorCode::kCorrupt) << "six dimensions";
  EXPECT_EQ(error("\x18\x20", std::string_view("\x18\x00", 2)).code, ErrorCode::kCorrupt) << "a block of size 0";
  EXPECT_EQ(error("\x18\x20", "\x19\x01\x01").code, ErrorCode::kCorrupt) << "a block of size 257";
  EXPECT_EQ(error("\x85\x18\x20\x01", "\x84\x18\x20").code, ErrorCode::kCorrupt) << "four sizes";
}

TEST(QuantScheme, RefusesTheKeysOfTwoGenerationsTogether) {
  CborWriter cbor;
  cbor.map(5).text("value").text("Q8S").text("store").text("Native").text("mode").text("Symmetric");
  cbor.text("level").text("Tensor").text("tensor").text("F32");
  EXPECT_FALSE(read_scheme(cbor.bytes()));
  CborWriter no_param;
  no_param.map(4).text("value").text("Q8S").text("store").text("Native").text("mode").text("Symmetric");
  no_param.text("level").text("Tensor");
  EXPECT_FALSE(read_scheme(no_param.bytes()));
  CborWriter twice;
  twice.map(4).text("value").text("Q8S").text("value").text("Q8S").text("store").text("Native");
  twice.text("mode").text("Symmetric");
  EXPECT_FALSE(read_scheme(twice.bytes()));
}

struct Lengths {
  std::string_view scheme;
  Shape shape;
  uint64_t by_line;
  uint64_t flat;
};

TEST(QuantScheme, TellsTheLengthOfAPayload) {
  const Lengths cases[] = {
      {"q8s:native:symmetric:tensor=f32", {4, 64}, 260, 260},
      {"q8s:native:symmetric:block=2x16/f32", {4, 64}, 288, 288},
      {"q4f:native:symmetric:block=16/f16", {4, 64}, 288, 288},
      {"q4s:packed_u32=0:symmetric:tensor=f32", {3, 3}, 16, 12},
      {"q8s:packed_u32=0:symmetric:tensor=f32", {3, 3}, 16, 16},
      {"q4s:packed_u32=1:symmetric:block=2x16/f16:tensor=f32", {4, 32}, 140, 76},
      {"e2m1:packed_native=0:symmetric:block=16/ue4m3", {4, 32}, 72, 72},
      {"q2s:packed_u32=0:symmetric:tensor=bf16", {4, 32}, 34, 34},
      {"q8s:native:symmetric:block=1x32/f32", {40}, 48, 48},
      {"q8s:native:symmetric:block=1/f32", {}, 5, 5},
      {"q8s:native:symmetric:tensor=f32", {0, 7}, 4, 4},
  };
  for (const auto& [text, shape, by_line, flat] : cases) {
    const auto length = quant_length(scheme_of(text), shape);
    ASSERT_TRUE(length) << text;
    EXPECT_EQ(length->by_line, by_line) << text;
    EXPECT_EQ(length->flat, flat) << text;
  }
}

TEST(QuantScheme, HasNoLengthWhereItDoesNotFitTheShape) {
  const auto length = [](std::string_view text, const Shape& shape) { return quant_length(scheme_of(text), shape); };
  EXPECT_FALSE(length("q8s:packed_u32=2:symmetric:tensor=f32", {3, 3})) << "no such axis";
  EXPECT_FALSE(length("q8s:native:symmetric:block=2x32/f32", {40})) << "a block of two dimensions";
  EXPECT_FALSE(length("q8s:native:symmetric:tensor=f32", {uint64_t{1} << 40, uint64_t{1} << 40}));
  EXPECT_FALSE(length("q8s:native:symmetric:block=1/f32", {UINT64_MAX}));
}

}  // namespace
}  // namespace ballast
