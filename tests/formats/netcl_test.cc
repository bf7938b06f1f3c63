#include "ballast/formats/netcl/netcl.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>

#include "ballast/formats/drivers.h"
#include "tests/formats/netcl_fixtures.h"
#include "tests/formats/zip_builder.h"
#include "tests/support/mutation.h"
#include "tests/support/places.h"

namespace ballast::testing {
namespace {

using ::testing::HasSubstr;

std::vector<NetclFiles> all_fixtures() {
  std::vector<std::string> names;
  for (const auto& entry : std::filesystem::directory_iterator(test_data_folder() + "/netcl")) {
    const std::string name = entry.path().filename().string();
    if (name.ends_with(kExpectEnding)) names.push_back(name);
  }
  std::ranges::sort(names);
  std::vector<NetclFiles> fixtures;
  for (const std::string& name : names) {
    const ByteVector text = read_test_data("netcl/" + name);
    auto fixture = parse_netcl_files(as_text(text), name.substr(0, name.size() - kExpectEnding.size()));
    EXPECT_TRUE(fixture.has_value()) << fixture.error().message;
    if (fixture) fixtures.push_back(*std::move(fixture));
  }
  return fixtures;
}

// Which file stands for all of them, and the other half of a pair.
std::string main_file(const NetclFiles& fixture) {
  const auto json =
      std::ranges::find_if(fixture.files, [](const std::string& file) { return file.ends_with(".json"); });
  return json == fixture.files.end() ? fixture.files.front() : *json;
}

std::string npz_file(const NetclFiles& fixture) {
  const auto npz = std::ranges::find_if(fixture.files, [](const std::string& file) { return file.ends_with(".npz"); });
  return npz == fixture.files.end() ? "" : *npz;
}

class NetclFixture : public ::testing::TestWithParam<NetclFiles> {};

TEST_P(NetclFixture, HoldsWhatNetclPutIntoIt) {
  const NetclFiles& fixture = GetParam();
  MemorySiblings siblings = files_of(fixture);
  if (fixture.name == "broken_ckpt") return;  // see RefusesACheckpointWithACutState
  const Archive archive = open_named_or_die(siblings, main_file(fixture), npz_file(fixture));
  expect_tensors(archive, fixture.tensors);
  if (fixture.meta_json) {
    ASSERT_TRUE(archive.description().config.has_value());
    EXPECT_EQ(archive.description().config->text, *fixture.meta_json);
    EXPECT_EQ(archive.description().config->schema, kNetclSchema);
  }
  uint64_t bytes = 0;
  for (const auto& [name, content] : siblings.files) bytes += content.size();
  EXPECT_EQ(archive.stored_size(), bytes);
}

TEST_P(NetclFixture, IsWrittenBackByteForByte) {
  const NetclFiles& fixture = GetParam();
  MemorySiblings siblings = files_of(fixture);
  if (fixture.name == "broken_ckpt") return;
  const Archive archive = open_named_or_die(siblings, main_file(fixture), npz_file(fixture));
  EXPECT_TRUE(archive.description().stored_form == "" || archive.description().format == "npz");
  const FormatDriver& driver = *find_format(archive.description().format);
  MemorySiblings written = write_files_or_die(driver, archive, archive.description(), main_file(fixture));
  if (fixture.name == "dotted_name") {
    // netcl's own name for the tensors cannot be found from the JSON's; ours can.
    written.files["run.1.npz"] = std::move(written.files["run.npz"]);
    written.files.erase("run.npz");
  }
  EXPECT_EQ(written.files, siblings.files);
}

TEST_P(NetclFixture, HasNothingToComplainAbout) {
  const NetclFiles& fixture = GetParam();
  if (fixture.files.size() != 1 || !main_file(fixture).ends_with(".netcl")) return;
  const Verified verified = verify_bytes(kNetclDriver, read_test_data("netcl/" + main_file(fixture)));
  EXPECT_TRUE(verified.readable);
  for (const Finding& finding : verified.findings.items()) ADD_FAILURE() << finding.message;
}

INSTANTIATE_TEST_SUITE_P(All, NetclFixture, ::testing::ValuesIn(all_fixtures()),
                         [](const auto& sample) { return test_name(sample.param.name); });

TEST(Netcl, RewritesTrainingDataAndInitialModels) {
  for (const char* name :
       {"train_mlp_init.netcl", "train_cnn_init.netcl", "train_mlp_data.npz", "train_cnn_data.npz"}) {
    MemorySiblings siblings;
    siblings.files[name] = read_test_data(std::string("netcl/") + name);
    const Archive archive = open_named_or_die(siblings, name);
    const FormatDriver& driver = *find_format(archive.description().format);
    EXPECT_EQ(driver.name, std::string_view(name).ends_with(".npz") ? "npz" : "netcl");
    EXPECT_EQ(write_files_or_die(driver, archive, archive.description(), name).files, siblings.files);
  }
}

TEST(Netcl, ToldFromPlainNpzByItsMetadata) {
  MemorySiblings siblings;
  siblings.files["model.npz"] = read_test_data("netcl/mlp_basic.netcl");
  const Archive archive = open_named_or_die(siblings, "model.npz");
  EXPECT_EQ(archive.description().format, "netcl");
  EXPECT_EQ(archive.description().version, "2");
  EXPECT_FALSE(archive.find("__netcl_meta__").has_value());
  EXPECT_TRUE(archive.find("0:weight").has_value());
}

TEST(Netcl, TellsWhichReleaseWroteAFile) {
  const auto producer = [](const std::string& file) {
    MemorySiblings siblings;
    siblings.files[file] = read_test_data("netcl/" + file);
    return open_named_or_die(siblings, file).description().producer;
  };
  EXPECT_EQ(producer("cnn_all_layers.netcl"), "netcl 0.2.8 or later");
  EXPECT_EQ(producer("old_0_2_7.netcl"), "netcl 0.1.4 to 0.2.7");
  EXPECT_EQ(producer("only_relu.netcl"), "netcl 0.1.4 or later");
}

// ---------------------------------------------------------------- the metadata

// The metadata member holding `text` as `descr`, padded to that type's size.
std::string meta_npy(const std::string& descr, const std::string& shape, const std::string& payload) {
  std::string text = "{'descr': '" + descr + "', 'fortran_order': False, 'shape': " + shape + ", }\n";
  std::string bytes(kNpyMagic);
  bytes += std::string("\1\0", 2);
  append_le<uint16_t>(bytes, static_cast<uint16_t>(text.size()));
  return bytes + text + payload;
}

std::string utf32(std::string_view text, bool big_endian = false) {
  std::string out;
  for (const char c : text) {
    const auto unit = static_cast<uint32_t>(static_cast<unsigned char>(c));
    append_le<uint32_t>(out, big_endian ? byte_swapped(unit) : unit);
  }
  return out;
}

ByteVector netcl_file(const std::string& json, std::vector<ZipInput> tensors = {}) {
  tensors.push_back({"__netcl_meta__.npy", meta_npy(fmt::format("<U{}", json.size()), "()", utf32(json))});
  return build_zip(tensors, {}).take();
}

TEST(Netcl, AcceptsTheMetadataNetclAccepts) {
  for (const char* json : {
           kOneRelu,
           R"({"type": "Sequential", "config": []})",
           R"({"type": "Sequential", "config": [], "version": 99, "format": "other", "more": {"a": [NaN, -Infinity]}})",
           R"({"type": "Sequential", "layers": [{"type": "Dropout", "p": 0.5}], "version": 2})",
           R"({"type": "Sequential", "config": null, "layers": []})",
           R"({"type": "Sequential", "config": [{"type": "ReLU"}, {"type": "Tanh", "args": null}], "version": 2})",
           R"({"type": "Sequential", "config": [{"type": "Own", "args": {}}], "version": 2})",
       }) {
    const auto archive = open_bytes(kNetclDriver, netcl_file(json));
    ASSERT_TRUE(archive.has_value()) << json << ": " << archive.error().message;
    EXPECT_EQ(archive->description().config->text, json);
  }
}

TEST(Netcl, RefusesTheMetadataNetclRefuses) {
  for (const char* json : {
           "",
           "[]",
           "12",
           "{",
           R"({"type": "Sequential"})",
           R"({"config": []})",
           R"({"type": "Other", "config": []})",
           R"({"type": 1, "config": []})",
           R"({"type": "Sequential", "config": {}})",
           R"({"type": "Sequential", "config": [1]})",
           R"({"type": "Sequential", "config": [{}]})",
           R"({"type": "Sequential", "config": [{"type": "ReLU", "args": []}]})",
           R"({"type": "Sequential", "config": [{"type": 1}]})",
           R"({"type": "Sequential", "config": []} x)",
           R"({"type": "Sequential", "layers": 1})",
           R"({"type": "Sequential", "type": "Sequential", "config": []})",
           R"({"type": "Sequential", "config": [], "config": []})",
       }) {
    const auto archive = open_bytes(kNetclDriver, netcl_file(json));
    ASSERT_FALSE(archive.has_value()) << json;
    if (*json != '\0') {
      EXPECT_EQ(archive.error().code, ErrorCode::kCorrupt) << archive.error().message;
      EXPECT_THAT(archive.error().message, HasSubstr("__netcl_meta__"));
    }
  }
}

TEST(Netcl, RefusesDeeplyNestedMetadata) {
  std::string json = R"({"type": "Sequential", "config": [], "x": )";
  json += std::string(50'000, '[');
  EXPECT_FALSE(open_bytes(kNetclDriver, netcl_file(json)).has_value());
}

TEST(Netcl, ReadsMetadataInEveryFormNetclReadsAndWritesItBack) {
  const std::string json = kOneRelu;
  const std::string n = std::to_string(json.size());
  const std::vector<std::string> members = {
      meta_npy("<U" + n, "()", utf32(json)),
      meta_npy(">U" + n, "()", utf32(json, true)),
      meta_npy("|S" + n, "()", json),
      meta_npy("<U" + n, "(1,)", utf32(json)),
      meta_npy("|S" + n, "(1,)", json),
      meta_npy("<U200", "()", utf32(json) + std::string(4 * (200 - json.size()), '\0')),
      meta_npy("|S200", "()", json + std::string(200 - json.size(), '\0')),
  };
  for (const std::string& member : members) {
    for (const bool first : {false, true}) {
      std::vector<ZipInput> inputs = {{"0:weight.npy", npy_text()}, {"foo.npy", npy_text(2)}};
      inputs.insert(first ? inputs.begin() : inputs.end(), {"__netcl_meta__.npy", member});
      const ByteVector bytes = build_zip(inputs, {}).take();
      const Archive archive = open_or_die(kNetclDriver, bytes);
      EXPECT_EQ(archive.description().config->text, json);
      EXPECT_EQ(archive.tensors().size(), 2U);
      const auto again = encode_again(kNetclDriver, archive);
      ASSERT_TRUE(again.has_value()) << again.error().message;
      // The arrays of this test have headers of NumPy's form; the metadata member has one of its own.
      EXPECT_EQ(as_text(*again), as_text(bytes)) << archive.description().stored_form;
    }
  }
}

TEST(Netcl, RefusesMetadataThatIsNoText) {
  const std::string json = kOneRelu;
  const std::vector<std::string> members = {
      meta_npy("|u1", fmt::format("({},)", json.size()), json),
      meta_npy(fmt::format("<U{}", json.size()), "(2,)", utf32(json + json)),
      meta_npy("<U1", "()", std::string("\xFF\xFF\xFF\x7F", 4)),
      meta_npy("<U1", "()", std::string("\x00\xD8\x00\x00", 4)),
      meta_npy("|S1", "()", "\xFF"),
      "not an array",
  };
  for (const std::string& member : members) {
    const Error error = open_error(kNetclDriver, build_zip({{"__netcl_meta__.npy", member}}, {}).take());
    EXPECT_EQ(error.code, ErrorCode::kCorrupt) << error.message;
    EXPECT_THAT(error.message, HasSubstr("__netcl_meta__"));
  }
  EXPECT_THAT(open_error(kNetclDriver, build_zip({{"a.npy", npy_text()}}, {}).take()).message, HasSubstr("is missing"));
}

TEST(Netcl, ReadsCompressedFilesAndWritesThemBack) {
  std::vector<ZipInput> inputs = {
      {"0:weight.npy", npy_text(), true},
      {"__netcl_meta__.npy",
       meta_npy("<U80", "()", utf32(kOneRelu) + std::string(4 * (80 - std::string_view(kOneRelu).size()), '\0')),
       true}};
  const ByteVector bytes = build_zip(inputs, {}).take();
  const Archive archive = open_or_die(kNetclDriver, bytes);
  EXPECT_THAT(archive.description().stored_form, HasSubstr("numpy compressed"));
  EXPECT_EQ(as_text(*encode_again(kNetclDriver, archive)), as_text(bytes));
}

TEST(Netcl, BoundsCompressedMetadata) {
  const std::string json = R"({"type": "Sequential", "config": [)" + std::string(3'000'000, ' ') + "]}";
  std::vector<ZipInput> inputs = {
      {"__netcl_meta__.npy", meta_npy(fmt::format("<U{}", json.size()), "()", utf32(json)), true}};
  EXPECT_EQ(open_error(kNetclDriver, build_zip(inputs, {}).take()).code, ErrorCode::kUnsupported);
  inputs[0].deflate = false;
  EXPECT_TRUE(open_bytes(kNetclDriver, build_zip(inputs, {}).take()).has_value());
}

// ---------------------------------------------------------------- what netcl does not notice

std::vector<std::string> findings_of(const std::string& json, std::vector<ZipInput> tensors) {
  std::vector<std::string> codes;
  const Verified verified = verify_bytes(kNetclDriver, netcl_file(json, std::move(tensors)));
  for (const Finding& finding : verified.findings.items()) codes.push_back(finding.code);
  return codes;
}

ZipInput f32_tensor(const std::string& name, Shape shape) {
  const TensorInfo info = make_info(name, DType::kF32, std::move(shape));
  return {name + ".npy", npy_layout(info, {})->header + std::string(static_cast<size_t>(info.byte_size), '\0')};
}

TEST(Netcl, ReportsWhatNetclPassesOver) {
  using ::testing::ElementsAre;
  using ::testing::IsEmpty;
  const std::string linear =
      R"({"type": "Sequential", "config": [{"type": "Linear", "args": {"in_features": 4, "out_features": 3, "bias": true}}], "version": 2})";
  EXPECT_THAT(findings_of(linear, {f32_tensor("0:weight", {4, 3}), f32_tensor("0:bias", {3})}), IsEmpty());
  EXPECT_THAT(findings_of(linear, {f32_tensor("0:weight", {4, 3}), f32_tensor("0:bias", {1, 3, 1})}), IsEmpty());
  EXPECT_THAT(findings_of(linear, {f32_tensor("0:weight", {4, 3})}), ElementsAre("missing_tensor"));
  EXPECT_THAT(findings_of(linear, {f32_tensor("0:weight", {3, 4}), f32_tensor("0:bias", {3})}), ElementsAre("shape"));
  EXPECT_THAT(findings_of(linear, {f32_tensor("0:weight", {4, 3}), f32_tensor("0:bias", {3}), f32_tensor("9:x", {1})}),
              ElementsAre("extra_tensor"));
  const std::string no_bias =
      R"({"type": "Sequential", "config": [{"type": "Linear", "args": {"in_features": 4, "out_features": 3, "bias": false}}], "version": 2})";
  EXPECT_THAT(findings_of(no_bias, {f32_tensor("0:weight", {4, 3}), f32_tensor("0:bias", {3})}),
              ElementsAre("unexpected_tensor", "extra_tensor"));
  const std::string convolution =
      R"({"type": "Sequential", "config": [{"type": "Conv2d", "args": {"in_channels": 4, "out_channels": 6, "kernel_size": 3, "groups": 2, "mode": 1}}], "version": 3})";
  EXPECT_THAT(findings_of(convolution, {f32_tensor("0:weight", {6, 2, 3, 3})}),
              ElementsAre("layer_args", "missing_bias", "version"));
  EXPECT_THAT(
      findings_of(R"({"type": "Sequential", "config": [{"type": "BatchNorm2d"}, {"type": "GELU"}], "version": 2})", {}),
      ElementsAre("layer_args", "missing_tensor", "missing_tensor", "missing_tensor", "missing_tensor", "layer_type"));
}

// ---------------------------------------------------------------- writing

TEST(Netcl, NeedsAConfigAndSaysHowToGiveIt) {
  Description description;
  description.format = "safetensors";
  for (const FormatDriver* driver : {&kNetclDriver, &kNetclLegacyDriver}) {
    description.config.reset();
    const auto planned = driver->plan_write({description, {}, "a.netcl"});
    ASSERT_FALSE(planned.has_value());
    EXPECT_EQ(planned.error().code, ErrorCode::kInvalidArgument);
    EXPECT_EQ(planned.error().remedies, Remedy::kGiveConfig);
    description.config = ModelConfig{"gptrs", "{}"};
    EXPECT_THAT(driver->plan_write({description, {}, "a.netcl"}).error().message, HasSubstr("gptrs"));
    description.config = ModelConfig{std::string(kNetclSchema), "{}"};
    EXPECT_EQ(driver->plan_write({description, {}, "a.netcl"}).error().code, ErrorCode::kInvalidArgument);
  }
}

TEST(Netcl, WritesWhatNetclWritesForTheSameContent) {
  for (const char* name : {"cnn_all_layers.netcl", "old_0_1_4.netcl", "empty.netcl"}) {
    MemorySiblings siblings;
    siblings.files[name] = read_test_data(std::string("netcl/") + name);
    const Archive archive = open_named_or_die(siblings, name);
    Description description;
    description.format = "safetensors";
    description.config = archive.description().config;
    for (const TensorInfo& tensor : archive.tensors()) {
      description.tensors.push_back(make_info(tensor.name, tensor.dtype, tensor.shape));
    }
    EXPECT_EQ(write_files_or_die(kNetclDriver, archive, description, name).files, siblings.files);
  }
}

TEST(Netcl, HasNoExtensionForPairs) {
  EXPECT_EQ(format_for_extension("model.netcl"), &kNetclDriver);
  EXPECT_EQ(format_for_extension("model.json"), nullptr);
  EXPECT_TRUE(kNetclLegacyDriver.extensions.empty());
  EXPECT_TRUE(kNetclCheckpointDriver.extensions.empty());
}

TEST(Netcl, SurvivesDamage) {
  for (const char* name : {"only_relu.netcl", "train_mlp_init.netcl"}) {
    const ByteVector bytes = read_test_data(std::string("netcl/") + name);
    truncations(bytes, [](ByteSpan mutant, const std::string& what) {
      EXPECT_FALSE(check_survives(kNetclDriver, mutant, what)) << what;
    });
    random_mutations(bytes, fresh_seed(), 300,
                     [](ByteSpan mutant, const std::string& what) { check_survives(kNetclDriver, mutant, what); });
  }
  const ByteVector bytes = read_test_data("netcl/only_relu.netcl");
  bit_flips(bytes, bytes.size(),
            [](ByteSpan mutant, const std::string& what) { check_survives(kNetclDriver, mutant, what); });
}

}  // namespace
}  // namespace ballast::testing
