// The crash matrix: the world stops before and after every call that changes the disk, and what was not synced is kept,
// lost or torn. Whatever is found afterwards, the run goes on from the old checkpoint or from the new one, whole.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>

#include "ballast/archive/open.h"
#include "ballast/training/checkpoints/checkpoint_export.h"
#include "tests/support/crash_disk.h"
#include "tests/support/faulty_file_system.h"
#include "tests/training/checkpoint_testing.h"

namespace ballast {
namespace {

using ::ballast::testing::CrashDisk;
using ::ballast::testing::describe_difference;
using ::ballast::testing::FaultyFileSystem;
using ::ballast::testing::for_every_crash;
using ::ballast::testing::open_or_fail;
using ::ballast::testing::quick_options;
using ::ballast::testing::SampleRun;
using ::ballast::testing::save_or_fail;
using ::ballast::testing::steps_in;
using ::ballast::testing::TempFolder;
using ::testing::AnyOf;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

constexpr uint64_t kSeeds = 3;  // of random fates, at every stop

// Only manifests, what they name, and the lock.
void expect_tidy(const std::string& folder) {
  const auto list = list_checkpoints(folder);
  ASSERT_TRUE(list);
  std::vector<std::string> expected = {"lock"};
  for (const CheckpointManifest& checkpoint : list->checkpoints) {
    expected.push_back(checkpoint_manifest_name(checkpoint.step));
    for (const CheckpointFile& file : checkpoint.files) expected.push_back(file.name);
  }
  std::ranges::sort(expected);
  expected.erase(std::unique(expected.begin(), expected.end()), expected.end());
  std::vector<std::string> names;
  for (const auto& entry : std::filesystem::directory_iterator(folder))
    names.push_back(entry.path().filename().string());
  std::ranges::sort(names);
  EXPECT_EQ(names, expected);
}

void expect_sound(const std::string& folder, SampleRun& run) {
  const auto list = list_checkpoints(folder);
  ASSERT_TRUE(list) << list.error().message;
  EXPECT_THAT(list->damaged, IsEmpty());
  for (const CheckpointManifest& manifest : list->checkpoints) {
    const auto loaded = LoadedCheckpoint::open(folder, manifest);
    ASSERT_TRUE(loaded) << loaded.error().message;
    EXPECT_EQ(describe_difference(run.at(manifest.step), *loaded), "");
  }
}

// The matrix for one save: `before` are the steps saved until then, which all must be there or have been pruned.
class Matrix {
 public:
  Matrix(CheckpointOptions options, size_t elements)
      : options_(std::move(options)), run_(elements), disk_(root_.path()) {
    options_.file_system = &disk_;
    options_.sync = true;
  }

  void save_before(const std::vector<uint64_t>& steps) {
    const auto manager = open_or_fail(root_.path("runs/run"), options_);
    for (const uint64_t step : steps) save_or_fail(*manager, run_.at(step));
    old_ = steps.empty() ? std::nullopt : std::optional(steps.back());
    first_ = disk_.size();
  }

  // In a process of its own, as it were: the folder is opened again.
  void save(uint64_t step, bool resumed) {
    const auto manager = open_or_fail(root_.path("runs/run"), options_);
    if (resumed) {
      ASSERT_TRUE(manager->resume());
    }
    const auto saved = manager->save(run_.at(step));
    ASSERT_TRUE(saved) << saved.error().message;
    ASSERT_TRUE(manager->finish());
    new_ = step;
    acknowledged_ = disk_.size();
  }

  void check() {
    ASSERT_GT(disk_.size(), first_ + 8);
    for_every_crash(disk_, first_, kSeeds,
                    [&](size_t stop, const std::string& root) { check_crash(stop, root + "/runs/run"); });
  }

 private:
  void check_crash(size_t stop, const std::string& folder) {
    CheckpointOptions options = quick_options();
    options.policy = options_.policy;
    options.weights_format = options_.weights_format;
    const auto manager = open_or_fail(folder, options);
    ASSERT_NE(manager, nullptr);
    const auto resumed = manager->resume();
    ASSERT_TRUE(resumed) << resumed.error().message;
    EXPECT_THAT(resumed->rejected, IsEmpty());
    std::optional<uint64_t> found;
    if (resumed->checkpoint) found = resumed->checkpoint->step();
    if (stop >= acknowledged_) {
      EXPECT_EQ(found, new_);
    } else {
      EXPECT_THAT(found, AnyOf(old_, std::optional(new_)));
    }
    expect_sound(folder, run_);
    expect_tidy(folder);
    save_or_fail(*manager, run_.at(new_ + 1));
    expect_sound(folder, run_);
    EXPECT_EQ(steps_in(folder).back(), new_ + 1);
  }

  TempFolder root_;
  CheckpointOptions options_;
  SampleRun run_;
  CrashDisk disk_;
  std::optional<uint64_t> old_;
  uint64_t new_ = 0;
  size_t first_ = 0;
  size_t acknowledged_ = 0;
};

TEST(CheckpointCrash, FirstSave) {
  Matrix matrix(quick_options(), 100);
  matrix.save(1, false);
  matrix.check();
}

TEST(CheckpointCrash, SaveOfManyWrites) {
  Matrix matrix(quick_options(), 40'000);
  matrix.save(1, false);
  matrix.check();
}

TEST(CheckpointCrash, SecondSaveWithoutAnythingInCommon) {
  CheckpointOptions options = quick_options();
  options.incremental = false;
  Matrix matrix(options, 100);
  matrix.save_before({1});
  matrix.save(2, false);
  matrix.check();
}

TEST(CheckpointCrash, IncrementalSave) {
  Matrix matrix(quick_options(), 100);
  matrix.save_before({1, 2});
  matrix.save(3, true);
  matrix.check();
}

TEST(CheckpointCrash, SaveThatPrunes) {
  CheckpointOptions options = quick_options();
  options.policy.keep_last = 1;
  Matrix matrix(options, 100);
  matrix.save_before({1, 2});
  matrix.save(3, true);
  matrix.check();
}

TEST(CheckpointCrash, SaveThatPrunesWithoutAnythingInCommon) {
  CheckpointOptions options = quick_options();
  options.policy.keep_last = 1;
  options.incremental = false;
  Matrix matrix(options, 100);
  matrix.save_before({1});
  matrix.save(2, false);
  matrix.check();
}

TEST(CheckpointCrash, SaveOfTheSameStepAgain) {
  Matrix matrix(quick_options(), 100);
  matrix.save_before({1});
  matrix.save(1, false);
  matrix.check();
}

TEST(CheckpointCrash, SaveInAnotherFormat) {
  CheckpointOptions options = quick_options();
  options.weights_format = "burnpack";
  Matrix matrix(options, 100);
  matrix.save_before({1});
  matrix.save(2, true);
  matrix.check();
}

TEST(CheckpointCrash, ExportLeavesNothingOrAWholeFileAndTheRunAsItWas) {
  const TempFolder root;
  SampleRun run(100);
  const CrashDisk disk(root.path());
  CheckpointOptions options = quick_options();
  options.file_system = &disk;
  options.sync = true;
  const auto manager = open_or_fail(root.path("run"), options);
  save_or_fail(*manager, run.at(1));
  const auto resumed = manager->resume();
  ASSERT_TRUE(resumed);
  const size_t first = disk.size();
  ExportOptions exporting;
  exporting.convert.write.commit.file_system = &disk;
  const std::string path = root.path("out.safetensors");
  ASSERT_TRUE(export_checkpoint(*resumed->checkpoint, path, *format_for_extension(path), exporting));
  const size_t acknowledged = disk.size();
  for_every_crash(disk, first, kSeeds, [&](size_t stop, const std::string& crashed) {
    expect_sound(crashed + "/run", run);
    const std::string out = crashed + "/out.safetensors";
    if (!std::filesystem::exists(out)) {
      EXPECT_LT(stop, acknowledged);
      return;
    }
    const auto archive = open_archive(out);
    ASSERT_TRUE(archive) << archive.error().message;
    for (const SnapshotTensor& tensor : run.at(1).weights) {
      const auto payload = archive->payload(*archive->find(tensor.info.name));
      ASSERT_TRUE(payload);
      EXPECT_TRUE(std::ranges::equal(payload->bytes(), tensor.bytes));
    }
  });
}

// ---------------------------------------------------------------- calls that fail

class CheckpointFaults : public ::testing::TestWithParam<int> {};

// Every call in turn fails once, from opening the folder on; then everything works again.
TEST_P(CheckpointFaults, EveryCallMayFailOnceAndTheOldCheckpointStays) {
  SampleRun run(40'000);
  int failed = 0;
  int refused = 0;
  for (int number = 1;; ++number) {
    const TempFolder folder;
    CheckpointOptions options = quick_options();
    options.policy.keep_last = 1;
    options.sync = true;
    const FaultyFileSystem quick(FaultyFileSystem::none());
    options.file_system = &quick;
    save_or_fail(*open_or_fail(folder.path("run"), options), run.at(1));

    const FaultyFileSystem faulty(FaultyFileSystem::fail_call(number, GetParam()));
    options.file_system = &faulty;
    SCOPED_TRACE(number);
    auto manager = CheckpointManager::open(folder.path("run"), options);
    bool complained = !manager;
    if (manager) {
      ASSERT_TRUE((*manager)->save(run.at(2)));
      const Status finished = (*manager)->finish();
      complained = !finished;
      if (!finished) {
        EXPECT_THAT(finished.error().message, HasSubstr("saving step 2: "));
        if (GetParam() == ENOSPC && faulty.log()[static_cast<size_t>(number) - 1] == "write_at") {
          EXPECT_THAT(finished.error().message, HasSubstr("no space left"));
          ++refused;
        }
      }
      expect_sound(folder.path("run"), run);
      ASSERT_FALSE(steps_in(folder.path("run")).empty());
      if (faulty.calls() < number) break;
      save_or_fail(**manager, run.at(3));
    } else {
      options.file_system = &quick;
      manager = CheckpointManager::open(folder.path("run"), options);
      ASSERT_TRUE(manager) << manager.error().message;
      save_or_fail(**manager, run.at(3));
    }
    failed += complained ? 1 : 0;
    expect_sound(folder.path("run"), run);
    EXPECT_EQ(steps_in(folder.path("run")).back(), 3U);
    ASSERT_LT(number, 1000);
  }
  EXPECT_GT(failed, 15);
  EXPECT_GT(refused, GetParam() == ENOSPC ? 3 : -1);
}

INSTANTIATE_TEST_SUITE_P(All, CheckpointFaults, ::testing::Values(EIO, ENOSPC),
                         [](const auto& instance) { return instance.param == EIO ? "EIO" : "ENOSPC"; });

TEST(CheckpointFullDisk, IsToldByTheNextCallAndLeavesNothingBehind) {
  const TempFolder folder;
  SampleRun run(40'000);
  bool full = false;
  const FaultyFileSystem files([&](const std::string& call, int) { return full && call == "write_at" ? ENOSPC : 0; });
  CheckpointOptions options = quick_options();
  options.file_system = &files;
  const auto manager = open_or_fail(folder.path(), options);
  save_or_fail(*manager, run.at(1));
  const auto before = folder.names();
  full = true;
  ASSERT_TRUE(manager->save(run.at(2)));
  const auto next = manager->save(run.at(3));
  ASSERT_FALSE(next);
  EXPECT_THAT(next.error().message, HasSubstr("saving step 2: "));
  EXPECT_THAT(next.error().message, HasSubstr("no space left"));
  EXPECT_EQ(folder.names(), before);
  full = false;
  save_or_fail(*manager, run.at(3));
  EXPECT_THAT(steps_in(folder.path()), ::testing::ElementsAre(1, 3));
}

}  // namespace
}  // namespace ballast
