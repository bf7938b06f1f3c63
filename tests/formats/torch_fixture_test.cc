// Files that PyTorch itself wrote, against what it read back.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <bit>
#include <cctype>
#include <map>

#include "ballast/base/utf8.h"
#include "ballast/formats/drivers.h"
#include "ballast/formats/tie.h"
#include "tests/support/format_testing.h"
#include "tests/support/json_path.h"
#include "tests/support/sha256.h"
#include "tests/support/temp_folder.h"
#include "tests/support/test_files.h"
#include "tests/support/torch_files.h"

namespace ballast {
namespace {

using namespace ballast::testing;
using ::testing::HasSubstr;

ByteVector torch_file(const std::string& name) { return read_test_data("torch_files/files/" + name); }

Archive open_torch_file(const std::string& name) { return open_or_die(kTorchDriver, torch_file(name)); }

// What the reader declines on purpose, though a reader might take it, and what it says then.
const std::map<std::string, std::string> kDeclined = {
    {"sparse.pt", "it is sparse; save a dense one instead"},
    {"meta.pt", "it has no data"},
    {"old_tar.tar", "before version 0.1.10"},
};

class TorchFixture : public ::testing::TestWithParam<std::string> {
 protected:
  bool is_read() const { return sidecar_.expect != "refuse" && !kDeclined.contains(GetParam()); }

  TorchSidecar sidecar_ = read_torch_sidecar(GetParam());
};

INSTANTIATE_TEST_SUITE_P(All, TorchFixture, ::testing::ValuesIn(torch_files()),
                         [](const auto& fixture) { return test_name(fixture.param); });

TEST(TorchFixtures, AreAllThere) { EXPECT_EQ(torch_files().size(), 46U); }

// ---------------------------------------------------------------- tensors

std::string type_text(const std::string& sidecar_type) {
  static const std::map<std::string, std::string> kOthers = {
      {"QI8", "i8"}, {"QU8", "u8"}, {"C32", "opaque:torch.complex32"}, {"F4_E2M1X2", "f4"}};
  if (const auto other = kOthers.find(sidecar_type); other != kOthers.end()) return other->second;
  std::string text = sidecar_type;
  for (char& c : text) c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  return text;
}

void expect_torch_tensor(const Archive& archive, const TorchSidecarTensor& expected) {
  const auto index = archive.find(expected.name);
  ASSERT_TRUE(index) << expected.name;
  const TensorInfo& tensor = archive.tensors()[*index];
  EXPECT_EQ(tensor.type_name(), type_text(expected.type));
  std::vector<uint64_t> shape = expected.shape;
  if (expected.type == "F4_E2M1X2") shape.back() *= 2;  // PyTorch counts pairs
  EXPECT_EQ(tensor.shape, Shape(std::span<const uint64_t>(shape)));
  EXPECT_EQ(tensor.requires_grad.value_or(false), expected.requires_grad);
  const auto payload = archive.payload(*index);
  ASSERT_TRUE(payload) << payload.error().message;
  EXPECT_EQ(sha256_hex(payload->bytes()), expected.sha256);
}

const MetaEntry* find_entry(const Archive& archive, std::string_view key) {
  const auto& metadata = archive.description().metadata;
  const auto found = std::ranges::find(metadata, key, &MetaEntry::key);
  return found == metadata.end() ? nullptr : &*found;
}

TEST_P(TorchFixture, TensorsHaveTheNamesTypesShapesAndBytesThatPyTorchSaw) {
  if (!is_read()) return;
  const Archive archive = open_torch_file(GetParam());
  for (const TorchSidecarTensor& expected : sidecar_.tensors) {
    SCOPED_TRACE(expected.name);
    expect_torch_tensor(archive, expected);
    for (const auto& [key, json] : expected.attributes) {
      const MetaEntry* entry = find_entry(archive, expected.name + "." + key);
      ASSERT_NE(entry, nullptr) << key;
      EXPECT_EQ(std::get<std::string>(entry->value), json_string(json));
    }
  }
  const bool has_more = GetParam() == "quantized.pt" || GetParam() == "storages.pt";
  EXPECT_EQ(archive.tensors().size(), sidecar_.tensors.size() + (has_more ? 2 : 0));
}

TEST_P(TorchFixture, GivesTheSameBytesThroughPositionalReads) {
  if (!is_read()) return;
  const Archive mapped = open_torch_file(GetParam());
  Findings findings = Findings::stop_at_first_error();
  OpenRequest request;
  request.source = std::make_shared<ReadingSource>(torch_file(GetParam()));
  const auto read = kTorchDriver.open(request, findings);
  ASSERT_TRUE(read) << read.error().message;
  ASSERT_EQ(read->tensors().size(), mapped.tensors().size());
  for (size_t i = 0; i < mapped.tensors().size(); ++i) {
    const auto a = mapped.payload(i);
    const auto b = read->payload(i);
    ASSERT_TRUE(a && b) << mapped.tensors()[i].name;
    EXPECT_EQ(as_text(a->bytes()), as_text(b->bytes())) << mapped.tensors()[i].name;
    ByteVector tail(mapped.tensors()[i].byte_size / 2);
    ASSERT_TRUE(read->read_range(i, mapped.tensors()[i].byte_size - tail.size(), tail));
    EXPECT_EQ(as_text(tail), as_text(a->bytes().last(tail.size())));
  }
}

TEST_P(TorchFixture, ReadsWithoutFindingsWorseThanNotes) {
  if (!is_read()) return;
  const Verified verified = verify_bytes(kTorchDriver, torch_file(GetParam()));
  EXPECT_TRUE(verified.readable);
  EXPECT_EQ(verified.count(Severity::kError), 0U);
  EXPECT_EQ(verified.count(Severity::kWarning), 0U);
}

TEST_P(TorchFixture, SaysWhichTensorsShareAStorage) {
  if (!is_read()) return;
  const Verified verified = verify_bytes(kTorchDriver, torch_file(GetParam()));
  std::vector<std::string> notes;
  for (const Finding& finding : verified.findings.items()) {
    if (finding.code == "shared_storage") notes.push_back(finding.message);
  }
  EXPECT_EQ(notes.size(), sidecar_.shared.size());
  for (const auto& group : sidecar_.shared) {
    const std::string listed = fmt::format("{} tensors are views of storage", group.size());
    const std::string first = fmt::format(": \"{}\"", group.front());
    EXPECT_THAT(notes, ::testing::Contains(::testing::AllOf(HasSubstr(listed), HasSubstr(first)))) << group.front();
  }
}

TEST_P(TorchFixture, IsKnownByItsContent) {
  const ByteVector bytes = torch_file(GetParam());
  const auto driver = detect_format({MemorySource::borrowing(bytes), "model.weights", "", nullptr});
  ASSERT_TRUE(driver) << driver.error().message;
  EXPECT_EQ((*driver)->name, "torch");
}

// ---------------------------------------------------------------- everything else

std::string bytes_text(const std::string& hex) {
  std::string text = "b'";
  const auto bytes = parse_hex(hex);
  for (const std::byte byte : bytes.value()) {
    const auto c = std::to_integer<unsigned char>(byte);
    text += c >= 0x20 && c < 0x7f ? std::string(1, static_cast<char>(c)) : fmt::format("\\x{:02x}", c);
  }
  return text + "'";
}

// The leaf as the metadata should have it, as text with its kind in front.
std::string leaf_text(const std::string& json) {
  const std::string type = json_string(json_at(json, "type"));
  const auto text = [&](std::string_view key) { return json_string(json_at(json, key)); };
  if (type == "none") return "text None";
  if (type == "bool") return "bool " + json_at(json, "value");
  if (type == "int") {
    const std::string decimal = text("decimal");
    const bool fits = decimal.size() <= (decimal.starts_with('-') ? 20U : 19U);
    return (fits ? "number " : "text ") + decimal;
  }
  if (type == "float") return "bits " + text("bits");
  if (type == "str") return "sha256 " + (text("sha256").empty() ? sha256_hex(as_bytes(text("value"))) : text("sha256"));
  if (type == "bytes" || type == "bytearray") return "text " + bytes_text(text("hex"));
  if (type == "complex") return "text (1.5-2.0j)";
  if (type == "set") return "text {1, 2, 3}";
  if (type == "numpy.int64") return "number 3";
  return "text " + text("value");
}

std::string entry_text(const MetaValue& value, std::string_view kind) {
  if (const auto* boolean = std::get_if<bool>(&value)) return fmt::format("bool {}", *boolean);
  if (const auto* number = std::get_if<int64_t>(&value)) return fmt::format("number {}", *number);
  if (const auto* number = std::get_if<uint64_t>(&value)) return fmt::format("number {}", *number);
  if (const auto* real = std::get_if<double>(&value))
    return fmt::format("bits {:016x}", std::bit_cast<uint64_t>(*real));
  const auto& text = std::get<std::string>(value);
  return kind == "sha256" ? "sha256 " + sha256_hex(as_bytes(text)) : "text " + text;
}

TEST_P(TorchFixture, LeavesThatAreNoTensorsAreMetadata) {
  if (!is_read()) return;
  const Archive archive = open_torch_file(GetParam());
  for (const TorchSidecarLeaf& leaf : sidecar_.leaves) {
    SCOPED_TRACE(leaf.name);
    if (json_string(json_at(leaf.json, "type")) == "storage") {
      const auto index = archive.find(leaf.name);
      ASSERT_TRUE(index);
      EXPECT_EQ(sha256_hex(archive.payload(*index)->bytes()), json_string(json_at(leaf.json, "sha256")));
      continue;
    }
    const MetaEntry* entry = find_entry(archive, leaf.name);
    ASSERT_NE(entry, nullptr);
    const std::string expected = leaf_text(leaf.json);
    EXPECT_EQ(entry_text(entry->value, expected.substr(0, expected.find(' '))), expected);
  }
}

TEST_P(TorchFixture, WhatIsNotReadSaysWhatItIs) {
  if (is_read()) return;
  const Error error = open_error(kTorchDriver, torch_file(GetParam()));
  EXPECT_EQ(error.code, ErrorCode::kUnsupported);
  const auto declined = kDeclined.find(GetParam());
  EXPECT_THAT(error.message, HasSubstr(declined == kDeclined.end() ? "state_dict()" : declined->second));
}

// ---------------------------------------------------------------- single cases

TEST(Torch, AWholeModuleIsRefusedWithTheNameOfItsClassAndItsPlace) {
  EXPECT_EQ(
      open_error(kTorchDriver, torch_file("whole_module.pt")).message,
      "file: whole_module/data.pkl: byte 2 of the pickle: it asks for torch.nn.modules.linear.Linear, which is not "
      "read; nothing was run. Only tensors, numbers, texts and plain containers are read: save the weights alone, "
      "with torch.save(model.state_dict(), path)");
}

TEST(Torch, ATorchScriptProgramIsRefusedByName) {
  EXPECT_THAT(open_error(kTorchDriver, torch_file("torchscript.pt")).message, HasSubstr("TorchScript program"));
}

TEST(Torch, ContiguousViewsAreNotCopied) {
  const ByteVector bytes = torch_file("views.pt");
  OpenRequest request;
  request.source = MemorySource::borrowing(bytes);
  Findings findings = Findings::stop_at_first_error();
  const auto archive = kTorchDriver.open(request, findings);
  ASSERT_TRUE(archive);
  for (const std::string name : {"base", "row_slice", "flat_offset", "scalar_of_base", "alias", "unsqueezed"}) {
    const auto payload = archive->payload(*archive->find(name));
    ASSERT_TRUE(payload);
    EXPECT_TRUE(payload->is_view()) << name;
  }
  EXPECT_FALSE(archive->payload(*archive->find("transposed"))->is_view());
}

TEST(Torch, TensorsAtTheSamePlaceAreTied) {
  const Archive archive = open_torch_file("tied.pt");
  const auto tie = [&](std::string_view name) {
    return tie_number(archive.tensors()[*archive.find(name)].stored_form());
  };
  EXPECT_EQ(tie("b"), tie("b_again"));
  EXPECT_TRUE(tie("b").has_value());
  EXPECT_FALSE(tie("b_t").has_value());
  EXPECT_FALSE(tie("a0").has_value());
}

TEST(Torch, ModuleVersionsStandInTheMetadata) {
  const Archive archive = open_torch_file("module_state_dict.pt");
  const MetaEntry* root = find_entry(archive, "_metadata..version");
  ASSERT_NE(root, nullptr);
  EXPECT_EQ(std::get<int64_t>(root->value), 1);
}

TEST(Torch, AQuantizedTensorIsItsIntegersWithTheNumbersBesideIt) {
  const Archive archive = open_torch_file("quantized.pt");
  EXPECT_EQ(std::get<std::string>(find_entry(archive, "pt.qscheme")->value), "torch.per_tensor_affine");
  EXPECT_EQ(std::get<double>(find_entry(archive, "pt.scale")->value), 0.1);
  EXPECT_EQ(std::get<int64_t>(find_entry(archive, "pt.zero_point")->value), 3);
  EXPECT_EQ(std::get<int64_t>(find_entry(archive, "pc.axis")->value), 0);
  EXPECT_EQ(archive.tensors()[*archive.find("pc.scales")].dtype, DType::kF64);
  EXPECT_EQ(archive.tensors()[*archive.find("pc.zero_points")].dtype, DType::kI64);
}

TEST(Torch, TheTensorsOfAPairEqualThoseOfItsSafetensors) {
  const Archive pair = open_torch_file("pair.pt");
  const Archive other = open_or_die(kSafetensorsDriver, torch_file("pair.safetensors"));
  ASSERT_EQ(pair.tensors().size(), other.tensors().size());
  for (size_t i = 0; i < other.tensors().size(); ++i) {
    const auto index = pair.find(other.tensors()[i].name);
    ASSERT_TRUE(index) << other.tensors()[i].name;
    EXPECT_EQ(pair.tensors()[*index].dtype, other.tensors()[i].dtype);
    EXPECT_EQ(pair.tensors()[*index].shape, other.tensors()[i].shape);
    EXPECT_EQ(as_text(pair.payload(*index)->bytes()), as_text(other.payload(i)->bytes()));
  }
}

TEST(Torch, SaysContainerAndVersion) {
  EXPECT_EQ(open_torch_file("pair.pt").description().version, "3");
  EXPECT_EQ(open_torch_file("legacy_views.pt").description().version, "legacy 1001");
}

// ---------------------------------------------------------------- netcl

class NetclContainer : public ::testing::TestWithParam<std::string> {};

INSTANTIATE_TEST_SUITE_P(All, NetclContainer, ::testing::Values("mlp_basic", "cnn_all_layers"));

TEST_P(NetclContainer, IsReadAsPyTorchReadsIt) {
  const Archive archive = open_or_die(kTorchDriver, read_test_data("torch_files/netcl/" + GetParam() + ".pt"));
  const std::string expected = read_text_file(test_file_path("torch_files/netcl/" + GetParam() + "_pt.expect.json"));
  size_t count = 0;
  for (; !json_at(expected, fmt::format("tensors/{}", count)).empty(); ++count) {
    const std::string row = json_at(expected, fmt::format("tensors/{}", count));
    const auto index = archive.find(json_string(json_at(row, "name")));
    ASSERT_TRUE(index) << row;
    EXPECT_EQ(sha256_hex(archive.payload(*index)->bytes()), json_string(json_at(row, "sha256")));
  }
  EXPECT_EQ(archive.tensors().size(), count);
}

}  // namespace
}  // namespace ballast
