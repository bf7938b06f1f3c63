// The crash matrix of outputs that are more than one file: the world stops before and after every call that changes the
// disk, and what was not synced is kept, lost or torn. What is found is the old version, the new one, or something that
// opening or verifying refuses; never a mixture that passes for either.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdio>
#include <filesystem>

#include "ballast/archive/model_folder.h"
#include "ballast/archive/open.h"
#include "ballast/archive/verify.h"
#include "ballast/archive/write.h"
#include "ballast/formats/drivers.h"
#include "ballast/formats/netcl/netcl.h"
#include "ballast/io/staging_folder.h"
#include "tests/support/crash_disk.h"
#include "tests/support/temp_folder.h"
#include "tests/support/test_files.h"

namespace ballast {
namespace {

using ::ballast::testing::CrashDisk;
using ::ballast::testing::for_every_crash;
using ::ballast::testing::make_info;
using ::ballast::testing::read_text_file;
using ::ballast::testing::TempFolder;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

constexpr uint64_t kSeeds = 5;  // of random fates, at every stop

// Two tensors of the same names, types and shapes in every version, so that only their bytes tell the versions apart.
struct Version {
  explicit Version(int number) : number_(number) {
    for (size_t i = 0; i < 12; ++i) weight_.push_back(static_cast<float>(100 * number + static_cast<int>(i)));
    for (size_t i = 0; i < 3; ++i) bias_.push_back(static_cast<float>(1000 * number + static_cast<int>(i)));
  }

  WritePlan plan(const FormatDriver& format) const {
    WritePlan plan;
    plan.add_tensor(make_info("0:weight", DType::kF32, {4, 3}), std::as_bytes(std::span(weight_)));
    plan.add_tensor(make_info("0:bias", DType::kF32, {3}), std::as_bytes(std::span(bias_)));
    if (format.config_schema == kNetclSchema) {
      plan.description.config = {std::string(kNetclSchema),
                                 fmt::format(R"({{"type": "Sequential", "config": [{{"type": "Linear", "args": )"
                                             R"({{"in_features": 4, "out_features": 3, "bias": true}}}}, )"
                                             R"({{"type": "Dropout", "args": {{"p": 0.{}, "seed": null}}}}], )"
                                             R"("version": 1}})",
                                             number_)};
    } else if (!format.config_schema.empty() && format.config_schema == kNetclCheckpointDriver.config_schema) {
      plan.description.config = {std::string(format.config_schema),
                                 fmt::format(R"({{"optim_state": {{"t": {}}}, "config": {{}}}})", number_)};
    }
    return plan;
  }

  bool is_in(const Archive& archive, const FormatDriver& format) const {
    const WritePlan expected = plan(format);
    if (archive.tensors().size() != 2) return false;
    const auto holds = [&](std::string_view name, const std::vector<float>& values) {
      const auto found = archive.find(name);
      if (!found) return false;
      const auto payload = archive.payload(*found);
      return payload && std::ranges::equal(payload->bytes(), std::as_bytes(std::span(values)));
    };
    const auto& config = archive.description().config;
    const bool same_config =
        !expected.description.config || (config && config->text == expected.description.config->text);
    return holds("0:weight", weight_) && holds("0:bias", bias_) && same_config;
  }

 private:
  int number_;
  std::vector<float> weight_;
  std::vector<float> bias_;
};

struct Counts {
  size_t stops = 0, images = 0, old_version = 0, new_version = 0, unsound = 0;
};

enum class Outcome : uint8_t { kOld, kNew, kUnsound, kMixture };

struct SetCase {
  const FormatDriver& format;
  std::string path;    // what is written
  std::string opened;  // what is opened afterwards
  uint64_t shard_size = 0;

  void write(const std::string& root, const Version& version, bool overwrite, const FileSystem* files) const {
    WriteSettings settings;
    settings.format.shard_size = shard_size;
    settings.commit = {.overwrite = overwrite, .sync = files != nullptr, .file_system = files};
    const auto written = write_archive(root + "/" + path, format, version.plan(format), settings);
    ASSERT_TRUE(written) << written.error().message;
  }

  Outcome look(const std::string& root, const Version& before, const Version& after) const {
    const auto archive = open_archive(root + "/" + opened);
    const auto report = verify_archive(root + "/" + opened, {.level = VerifyLevel::kContent, .progress = {}});
    if (!archive) {
      EXPECT_FALSE(report && report->sound()) << "cannot be opened, and verifies as sound";
      return Outcome::kUnsound;
    }
    EXPECT_TRUE(report);
    if (before.is_in(*archive, format)) return Outcome::kOld;
    if (after.is_in(*archive, format)) return Outcome::kNew;
    return report && report->sound() ? Outcome::kMixture : Outcome::kUnsound;
  }
};

void count(Counts& counts, Outcome outcome, size_t stop, const CrashDisk& disk) {
  ++counts.images;
  EXPECT_NE(outcome, Outcome::kMixture);
  if (stop == disk.size()) {
    EXPECT_EQ(outcome, Outcome::kNew) << "the write had succeeded";
  }
  if (outcome == Outcome::kOld) ++counts.old_version;
  if (outcome == Outcome::kNew) ++counts.new_version;
  if (outcome == Outcome::kUnsound) ++counts.unsound;
}

void print(const std::string& name, const Counts& counts) {
  std::printf("%s: stopped at %zu calls, %zu disks: %zu old, %zu new, %zu reported as unsound\n", name.c_str(),
              counts.stops, counts.images, counts.old_version, counts.new_version, counts.unsound);
}

// Files that do not belong to the set.
std::vector<std::string> left_behind(const std::string& folder, const SetCase& set) {
  std::vector<std::string> names;
  const bool indexed = set.format.name == kSafetensorsDriver.name;
  const std::string index = indexed ? read_text_file(folder + "/" + set.opened) : "";
  for (const auto& entry : std::filesystem::directory_iterator(folder)) {
    const std::string name = entry.path().filename().string();
    const bool is_temporary_file = name.starts_with(".");
    const bool belongs = indexed ? name == set.opened || index.find("\"" + name + "\"") != std::string::npos : true;
    if (is_temporary_file || !belongs) names.push_back(name);
  }
  return names;
}

// `writes` versions one after the other; the crash happens while the last is written.
Counts run_matrix(const SetCase& set, int writes) {
  const TempFolder root;
  const CrashDisk disk(root.path());
  for (int i = 1; i < writes; ++i) set.write(root.path(), Version(i), i > 1, &disk);
  const size_t first = disk.size();
  const Version before(writes - 1), after(writes), again(writes + 1);
  set.write(root.path(), after, true, &disk);
  Counts counts;
  counts.stops = disk.size() - first + 1;
  for_every_crash(disk, first, kSeeds, [&](size_t stop, const std::string& crashed) {
    count(counts, set.look(crashed, before, after), stop, disk);
    // Whatever was left, writing again replaces it.
    set.write(crashed, again, true, nullptr);
    EXPECT_EQ(set.look(crashed, before, again), Outcome::kNew);
    for (const std::string& name : left_behind(crashed, set)) {
      // Stopped between the commit and a durable removal: no index names these any more, and they might be anyone's.
      EXPECT_TRUE(name.starts_with("model-0000") && name.ends_with(".safetensors")) << name;
    }
  });
  return counts;
}

TEST(SetCrash, ShardsAreTheOldSetOrTheNewOne) {
  for (const int writes : {2, 3}) {
    const Counts counts =
        run_matrix({kSafetensorsDriver, "model.safetensors", "model.safetensors.index.json", 48}, writes);
    EXPECT_EQ(counts.unsound, 0U) << "the index alone is the commit";
    EXPECT_GT(counts.old_version, 0U);
    EXPECT_GT(counts.new_version, 0U);
    print("shards with an index", counts);
  }
}

TEST(SetCrash, GgufPartsOfTwoVersionsAreFound) {
  for (const int writes : {2, 3}) {
    const Counts counts = run_matrix({kGgufDriver, "model.gguf", "model-00001-of-00002.gguf", 48}, writes);
    EXPECT_GT(counts.old_version, 0U);
    EXPECT_GT(counts.new_version, 0U);
    EXPECT_GT(counts.unsound, 0U);
    print("parts of a GGUF set", counts);
  }
}

TEST(SetCrash, NetclPairsOfTwoVersionsAreFound) {
  for (const FormatDriver* format : {&kNetclLegacyDriver, &kNetclCheckpointDriver}) {
    for (const int writes : {2, 3}) {
      const Counts counts = run_matrix({*format, "model.json", "model.json", 0}, writes);
      EXPECT_GT(counts.old_version, 0U);
      EXPECT_GT(counts.new_version, 0U);
      EXPECT_GT(counts.unsound, 0U);
      print(std::string(format->name) + " pair", counts);
    }
  }
}

// ---------------------------------------------------------------- folders

void write_text(const std::string& path, const std::string& text, const FileSystem* files) {
  AtomicFiles set({.overwrite = true, .sync = files != nullptr, .file_system = files});
  const auto sink = set.add(path, 0);
  ASSERT_TRUE(sink) << sink.error().message;
  ASSERT_TRUE((*sink)->write_text(text));
  ASSERT_TRUE(set.commit());
}

std::string config_of(int number) { return fmt::format(R"({{"model_type": "llama", "version": {}}})", number); }

void write_folder(const std::string& root, int number, const FileSystem* files) {
  StagingOptions options;
  options.replaces = is_model_folder_file;
  options.sync = files != nullptr;
  options.file_system = files;
  auto staging = StagingFolder::create(root + "/model", std::move(options));
  ASSERT_TRUE(staging) << staging.error().message;
  const SetCase weights{kSafetensorsDriver, "model.safetensors", "", 48};
  weights.write(staging->path(), Version(number), false, files);
  write_text(staging->path() + "/config.json", config_of(number), files);
  const Status published = staging->publish();
  ASSERT_TRUE(published) << published.error().message;
}

Outcome look_at_folder(const std::string& root, int before, int after) {
  const std::string folder = root + "/model";
  EXPECT_EQ(read_text_file(folder + "/notes.txt"), "mine");
  const std::string config = read_text_file(folder + "/config.json");
  const auto archive = open_archive(folder);
  EXPECT_TRUE(archive) << archive.error().message;
  if (!archive) return Outcome::kUnsound;
  for (const int number : {before, after}) {
    if (!Version(number).is_in(*archive, kSafetensorsDriver) || config != config_of(number)) continue;
    return number == before ? Outcome::kOld : Outcome::kNew;
  }
  return Outcome::kMixture;
}

TEST(SetCrash, FoldersAreTheOldOneOrTheNewOne) {
  const TempFolder root;
  const CrashDisk disk(root.path());
  write_folder(root.path(), 1, &disk);
  write_text(root.path("model/notes.txt"), "mine", &disk);
  const size_t first = disk.size();
  write_folder(root.path(), 2, &disk);
  Counts counts;
  counts.stops = disk.size() - first + 1;
  for_every_crash(disk, first, kSeeds, [&](size_t stop, const std::string& crashed) {
    count(counts, look_at_folder(crashed, 1, 2), stop, disk);
    write_folder(crashed, 3, nullptr);
    EXPECT_EQ(look_at_folder(crashed, 2, 3), Outcome::kNew);
    EXPECT_EQ(std::distance(std::filesystem::directory_iterator(crashed), {}), 1) << "a leftover stays for ever";
  });
  EXPECT_EQ(counts.unsound, 0U);
  EXPECT_GT(counts.old_version, 0U);
  EXPECT_GT(counts.new_version, 0U);
  print("folder", counts);
}

// ---------------------------------------------------------------- without a crash

TEST(SetReplace, NewShardsNeverTakeTheNamesOfOldOnes) {
  const TempFolder folder;
  const SetCase set{kSafetensorsDriver, "model.safetensors", "model.safetensors.index.json", 48};
  folder.write("model-00009-of-00009.safetensors", "nobody's");
  set.write(folder.path(), Version(1), false, nullptr);
  const std::vector<std::string> plain = {"model-00001-of-00002.safetensors", "model-00002-of-00002.safetensors",
                                          "model-00009-of-00009.safetensors", "model.safetensors.index.json"};
  EXPECT_EQ(folder.names(), plain);
  set.write(folder.path(), Version(2), true, nullptr);
  const std::vector<std::string> tagged = {"model-00009-of-00009.safetensors", "model-g1-00001-of-00002.safetensors",
                                           "model-g1-00002-of-00002.safetensors", "model.safetensors.index.json"};
  EXPECT_EQ(folder.names(), tagged) << "what the old index did not name stays";
  EXPECT_EQ(set.look(folder.path(), Version(1), Version(2)), Outcome::kNew);
  set.write(folder.path(), Version(3), true, nullptr);
  EXPECT_EQ(folder.names(), plain) << "the plain names are free again";
}

TEST(SetReplace, ASetThatReplacesNothingHasNoBond) {
  const TempFolder folder;
  const SetCase gguf{kGgufDriver, "model.gguf", "model-00001-of-00002.gguf", 48};
  gguf.write(folder.path(), Version(1), true, nullptr);
  EXPECT_EQ(read_text_file(folder.path("model-00002-of-00002.gguf")).find("ballast.split"), std::string::npos);
  gguf.write(folder.path(), Version(1), true, nullptr);
  EXPECT_THAT(read_text_file(folder.path("model-00002-of-00002.gguf")), HasSubstr("ballast.split.previous"));
  const auto archive = open_archive(folder.path("model-00001-of-00002.gguf"));
  ASSERT_TRUE(archive) << archive.error().message;
  EXPECT_THAT(archive->description().metadata, IsEmpty()) << "how the set was packed is no content";
  const SetCase pair{kNetclLegacyDriver, "pair.json", "pair.json", 0};
  pair.write(folder.path(), Version(1), true, nullptr);
  EXPECT_EQ(read_text_file(folder.path("pair.npz")).find("ballast.pair"), std::string::npos);
  pair.write(folder.path(), Version(1), true, nullptr);
  EXPECT_THAT(read_text_file(folder.path("pair.npz")), HasSubstr("ballast.pair"));
  EXPECT_EQ(pair.look(folder.path(), Version(2), Version(1)), Outcome::kNew);
}

TEST(SetReplace, APairWhoseJsonIsOfAnotherSaveIsNamedAndRefused) {
  const TempFolder folder;
  const SetCase pair{kNetclLegacyDriver, "pair.json", "pair.json", 0};
  pair.write(folder.path(), Version(1), false, nullptr);
  const std::string old_json = read_text_file(folder.path("pair.json"));
  pair.write(folder.path(), Version(2), true, nullptr);
  folder.write("pair.json", old_json);
  const auto archive = open_archive(folder.path("pair.json"));
  ASSERT_FALSE(archive);
  EXPECT_EQ(archive.error().code, ErrorCode::kCorrupt);
  EXPECT_THAT(archive.error().message, HasSubstr("belongs to another JSON"));
}

}  // namespace
}  // namespace ballast
