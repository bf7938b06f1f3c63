// Files that Burn itself wrote, against what was handed to its writer.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <regex>

#include "ballast/formats/burnpack/burn_quant.h"
#include "tests/support/burnpack_files.h"
#include "tests/support/burnpack_sidecar.h"
#include "tests/support/format_testing.h"
#include "tests/support/sha256.h"
#include "tests/support/test_files.h"

namespace ballast {
namespace {

using namespace ballast::testing;

class BurnpackFixture : public ::testing::TestWithParam<std::string> {
 protected:
  ByteVector bytes_ = read_burnpack(GetParam());
  Sidecar sidecar_ = read_sidecar("burnpack/" + GetParam() + ".json");

  Archive open() const {
    auto archive = open_bytes(kBurnpackDriver, bytes_);
    EXPECT_TRUE(archive) << archive.error().message;
    return std::move(archive).value();
  }
  bool is_of(std::string_view version) const { return GetParam().starts_with(version); }
};

INSTANTIATE_TEST_SUITE_P(All, BurnpackFixture, ::testing::ValuesIn(burnpack_fixtures()),
                         [](const auto& fixture) { return test_name(fixture.param); });

TEST(BurnpackFixtures, AreAllThere) { EXPECT_EQ(burnpack_fixtures().size(), 79U); }

std::string lower(std::string text) {
  std::ranges::transform(text, text.begin(), [](unsigned char c) { return std::tolower(c); });
  return text;
}

std::string first_group(const std::string& text, const std::string& expression) {
  std::smatch match;
  return std::regex_search(text, match, std::regex(expression)) ? match[1].str() : "";
}

// Our text of a scheme from the text that Rust prints, by other means than the reader's.
std::string scheme_text_from_rust(const std::string& rust) {
  const std::string store = first_group(rust, "store: (\\w+)");
  std::string text = lower(first_group(rust, "value: (\\w+)")) + ":";
  text += store == "Native" ? "native" : store == "PackedU32" ? "packed_u32" : "packed_native";
  if (store != "Native") text += "=" + first_group(rust, "store: \\w+\\((\\d+)\\)");
  text += ":" + lower(first_group(rust, "mode: (\\w+)"));
  std::string block = first_group(rust, "BlockSize\\(\\[([\\d, ]+)\\]\\)");
  block = std::regex_replace(block, std::regex(", "), "x");
  const bool levels = rust.find("level:") != std::string::npos;
  const std::string param = lower(first_group(rust, "param: (\\w+)"));
  std::string tensor = lower(first_group(rust, levels ? "global: (\\w+)" : "tensor: Some\\((\\w+)\\)"));
  if (!block.empty()) text += ":block=" + block + "/" + (levels ? param : lower(first_group(rust, "dtype: (\\w+)")));
  if (block.empty() && tensor.empty()) tensor = levels ? param : "f32";
  return tensor.empty() ? text : text + ":tensor=" + tensor;
}

std::string type_name_from_rust(const std::string& rust) {
  if (rust == "Bool(U32)") return "bool32";
  if (rust.starts_with("Bool")) return "bool";
  if (rust.starts_with("QFloat")) return "qfloat:" + scheme_text_from_rust(rust);
  return lower(rust);
}

TEST_P(BurnpackFixture, HoldsWhatItsSidecarStates) {
  ASSERT_EQ(sha256_hex(bytes_), sidecar_.file_sha256);
  const Archive archive = open();
  ASSERT_EQ(archive.tensors().size(), sidecar_.tensors.size());
  for (size_t i = 0; i < archive.tensors().size(); ++i) {
    const TensorInfo& tensor = archive.tensors()[i];
    ASSERT_TRUE(sidecar_.tensors.contains(tensor.name)) << tensor.name;
    const SidecarTensor& expected = sidecar_.tensors[tensor.name];
    EXPECT_EQ(tensor.type_name(), type_name_from_rust(expected.dtype)) << tensor.name;
    EXPECT_EQ(tensor.shape, Shape(expected.shape)) << tensor.name;
    EXPECT_EQ(tensor.byte_size, expected.byte_len) << tensor.name;
    EXPECT_EQ(tensor.param_id ? std::optional(std::to_string(*tensor.param_id)) : std::nullopt, expected.param_id);
    EXPECT_FALSE(tensor.requires_grad);
    const auto payload = archive.payload(i);
    ASSERT_TRUE(payload) << payload.error().message;
    EXPECT_EQ(sha256_hex(payload->bytes()), expected.sha256) << tensor.name;
  }
}

std::string value_text(const MetaValue& value) {
  if (const auto* number = std::get_if<int64_t>(&value)) return "Int " + std::to_string(*number);
  if (const auto* natural = std::get_if<uint64_t>(&value)) return "UInt " + std::to_string(*natural);
  if (const auto* truth = std::get_if<bool>(&value)) return *truth ? "Bool true" : "Bool false";
  const auto* real = std::get_if<double>(&value);
  if (real == nullptr) return std::get<std::string>(value);
  return fmt::format("Float {:016x}", std::bit_cast<uint64_t>(*real));
}

TEST_P(BurnpackFixture, HoldsTheMetadataAndScalarsItsSidecarStates) {
  const Archive archive = open();
  std::map<std::string, std::string> metadata;
  std::map<std::string, std::string> scalars;
  for (const MetaEntry& entry : archive.description().metadata) {
    const bool is_text = std::holds_alternative<std::string>(entry.value);
    (is_text ? metadata : scalars)[entry.key] = value_text(entry.value);
  }
  EXPECT_EQ(metadata, sidecar_.metadata);
  EXPECT_EQ(scalars, sidecar_.scalars);
  EXPECT_EQ(archive.description().format, "burnpack");
  EXPECT_EQ(archive.description().version, "1");
  if (metadata.contains("producer")) {
    EXPECT_EQ(archive.description().producer, "burn " + sidecar_.crate_version);
  }
}

TEST_P(BurnpackFixture, GivesTensorsInTheOrderOfTheirPayloads) {
  const Archive archive = open();
  if (sidecar_.disk_order.empty()) {
    for (size_t i = 1; i < archive.tensors().size(); ++i) {
      EXPECT_LE(archive.extent(i - 1).offset, archive.extent(i).offset);
    }
    return;
  }
  // Empty tensors that share a place have no order on disk: they come by name.
  std::vector<std::string> expected = sidecar_.disk_order;
  const auto is_empty = [&](const std::string& name) { return sidecar_.tensors[name].byte_len == 0; };
  for (auto run = expected.begin(); run != expected.end();) {
    run = std::find_if(run, expected.end(), is_empty);
    const auto end = std::find_if_not(run, expected.end(), is_empty);
    std::sort(run, end);
    run = end;
  }
  std::vector<std::string> names;
  for (const TensorInfo& tensor : archive.tensors()) names.push_back(tensor.name);
  EXPECT_EQ(names, expected);
}

TEST_P(BurnpackFixture, IsWrittenAgainByteForByte) {
  const auto again = encode_again(kBurnpackDriver, open());
  ASSERT_TRUE(again) << again.error().message;
  EXPECT_EQ(*again, bytes_);
}

TEST_P(BurnpackFixture, IsReadAlikeFromASourceThatCannotBeViewed) {
  OpenRequest request;
  request.source = std::make_shared<ReadingSource>(bytes_);
  Findings findings = Findings::stop_at_first_error();
  const auto archive = kBurnpackDriver.open(request, findings);
  ASSERT_TRUE(archive) << archive.error().message;
  const auto again = encode_again(kBurnpackDriver, *archive);
  ASSERT_TRUE(again);
  EXPECT_EQ(*again, bytes_);
}

TEST_P(BurnpackFixture, HasNothingWrongWithIt) {
  const Verified verified = verify_bytes(kBurnpackDriver, bytes_);
  EXPECT_TRUE(verified.readable);
  for (const Finding& finding : verified.findings.items()) {
    EXPECT_EQ(finding.severity, Severity::kNote) << finding.message;
  }
  const bool quantised = GetParam().find("quant") != std::string::npos;
  const bool old_scheme = quantised && (is_of("0.20") || is_of("0.21") || is_of("0.22.0-pre.2"));
  const bool old_bool = GetParam().find("dtypes") != std::string::npos && (is_of("0.19") || is_of("0.20"));
  EXPECT_EQ(verified.find("old_quantisation") != nullptr, old_scheme);
  EXPECT_EQ(verified.find("old_bool") != nullptr, old_bool);
  EXPECT_EQ(verified.find("layout_0.19") != nullptr, is_of("0.19") && !sidecar_.tensors.empty());
}

TEST_P(BurnpackFixture, IsSniffedByItsContent) {
  EXPECT_EQ(kBurnpackDriver.sniff({bytes_, bytes_.size(), "", nullptr}), SniffMatch::kCertain);
}

// What today's Burn reads: aligned, {"Bool": ..}, the newest words for schemes.
TEST_P(BurnpackFixture, BecomesAFileForTodaysBurnWithTheSameContent) {
  const Archive archive = open();
  WriteOptions options;
  options.target = "burn-0.23";
  EXPECT_TRUE(kBurnpackDriver.find_losses(archive.description(), options).empty());
  ArchiveFeed feed(archive, archive.description());
  const auto written = encode(kBurnpackDriver, archive.description(), feed, options);
  ASSERT_TRUE(written) << written.error().message;
  const auto again = open_bytes(kBurnpackDriver, *written);
  ASSERT_TRUE(again) << again.error().message;
  EXPECT_TRUE(same_content_description(archive.description(), again->description()));
  EXPECT_TRUE(again->description().stored_form.empty());
  for (size_t i = 0; i < archive.tensors().size(); ++i) {
    const std::string& form = again->tensors()[i].stored_form();
    EXPECT_THAT(form, ::testing::AnyOf("", "bool=u8", "qfloat=implied"));
    EXPECT_TRUE(std::ranges::equal(archive.payload(i)->bytes(), again->payload(i)->bytes()));
  }
  EXPECT_TRUE(verify_bytes(kBurnpackDriver, *written).findings.items().empty());
  // Files of the newest generation are already in that form.
  if (is_of("0.23") || is_of("0.22.1")) {
    EXPECT_EQ(*written, bytes_);
  }
}

// Burn 0.20 knows no length for half a byte, fills values up to whole words, and packs words across lines.
bool is_packed_otherwise_in_020(const TensorInfo& tensor) {
  const auto scheme = parse_quant_scheme(tensor.scheme());
  if (!scheme) return false;
  const auto length = quant_length(*scheme, tensor.shape);
  if (scheme->store != QuantStore::kNative) return scheme->packed_axis == 0 && length->flat != length->by_line;
  return quant_value_bits(scheme->value) < 8 || *tensor.shape.element_count() % 4 != 0;
}

TEST_P(BurnpackFixture, BecomesAFileForBurn020OrSaysWhatCannot) {
  const Archive archive = open();
  const bool is_old = is_of("0.19") || is_of("0.20") || is_of("0.21") || is_of("0.22.0-pre.2");
  WriteOptions options;
  options.target = "burn-0.20";
  std::vector<std::string> lost;
  for (const Loss& loss : kBurnpackDriver.find_losses(archive.description(), options)) lost.push_back(loss.tensor);
  std::vector<std::string> expected;
  for (const TensorInfo& tensor : archive.tensors()) {
    const std::string& scheme = tensor.scheme();
    const bool two_levels = scheme.find(":block=") != std::string::npos && scheme.find(":tensor=") != std::string::npos;
    const bool lookup = scheme.find("lookup") != std::string::npos;
    if (tensor.dtype == DType::kBool32 || two_levels || lookup || (!is_old && is_packed_otherwise_in_020(tensor))) {
      expected.push_back(tensor.name);
    }
  }
  EXPECT_EQ(lost, expected);
  ArchiveFeed feed(archive, archive.description());
  const auto written = encode(kBurnpackDriver, archive.description(), feed, options);
  ASSERT_EQ(written.has_value(), lost.empty());
  if (!written) return;
  const auto again = open_bytes(kBurnpackDriver, *written);
  ASSERT_TRUE(again) << again.error().message;
  EXPECT_TRUE(same_content_description(archive.description(), again->description()));
  for (const TensorInfo& tensor : again->tensors()) {
    if (tensor.dtype == DType::kBool) {
      EXPECT_EQ(tensor.stored_form(), "bool=text");
    }
    if (tensor.dtype == DType::kQFloat) {
      EXPECT_EQ(tensor.stored_form(), "qfloat=0.20");
    }
  }
  if (is_of("0.20")) {
    EXPECT_EQ(*written, bytes_);
  }
}

}  // namespace
}  // namespace ballast
