// Files of gguf-py and ggml: read as their sidecars say, and written again byte for byte.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <bit>
#include <filesystem>

#include "ballast/base/json.h"
#include "ballast/formats/drivers.h"
#include "ballast/formats/gguf/gguf.h"
#include "tests/support/format_testing.h"
#include "tests/support/json_path.h"
#include "tests/support/sha256.h"
#include "tests/support/temp_folder.h"
#include "tests/support/test_files.h"

namespace ballast::testing {
namespace {

std::string sidecar_text(const std::string& path) { return read_text_file(test_file_path(path)); }

std::string unquoted(const std::string& raw) {
  JsonReader reader(raw, "sidecar");
  const auto text = reader.read_string();
  return text ? *text : raw;
}

// The raw texts of the elements of the array at `path`.
std::vector<std::string> elements_at(const std::string& json, const std::string& path) {
  const std::string array = json_at(json, path);
  JsonReader reader(array, path);
  std::vector<std::string> elements;
  EXPECT_TRUE(reader.enter_array()) << "no array at " << path;
  while (reader.next_element().value()) elements.emplace_back(reader.read_raw().value());
  return elements;
}

// Sidecars write what JSON numbers cannot hold as text.
double number_in(const std::string& raw) {
  const std::string text = unquoted(raw);
  if (text == "nan") return std::numeric_limits<double>::quiet_NaN();
  if (text == "inf") return std::numeric_limits<double>::infinity();
  if (text == "-inf") return -std::numeric_limits<double>::infinity();
  return std::strtod(text.c_str(), nullptr);
}

bool same_number(double a, double b) {
  return (a != a && b != b) || std::bit_cast<uint64_t>(a) == std::bit_cast<uint64_t>(b);
}

MetaType sidecar_type(const std::string& raw) {
  const std::string name = unquoted(raw);
  return *parse_meta_type(name == "str" ? "text" : name == "arr" ? "array" : name);
}

void expect_array(const MetaArray& array, const std::string& sidecar) {
  EXPECT_EQ(array.element(), sidecar_type(json_at(sidecar, "of")));
  const auto expected = elements_at(sidecar, "values");
  ASSERT_EQ(array.size(), expected.size());
  const auto texts = array.texts();
  const auto arrays = array.arrays();
  const auto numbers = array.numbers();
  for (size_t i = 0; i < expected.size(); ++i) {
    const std::string& raw = expected[i];
    if (array.element() == MetaType::kText) {
      EXPECT_EQ(texts[i], unquoted(raw));
    } else if (array.element() == MetaType::kArray) {
      expect_array(arrays[i], raw);
    } else if (array.element() == MetaType::kU64) {
      EXPECT_EQ(std::to_string(static_cast<uint64_t>(array.integers()[i])), unquoted(raw));
    } else if (array.element() == MetaType::kI64) {
      EXPECT_EQ(std::to_string(array.integers()[i]), unquoted(raw));
    } else if (array.element() == MetaType::kBool) {
      EXPECT_EQ(numbers[i], raw == "true" ? 1 : 0);
    } else {
      EXPECT_TRUE(same_number(numbers[i], number_in(raw))) << raw << " " << numbers[i];
    }
  }
}

void expect_value(const MetaValue& value, const std::string& raw) {
  if (const auto* text = std::get_if<std::string>(&value)) {
    EXPECT_EQ(*text, unquoted(raw));
  } else if (const auto* array = std::get_if<MetaArray>(&value)) {
    expect_array(*array, raw);
  } else if (const auto* natural = std::get_if<uint64_t>(&value)) {
    EXPECT_EQ(std::to_string(*natural), unquoted(raw));
  } else if (const auto* integer = std::get_if<int64_t>(&value)) {
    EXPECT_EQ(std::to_string(*integer), unquoted(raw));
  } else if (const auto* truth = std::get_if<bool>(&value)) {
    EXPECT_EQ(*truth, raw == "true");
  } else {
    EXPECT_TRUE(same_number(std::get<double>(value), number_in(raw))) << raw;
  }
}

void expect_metadata(const Description& description, const std::string& sidecar) {
  const GgufForm form = GgufForm::from_text(description.stored_form);
  const auto pairs = elements_at(sidecar, "kv");
  ASSERT_EQ(description.metadata.size(), pairs.size());
  for (size_t i = 0; i < pairs.size(); ++i) {
    const MetaEntry& entry = description.metadata[i];
    EXPECT_EQ(entry.key, unquoted(json_at(pairs[i], "key")));
    const auto stored = form.types.find(entry.key);
    EXPECT_EQ(stored == form.types.end() ? default_gguf_type(entry.value) : stored->second,
              sidecar_type(json_at(pairs[i], "type")))
        << entry.key;
    expect_value(entry.value, json_at(pairs[i], "value"));
  }
}

std::string lower_case(std::string text) {
  std::ranges::transform(text, text.begin(), [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  return text;
}

// Digests are of the bytes as they lie in the file.
void expect_tensors(const Archive& archive, const std::string& sidecar) {
  const auto rows = elements_at(sidecar, "tensors");
  ASSERT_EQ(archive.tensors().size(), rows.size());
  const std::string start = json_at(sidecar, "data_offset");
  for (size_t i = 0; i < rows.size(); ++i) {
    const TensorInfo& tensor = archive.tensors()[i];
    EXPECT_EQ(tensor.name, unquoted(json_at(rows[i], "name")));
    EXPECT_EQ(fmt::format("[{}]", fmt::join(elements_at(rows[i], "shape"), ", ")), tensor.shape.to_string());
    EXPECT_EQ(dtype_name(tensor.dtype), lower_case(unquoted(json_at(rows[i], "type"))));
    EXPECT_EQ(std::to_string(tensor.byte_size), json_at(rows[i], "nbytes"));
    const StoredExtent& extent = archive.extent(i);
    EXPECT_EQ(extent.offset, std::stoull(start) + std::stoull(json_at(rows[i], "offset")));
    const auto stored = read_bytes(*archive.sources()[0], extent.offset, extent.length);
    ASSERT_TRUE(stored);
    EXPECT_EQ(sha256_hex(*stored), unquoted(json_at(rows[i], "sha256"))) << tensor.name;
  }
}

std::vector<std::string> files_in(const std::string& folder, bool parts = false) {
  std::vector<std::string> names;
  for (const auto& entry : std::filesystem::directory_iterator(test_file_path("gguf/" + folder))) {
    const std::string name = entry.path().filename().string();
    const bool is_part = name.find("-of-") != std::string::npos;
    if (name.ends_with(".gguf") && is_part == parts) names.push_back(folder + "/" + name);
  }
  std::ranges::sort(names);
  return names;
}

std::string case_name(const ::testing::TestParamInfo<std::string>& given) {
  return test_name(std::filesystem::path(given.param).filename().replace_extension().string());
}

class SmallGguf : public ::testing::TestWithParam<std::string> {};

TEST_P(SmallGguf, IsReadAsItsSidecarSays) {
  const std::string sidecar = sidecar_text("gguf/" + GetParam() + ".json");
  const Archive archive = open_or_die(kGgufDriver, read_test_data("gguf/" + GetParam()));
  EXPECT_EQ(archive.description().version, json_at(sidecar, "version"));
  expect_metadata(archive.description(), sidecar);
  expect_tensors(archive, sidecar);
}

INSTANTIATE_TEST_SUITE_P(Files, SmallGguf, ::testing::ValuesIn(files_in("small")), case_name);

class QuantGguf : public ::testing::TestWithParam<std::string> {};

TEST_P(QuantGguf, KeepsTheBytesOfItsBlocks) {
  const std::string path = std::filesystem::path("gguf/" + GetParam()).replace_extension(".json").string();
  const std::string sidecar = sidecar_text(path);
  const Archive archive = open_or_die(kGgufDriver, read_test_data("gguf/" + GetParam()));
  for (size_t i = 0; i < archive.tensors().size(); ++i) {
    const TensorInfo& tensor = archive.tensors()[i];
    EXPECT_EQ(dtype_name(tensor.dtype), lower_case(unquoted(json_at(sidecar, "type"))));
    EXPECT_EQ(gguf_type(tensor.dtype), std::stoul(json_at(sidecar, "type_id")));
    const auto payload = archive.payload(i);
    ASSERT_TRUE(payload);
    EXPECT_EQ(sha256_hex(payload->bytes()), unquoted(json_at(sidecar, "tensors/" + tensor.name + "/raw_sha256")));
  }
}

INSTANTIATE_TEST_SUITE_P(Files, QuantGguf, ::testing::ValuesIn(files_in("quant")), case_name);

class GenuineGguf : public ::testing::TestWithParam<std::string> {};

TEST_P(GenuineGguf, IsWrittenAgainByteForByte) {
  const ByteVector bytes = read_test_data("gguf/" + GetParam());
  const Archive archive = open_or_die(kGgufDriver, bytes);
  const auto again = encode_again(kGgufDriver, archive);
  ASSERT_TRUE(again) << again.error().message;
  EXPECT_TRUE(*again == bytes) << again->size() << " bytes instead of " << bytes.size();
}

TEST_P(GenuineGguf, OpensAlikeThroughPositionalReads) {
  const ByteVector bytes = read_test_data("gguf/" + GetParam());
  const Archive viewed = open_or_die(kGgufDriver, bytes);
  Findings findings = Findings::stop_at_first_error();
  const auto read = kGgufDriver.open({std::make_shared<ReadingSource>(bytes), "", "", nullptr}, findings);
  ASSERT_TRUE(read) << read.error().message;
  EXPECT_TRUE(same_content_description(read->description(), viewed.description()));
  EXPECT_EQ(read->description().stored_form, viewed.description().stored_form);
}

TEST_P(GenuineGguf, HasNothingWrongWithIt) {
  const Verified verified = verify_bytes(kGgufDriver, read_test_data("gguf/" + GetParam()));
  EXPECT_TRUE(verified.readable);
  EXPECT_EQ(verified.count(Severity::kError), 0U);
}

INSTANTIATE_TEST_SUITE_P(Small, GenuineGguf, ::testing::ValuesIn(files_in("small")), case_name);
INSTANTIATE_TEST_SUITE_P(Quant, GenuineGguf, ::testing::ValuesIn(files_in("quant")), case_name);
INSTANTIATE_TEST_SUITE_P(Tiny, GenuineGguf, ::testing::ValuesIn(files_in("tiny")), case_name);

TEST(GgufFixtures, AreAllThere) {
  EXPECT_EQ(files_in("small").size(), 15U);
  EXPECT_EQ(files_in("quant").size(), 35U);
}

TEST(GgufFixtures, ABigEndianFileHoldsTheSameNumbersAsItsTwin) {
  const Archive big = open_or_die(kGgufDriver, read_test_data("gguf/small/v3_big_endian.gguf"));
  const Archive little = open_or_die(kGgufDriver, read_test_data("gguf/small/meta_all_types.gguf"));
  // Written by the same program from the same values.
  EXPECT_EQ(big.description().metadata, little.description().metadata);
  const auto index = big.find("w.i32");
  ASSERT_TRUE(index);
  EXPECT_TRUE(big.extent(*index).big_endian);
  EXPECT_FALSE(big.extent(*big.find("w.i8")).big_endian);
}

}  // namespace
}  // namespace ballast::testing
