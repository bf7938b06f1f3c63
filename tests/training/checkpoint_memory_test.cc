#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "ballast/training/checkpoints/checkpoint_manifest.h"
#include "tests/training/checkpoint_testing.h"

namespace ballast {
namespace {

using ::ballast::testing::describe_difference;
using ::ballast::testing::open_or_fail;
using ::ballast::testing::quick_options;
using ::ballast::testing::same_bytes;
using ::ballast::testing::SampleRun;
using ::ballast::testing::save_or_fail;
using ::ballast::testing::TempFolder;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::SizeIs;

// Memory for the payloads of one checkpoint at a time.
class Memory {
 public:
  PayloadMemory door() {
    return [this](const LoadedCheckpoint& checkpoint) -> Result<std::vector<MutableByteSpan>> {
      ++asked_;
      payloads_.clear();
      for (const auto part : {CheckpointPart::kWeights, CheckpointPart::kState}) {
        for (const CheckpointTensor& tensor : checkpoint.tensors(part)) payloads_.emplace_back(tensor.info.byte_size);
      }
      return std::vector<MutableByteSpan>(payloads_.begin(), payloads_.end());
    };
  }

  // "" when it holds the tensors of this snapshot, else what differs.
  std::string describe_difference_from(const TrainingSnapshot& snapshot) const {
    if (payloads_.size() != snapshot.weights.size() + snapshot.state.size()) return "another number of tensors";
    size_t number = 0;
    for (const auto* tensors : {&snapshot.weights, &snapshot.state}) {
      for (const SnapshotTensor& tensor : *tensors) {
        if (!same_bytes(payloads_[number++], tensor.bytes)) return tensor.info.name;
      }
    }
    return "";
  }

  int asked() const { return asked_; }

 private:
  std::vector<ByteVector> payloads_;
  int asked_ = 0;
};

TEST(CheckpointMemory, WhatResumingChecksStaysInTheCallersMemory) {
  const TempFolder folder;
  SampleRun run;
  const auto manager = open_or_fail(folder.path());
  save_or_fail(*manager, run.at(1));
  save_or_fail(*manager, run.at(2));  // in several files: a tensor that did not change is where it was
  Memory memory;
  const auto resumed = manager->resume({}, memory.door());
  ASSERT_TRUE(resumed) << resumed.error().message;
  EXPECT_EQ(resumed->checkpoint->step(), 2U);
  EXPECT_EQ(memory.describe_difference_from(run.at(2)), "");
  ASSERT_TRUE(manager->resume_from(1, {}, memory.door()));
  EXPECT_EQ(memory.describe_difference_from(run.at(1)), "");
  EXPECT_EQ(memory.asked(), 2);
}

TEST(CheckpointMemory, OfADamagedCheckpointItIsUsedAgainForTheOneBefore) {
  const TempFolder folder;
  SampleRun run;
  CheckpointOptions options = quick_options();
  options.incremental = false;
  const auto manager = open_or_fail(folder.path(), options);
  save_or_fail(*manager, run.at(1));
  save_or_fail(*manager, run.at(2));
  const auto list = list_checkpoints(folder.path());
  ASSERT_TRUE(list);
  const std::string& name = list->checkpoints.back().files.front().name;
  std::string content = testing::read_text_file(folder.path(name));
  content.back() = static_cast<char>(content.back() ^ 1);
  folder.write(name, content);
  Memory memory;
  const auto resumed = manager->resume({}, memory.door());
  ASSERT_TRUE(resumed) << resumed.error().message;
  ASSERT_THAT(resumed->rejected, SizeIs(1));
  EXPECT_THAT(resumed->rejected.front(), HasSubstr("do not fit their digest"));
  EXPECT_EQ(memory.asked(), 2);
  EXPECT_EQ(memory.describe_difference_from(run.at(1)), "");
}

TEST(CheckpointMemory, ThatTheCallerDoesNotGiveSaysNothingAboutACheckpoint) {
  const TempFolder folder;
  SampleRun run;
  const auto manager = open_or_fail(folder.path());
  save_or_fail(*manager, run.at(1));
  save_or_fail(*manager, run.at(2));
  const auto refused = manager->resume({}, [](const LoadedCheckpoint&) -> Result<std::vector<MutableByteSpan>> {
    return make_error(ErrorCode::kUnsupported, "not today");
  });
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().message, "not today");
  const auto resumed = manager->resume();
  ASSERT_TRUE(resumed) << resumed.error().message;
  EXPECT_EQ(resumed->checkpoint->step(), 2U);
  EXPECT_THAT(resumed->rejected, IsEmpty());
}

// A crafted manifest: no writer of ours gives two tensors one place, of which only one would be read.
TEST(CheckpointMemory, OneTensorOfAFileIsNotTwoOfTheCheckpoint) {
  const TempFolder folder;
  SampleRun run;
  save_or_fail(*open_or_fail(folder.path()), run.at(1));
  auto list = list_checkpoints(folder.path());
  ASSERT_TRUE(list);
  CheckpointManifest& manifest = list->checkpoints.front();
  manifest.state.push_back(manifest.weights.front());
  folder.write(checkpoint_manifest_name(1), checkpoint_manifest_to_json(manifest));
  const auto resumed = open_or_fail(folder.path())->resume();
  ASSERT_TRUE(resumed) << resumed.error().message;
  EXPECT_FALSE(resumed->checkpoint);
  ASSERT_THAT(resumed->rejected, SizeIs(1));
  EXPECT_THAT(resumed->rejected.front(), HasSubstr("and another one are the same"));
}

TEST(CheckpointMemory, ThatDoesNotFitIsRefused) {
  const TempFolder folder;
  SampleRun run;
  const auto manager = open_or_fail(folder.path());
  save_or_fail(*manager, run.at(1));
  const auto loaded = manager->resume_from(1);
  ASSERT_TRUE(loaded);
  ByteVector bytes(100'000);
  std::vector<MutableByteSpan> out(4, bytes);
  EXPECT_THAT(loaded->read_all(out).error().message, HasSubstr("has 5 tensors, there is memory for 4"));
  out.emplace_back(bytes);
  EXPECT_THAT(loaded->read_all(out).error().message, HasSubstr("\"frozen\" has 8000 bytes, the memory for it 100000"));
}

// The payload of a SampleRun of 1,000 elements is 16,008 bytes in 5 tensors.
class Reserved : public ::testing::TestWithParam<uint64_t> {};

TEST_P(Reserved, SnapshotsOfAnySizeComeBackWhole) {
  const TempFolder folder;
  const auto manager = open_or_fail(folder.path());
  manager->reserve(GetParam());
  uint64_t step = 0;
  for (const size_t elements : {1000, 30'000, 1000, 50'000, 90'000, 1000}) {
    SampleRun run(elements);
    save_or_fail(*manager, run.at(++step));
    EXPECT_EQ(describe_difference(run.at(step), *manager->resume()->checkpoint), "") << elements;
  }
}

INSTANTIATE_TEST_SUITE_P(Bytes, Reserved, ::testing::Values(0, 100, 16'000, 800'000, uint64_t{1} << 62));

TEST(CheckpointMemory, AManagerMayEndWhileMemoryIsReserved) {
  const TempFolder folder;
  open_or_fail(folder.path())->reserve(64 << 20);
  EXPECT_THAT(testing::steps_in(folder.path()), IsEmpty());
}

}  // namespace
}  // namespace ballast
