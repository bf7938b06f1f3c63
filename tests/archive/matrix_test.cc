// Lossless means lossless: every sample goes through every format and comes back as the same bytes.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <map>

#include "ballast/archive/convert.h"
#include "ballast/archive/digest.h"
#include "ballast/archive/open.h"
#include "tests/support/temp_folder.h"
#include "tests/support/test_files.h"

namespace ballast::testing {
namespace {

namespace fs = std::filesystem;

// Genuine files in the form of their reference writers.
struct Sample {
  std::string format;
  std::string path;                // under tests/data; a pair by its prefix
  std::vector<std::string> files;  // suffixes of a pair, {""} for one file
  // False: holds a type or a name for which the gpt.rs formats or gguf, the narrowest, have no word.
  bool fits_everywhere = true;
};

const std::vector<Sample>& samples() {
  static const std::vector<Sample> kSamples = {
      {"gptrs-checkpoint", "gptrs/gpt_micro/model.gptrs", {""}},
      {"gptrs-checkpoint", "gptrs/gpt_base/model_rust_saver.gptrs", {""}},
      {"gptrs-tensors", "gptrs/archives/mixed.gptrsten", {""}},
      {"burnpack", "burnpack/0.19.1/shapes.bpk", {""}, false},
      {"burnpack", "burnpack/0.20.1/names_many.bpk", {""}, false},
      {"burnpack", "burnpack/0.22.1/adam_record.bpk", {""}},
      {"burnpack", "burnpack/0.22.1/scalars_mixed.bpk", {""}},
      {"burnpack", "burnpack/0.23.0-pre.1/metadata_unicode.bpk", {""}},
      {"burnpack", "burnpack/0.23.0-pre.1/param_ids.bpk", {""}, false},
      {"burnpack", "burnpack/0.22.1/module_record.bpk", {""}, false},
      {"netcl", "netcl/mlp_basic.netcl", {""}},
      {"netcl", "netcl/cnn_all_layers.netcl", {""}},
      {"netcl", "netcl/old_0_1_4.netcl", {""}},
      {"netcl-legacy", "netcl/old_0_1_3", {".npz", ".json"}},
      {"netcl-checkpoint", "netcl/ckpt_adam", {".npz", ".json"}},
      {"npz", "netcl/params_named.npz", {""}},
      {"npz", "npz/orders.npz", {""}},
      {"safetensors", "safetensors/reference.safetensors", {""}},
      {"gguf", "gguf/small/meta_all_types.gguf", {""}},
      {"gguf", "gguf/small/meta_nested_arrays.gguf", {""}},
      {"gguf", "gguf/small/no_tail_padding.gguf", {""}},
      {"gguf", "gguf/small/zero_tensors.gguf", {""}},
      {"gguf", "gguf/small/ranks.gguf", {""}},
      {"gguf", "gguf/small/v3_big_endian.gguf", {""}, false},
  };
  return kSamples;
}

std::string default_path(const TempFolder& folder, const FormatDriver& format, const std::string& stem) {
  return folder.path(stem + std::string(format.extensions.empty() ? "" : format.extensions.front()));
}

// A config for targets that need one which the source does not have.
std::optional<std::string> config_for(const FormatDriver& format, const Description& source) {
  static const std::map<std::string_view, std::string> kTexts = {
      {"gptrs", R"({"kind":"gpt","config":{}})"},
      {"netcl", R"({"type": "Sequential", "config": [], "version": 2, "format": "netcl.single-file"})"},
      {"netcl-checkpoint", R"({"optim_state": {}, "config": {}})"},
  };
  if (format.config_schema.empty() || (source.config && source.config->schema == format.config_schema)) {
    return std::nullopt;
  }
  return kTexts.at(format.config_schema);
}

Result<ConvertReport> convert_file(const std::string& from, const std::string& to, const FormatDriver& format,
                                   bool with_config) {
  BALLAST_TRY(const Archive source, open_archive(from));
  ConvertOptions options;
  if (with_config) options.config_text = config_for(format, source.description());
  return convert_archive(source, to, format, options);
}

std::string file_text(const std::string& path) { return read_text_file(path); }

void expect_same_files(const Sample& sample, const std::string& path, const std::string& what) {
  for (const std::string& suffix : sample.files) {
    const std::string expected = file_text(test_file_path(sample.path) + suffix);
    const std::string actual = file_text(path + suffix);
    EXPECT_TRUE(expected == actual) << what << ": " << suffix << " came back as " << actual.size()
                                    << " other bytes instead of " << expected.size();
  }
}

bool is_writable(const FormatDriver* format) { return format->plan_write != nullptr; }
bool is_narrow(const FormatDriver& format) { return format.name.starts_with("gptrs") || format.name == "gguf"; }

TEST(ConversionMatrix, EverySampleComesBackFromEveryFormatAsTheSameBytes) {
  for (const Sample& sample : samples()) {
    const FormatDriver* home = find_format(sample.format);
    ASSERT_NE(home, nullptr) << sample.format;
    for (const FormatDriver* target : all_formats()) {
      if (!is_writable(target) || target->name == "npy") continue;
      const std::string what = fmt::format("{} -> {} -> {}", sample.path, target->name, sample.format);
      const TempFolder folder;
      const std::string there = default_path(folder, *target, "there");
      const auto out = convert_file(test_file_path(sample.path), there, *target, /*with_config=*/true);
      if (!out && out.error().code == ErrorCode::kLossy && !sample.fits_everywhere && is_narrow(*target)) continue;
      ASSERT_TRUE(out) << what << ": " << out.error().message;
      const std::string back = default_path(folder, *home, "back");
      const auto in = convert_file(there, back, *home, /*with_config=*/false);
      ASSERT_TRUE(in) << what << ": " << in.error().message;
      expect_same_files(sample, back, what);
    }
  }
}

TEST(ConversionMatrix, AChainThroughAllFormatsComesBackAsTheSameBytes) {
  for (const Sample& sample : samples()) {
    if (!sample.fits_everywhere) continue;
    const TempFolder folder;
    std::string at = test_file_path(sample.path);
    for (const FormatDriver* target : all_formats()) {
      if (!is_writable(target) || target->name == "npy") continue;
      const std::string next = default_path(folder, *target, "step_" + std::string(target->name));
      const auto step = convert_file(at, next, *target, /*with_config=*/true);
      ASSERT_TRUE(step) << sample.path << " at " << target->name << ": " << step.error().message;
      at = next;
    }
    const std::string back = default_path(folder, *find_format(sample.format), "back");
    ASSERT_TRUE(convert_file(at, back, *find_format(sample.format), /*with_config=*/false)) << sample.path;
    expect_same_files(sample, back, sample.path + " through all formats");
  }
}

TEST(ConversionMatrix, TheContentDigestIsTheSameInEveryFormatThatKeepsShapes) {
  const auto digest = [](const std::string& path) {
    const auto archive = open_archive(path);
    EXPECT_TRUE(archive) << path;
    const auto digests = digest_tensors(*archive);
    EXPECT_TRUE(digests);
    return archive_digest(archive->tensors(), *digests);
  };
  const std::string source = test_file_path("netcl/mlp_basic.netcl");
  for (const FormatDriver* target : all_formats()) {
    if (!is_writable(target) || target->name == "npy") continue;
    const TempFolder folder;
    const std::string there = default_path(folder, *target, "there");
    ASSERT_TRUE(convert_file(source, there, *target, /*with_config=*/true));
    EXPECT_EQ(digest(there), digest(source)) << target->name;
  }
}

TEST(ConversionMatrix, EveryLossIsNamedBeforeAnythingIsWritten) {
  // A type that only one format has a word for, into every other format.
  const std::string source = test_file_path("burnpack/0.22.1/quant_backend.bpk");
  for (const FormatDriver* target : all_formats()) {
    if (!is_writable(target) || target->name == "burnpack") continue;
    const TempFolder folder;
    const auto refused = convert_file(source, default_path(folder, *target, "x"), *target, /*with_config=*/true);
    ASSERT_FALSE(refused) << target->name;
    EXPECT_EQ(refused.error().code, ErrorCode::kLossy) << target->name << ": " << refused.error().message;
    EXPECT_TRUE(folder.names().empty()) << target->name;
  }
}

TEST(ConversionMatrix, AStaleOriginIsIgnoredAndSaidSo) {
  const TempFolder folder;
  const FormatDriver* safetensors = find_format("safetensors");
  ASSERT_TRUE(
      convert_file(test_file_path("gptrs/gpt_micro/model.gptrs"), folder.path("a.safetensors"), *safetensors, false));
  // Another program changes one payload byte.
  std::string bytes = file_text(folder.path("a.safetensors"));
  bytes.back() = static_cast<char>(bytes.back() ^ 1);
  folder.write("b.safetensors", bytes);
  const auto archive = open_archive(folder.path("b.safetensors"));
  ASSERT_TRUE(archive);
  const auto report = convert_archive(*archive, folder.path("c.safetensors"), *safetensors, {});
  ASSERT_TRUE(report);
  ASSERT_FALSE(report->notes.empty());
  EXPECT_NE(report->notes.front().find("ignored"), std::string::npos) << report->notes.front();
  // Without the origin's config a checkpoint cannot be made.
  EXPECT_FALSE(convert_archive(*archive, folder.path("d.gptrs"), *find_format("gptrs-checkpoint"), {}));
}

TEST(ConversionMatrix, OneTensorGoesThroughNpyWhereItsNameAllowsIt) {
  const TempFolder folder;
  WritePlan plan;
  const ByteVector bytes = counting_bytes(24);
  plan.add_tensor(make_info("arr_0", DType::kF32, {2, 3}), bytes);
  ASSERT_TRUE(write_archive(folder.path("a.safetensors"), *find_format("safetensors"), plan));
  ASSERT_TRUE(convert_file(folder.path("a.safetensors"), folder.path("a.npy"), *find_format("npy"), false));
  ASSERT_TRUE(convert_file(folder.path("a.npy"), folder.path("b.safetensors"), *find_format("safetensors"), false));
  EXPECT_EQ(file_text(folder.path("a.safetensors")), file_text(folder.path("b.safetensors")));
}

}  // namespace
}  // namespace ballast::testing
