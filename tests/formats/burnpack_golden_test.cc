// Bytes that Burn's own encoder (serde with ciborium) makes of known content.
#include <gtest/gtest.h>

#include <cmath>

#include "ballast/formats/burnpack/burn_quant.h"
#include "tests/support/burnpack_files.h"
#include "tests/support/format_testing.h"
#include "tests/support/sha256.h"

namespace ballast {
namespace {

using namespace ballast::testing;

// The metadata of the file that is written for this, as hexadecimal digits.
std::string written_metadata(const Description& description) {
  BlankFeed feed(description);
  const auto file = encode(kBurnpackDriver, description, feed, {});
  EXPECT_TRUE(file) << file.error().message;
  const auto size = load_le<uint32_t>(file->data() + 6);
  return to_hex(ByteSpan(*file).subspan(10, size));
}

TEST(BurnpackGolden, WholeFileWithMetadataAndId) {
  Description description;
  description.tensors = {plain_tensor("weight", DType::kF32, {2, 2}, 42)};
  description.metadata = {{"producer", "burn-pack docs"}};
  PayloadFeed feed({from_hex("0000803f 00000040 00004040 00008040")});
  const auto file = encode(kBurnpackDriver, description, feed, {});
  ASSERT_TRUE(file);
  EXPECT_EQ(file->size(), 272U);
  EXPECT_EQ(to_hex(ByteSpan(*file).first(10)), "4e525542010062000000");
  EXPECT_EQ(sha256_hex(*file), "d295c59b6577aeef77ce4cd04f81de73fd906304553bd1091bb9449a7fa1ecb4");
}

TEST(BurnpackGolden, WholeFileWhoseOrderOnDiskIsNotThatOfTheNames) {
  Description description;
  description.tensors = {plain_tensor("b", DType::kF32, {3}), plain_tensor("a", DType::kI64, {}, 7)};
  PayloadFeed feed({from_hex("0000803f 00000040 00004040"), from_hex("ffffffffffffffff")});
  const auto file = encode(kBurnpackDriver, description, feed, {});
  ASSERT_TRUE(file);
  EXPECT_EQ(file->size(), 520U);
  EXPECT_EQ(sha256_hex(*file), "d603fd5271c47dc582b4d5f5083842fc46139d253521776802ba6003d969c0b4");
}

TEST(BurnpackGolden, MetadataOfPlainTensors) {
  Description description;
  EXPECT_EQ(written_metadata(description), "a16774656e736f7273a0");
  description.tensors = {plain_tensor("weight", DType::kF32, {2, 2})};
  EXPECT_EQ(written_metadata(description),
            "a16774656e736f7273a166776569676874a3656474797065634633326573686170658202026c646174615f6f66667365747382"
            "0010");
  description.tensors[0].param_id = 42;
  description.metadata = {{"producer", "burn-pack docs"}};
  EXPECT_EQ(written_metadata(description),
            "a26774656e736f7273a166776569676874a4656474797065634633326573686170658202026c646174615f6f66667365747382"
            "001068706172616d5f6964182a686d65746164617461a16870726f64756365726e6275726e2d7061636b20646f6373");
}

TEST(BurnpackGolden, MetadataOfARankZeroTensorWithTheLargestId) {
  // The golden descriptor stands alone but at offset 256, which no writer gives a first tensor.
  const std::string golden =
      "a16774656e736f7273a16173a465647479706563493634657368617065806c646174615f6f6666736574738219010019010868706172616d"
      "5f69641bffffffffffffffff";
  const auto archive = open_bytes(kBurnpackDriver, burnpack_file(from_hex(golden), nonzero_bytes(264)));
  ASSERT_TRUE(archive) << archive.error().message;
  EXPECT_EQ(archive->tensors()[0].param_id, UINT64_MAX);
  EXPECT_EQ(archive->tensors()[0].shape.rank(), 0U);
  EXPECT_EQ(archive->extent(0).offset, 512U);
  Description description;
  description.tensors = {plain_tensor("before", DType::kU8, {1}), plain_tensor("s", DType::kI64, {}, UINT64_MAX)};
  const std::string ours = written_metadata(description);
  EXPECT_NE(ours.find(golden.substr(golden.find("6173a4"))), std::string::npos);
}

TEST(BurnpackGolden, MetadataOfScalars) {
  Description description;
  const double widened = 1e-8F;
  description.metadata = {
      {"l", 65505.0}, {"a", int64_t{-5}}, {"b", uint64_t{300}},
      {"c", 1.5},     {"d", 0.1},         {"e", widened},
      {"f", true},    {"h", HUGE_VAL},    {"g", std::bit_cast<double>(uint64_t{0x7ff8000000000000})},
      {"i", -0.0},    {"j", int64_t{5}},  {"k", 65504.0},
  };
  const std::string golden =
      "a26774656e736f7273a0677363616c617273ac6161a163496e74246162a16455496e7419012c6163a165466c6f6174f93e006164a165466c"
      "6f6174fb3fb999999999999a6165a165466c6f6174fa322bcc776166a164426f6f6cf56167a165466c6f6174f97e006168a165466c6f6174"
      "f97c006169a165466c6f6174f98000616aa163496e7405616ba165466c6f6174f97bff616ca165466c6f6174fa477fe100";
  EXPECT_EQ(written_metadata(description), golden);
  const auto archive = open_bytes(kBurnpackDriver, burnpack_file(from_hex(golden), {}));
  ASSERT_TRUE(archive) << archive.error().message;
  ASSERT_EQ(archive->description().metadata.size(), 12U);
  EXPECT_EQ(archive->description().metadata[0], (MetaEntry{"a", int64_t{-5}}));
  EXPECT_EQ(archive->description().metadata[1], (MetaEntry{"b", uint64_t{300}}));
  EXPECT_EQ(archive->description().metadata[8], (MetaEntry{"i", -0.0}));
}

TEST(BurnpackGolden, MetadataOfThreeHundredTensors) {
  Description description;
  for (int i = 0; i < 300; ++i) {
    const std::string digits = std::to_string(i);
    description.tensors.push_back(plain_tensor("t" + std::string(4 - digits.size(), '0') + digits, DType::kF32, {1}));
  }
  const std::string metadata = written_metadata(description);
  EXPECT_EQ(metadata.substr(0, 80), "a16774656e736f7273b9012c657430303030a36564747970656346333265736861706581016c6461");
}

// Reads one dtype, and gives back what is written for the same tensor.
struct ReadDType {
  TensorInfo info;
  std::string written;
};
ReadDType read_dtype(std::string_view golden, const Shape& shape, uint64_t byte_size) {
  const ByteVector cbor =
      tensors_metadata({{"w", descriptor(golden, {shape.dims().begin(), shape.dims().end()}, 0, byte_size)}});
  const auto archive = open_bytes(kBurnpackDriver, burnpack_file(cbor, nonzero_bytes(byte_size)));
  EXPECT_TRUE(archive) << archive.error().message;
  if (!archive) return {};
  const std::string metadata = written_metadata(archive->description());
  const std::string before = to_hex(as_bytes("dtype"));
  const std::string after = "65" + to_hex(as_bytes("shape"));
  const size_t begin = metadata.find(before) + before.size();
  return {archive->tensors()[0], metadata.substr(begin, metadata.find(after) - begin)};
}

TEST(BurnpackGolden, PlainDTypes) {
  const std::pair<std::string, std::pair<DType, uint64_t>> cases[] = {
      {"63463634", {DType::kF64, 8}},
      {"66466c65783332", {DType::kFlex32, 4}},
      {"6442463136", {DType::kBF16, 2}},
      {"a164426f6f6c664e6174697665", {DType::kBool, 1}},
      {"a164426f6f6c625538", {DType::kBool, 1}},
      {"a164426f6f6c63553332", {DType::kBool32, 4}},
      {"64426f6f6c", {DType::kBool, 1}},
  };
  for (const auto& [golden, expected] : cases) {
    const ReadDType read = read_dtype(golden, {1}, expected.second);
    EXPECT_EQ(read.info.dtype, expected.first) << golden;
    EXPECT_EQ(read.written, golden);
  }
}

TEST(BurnpackGolden, QuantisationSchemesOfEveryGeneration) {
  struct Case {
    std::string_view golden, scheme, form;
  };
  const Case cases[] = {
      {"a16651466c6f6174a56576616c75656351384665706172616d634633326573746f7265a1695061636b656455333200656c6576656c66546"
       "56e"
       "736f72646d6f64656953796d6d6574726963",
       "q8f:packed_u32=0:symmetric:tensor=f32", "qfloat=0.20"},
      {"a16651466c6f6174a56576616c75656351385365706172616d634633326573746f7265664e6174697665656c6576656ca165426c6f636ba"
       "267"
       "73746f7261676585182001010101636c656e01646d6f64656953796d6d6574726963",
       "q8s:native:symmetric:block=32/f32", "qfloat=0.20"},
      {"a16651466c6f6174a56576616c75656445324d3165706172616d655545344d336573746f7265a16c5061636b65644e617469766500656c6"
       "576"
       "656ca16b426c6f636b54656e736f72a265626c6f636ba26773746f7261676585182001010101636c656e0166676c6f62616c63463332646"
       "d"
       "6f64656953796d6d6574726963",
       "e2m1:packed_native=0:symmetric:block=32/ue4m3:tensor=f32", "qfloat=0.22-pre.2"},
      {"a16651466c6f6174a56576616c7565635138466573746f7265a1695061636b656455333200646d6f64656953796d6d65747269636674656"
       "e73"
       "6f72f665626c6f636bf6",
       "q8f:packed_u32=0:symmetric:tensor=f32", "qfloat=implied"},
      {"a16651466c6f6174a56576616c7565635138466573746f7265664e6174697665646d6f64656953796d6d65747269636674656e736f72f66"
       "562"
       "6c6f636ba26473697a65a26773746f7261676585182001010101636c656e0165647479706563463332",
       "q8f:native:symmetric:block=32/f32", ""},
      {"a16651466c6f6174a56576616c7565635134466573746f7265a1695061636b656455333200646d6f64656953796d6d65747269636674656"
       "e73"
       "6f726346333265626c6f636ba26473697a65a26773746f7261676585182001010101636c656e01656474797065655545344d33",
       "q4f:packed_u32=0:symmetric:block=32/ue4m3:tensor=f32", ""},
  };
  for (const auto& [golden, scheme, form] : cases) {
    const ReadDType read = read_dtype(golden, {4, 32}, 77);
    EXPECT_EQ(read.info.dtype, DType::kQFloat);
    EXPECT_EQ(read.info.scheme(), scheme);
    EXPECT_EQ(read.info.stored_form(), form);
    EXPECT_EQ(read.info.byte_size, 77U) << "the length is data";
    EXPECT_EQ(read.written, golden);
  }
}

// ---------------------------------------------------------------- what ciborium's decoder takes and refuses

constexpr std::string_view kTensorsKey = "67 74656e736f7273";
constexpr std::string_view kA = "6161";

Result<Archive> open_metadata(const std::string& digits) {
  return open_bytes(kBurnpackDriver, burnpack_file(from_hex(digits), nonzero_bytes(8)));
}

// {"tensors": {"a": {"dtype": "F32", "shape": <shape>, "data_offsets": <offsets> <more>}}}
std::string hex_of_one_tensor(const std::string& shape, const std::string& offsets, const std::string& more = "") {
  return "a1" + std::string(kTensorsKey) + "a1" + std::string(kA) + (more.empty() ? "a3" : "a4") + "65 6474797065" +
         std::string(kF32Hex) + "65 7368617065" + shape + "6c 646174615f6f666673657473" + offsets + more;
}

bool opens_as_two_floats(const std::string& digits) {
  const auto archive = open_metadata(digits);
  return archive && archive->tensors().size() == 1 && archive->tensors()[0].byte_size == 8 &&
         !archive->tensors()[0].param_id;
}

TEST(BurnpackGolden, ForeignSpellingsThatBurnTakes) {
  const std::string tensors = std::string(kTensorsKey) + "a0";
  EXPECT_TRUE(open_metadata("a1" + tensors));
  EXPECT_TRUE(open_metadata("a2 6178 01" + tensors)) << "unknown key";
  EXPECT_TRUE(open_metadata("bf" + tensors + "ff")) << "indefinite map";
  EXPECT_TRUE(open_metadata("a1" + tensors + "deadbeef")) << "bytes after the end";
  EXPECT_TRUE(open_metadata("d9d9f7 a1" + tensors)) << "tagged";
  EXPECT_TRUE(opens_as_two_floats(hex_of_one_tensor("8102", "820008")));
  EXPECT_TRUE(opens_as_two_floats(hex_of_one_tensor("8102", "820008", "68706172616d5f6964 f6"))) << "param_id null";
  EXPECT_TRUE(opens_as_two_floats(hex_of_one_tensor("9900011b0000000000000002", "98021800190008"))) << "long numbers";
  EXPECT_TRUE(opens_as_two_floats(hex_of_one_tensor("420201", "820008"))) << "shape as bytes";
  EXPECT_TRUE(opens_as_two_floats(hex_of_one_tensor("8102", "83000807"))) << "three offsets";
}

TEST(BurnpackGolden, ForeignSpellingsThatBurnRefuses) {
  const std::string tensors = std::string(kTensorsKey) + "a0";
  EXPECT_FALSE(open_metadata("a0")) << "no tensors";
  EXPECT_FALSE(open_metadata("a2" + tensors + tensors)) << "twice";
  EXPECT_FALSE(open_metadata("a2" + tensors + "68 6d65746164617461 f6")) << "metadata null";
  EXPECT_FALSE(open_metadata("a2" + tensors + "68 6d65746164617461 a1 6161 01")) << "metadata that is not text";
  EXPECT_FALSE(open_metadata(hex_of_one_tensor("8102", "8100"))) << "one offset";
  EXPECT_FALSE(open_metadata(hex_of_one_tensor("8102", "822008"))) << "a negative offset";
  EXPECT_FALSE(open_metadata("a1" + std::string(kTensorsKey) + "a16161a2 656474797065 63463332 657368617065 8102"))
      << "no data_offsets";
}

// Where Burn refuses and we need not.
TEST(BurnpackGolden, ForeignSpellingsThatOnlyWeTake) {
  EXPECT_TRUE(open_metadata("a1 7f 6374656e 64736f7273 ff a0")) << "a key in pieces";
}

}  // namespace
}  // namespace ballast
