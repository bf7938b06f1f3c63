// On files that Burn 0.22.1 itself wrote.
#include "ballast/training/checkpoints/burn_records.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "ballast/archive/open.h"
#include "tests/training/checkpoint_testing.h"

namespace ballast {
namespace {

using ::ballast::testing::read_text_file;
using ::ballast::testing::TempFolder;
using ::ballast::testing::test_file_path;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::SizeIs;

const std::string kModule = test_file_path("burnpack/0.22.1/module_record.bpk");
const std::string kAdam = test_file_path("burnpack/0.22.1/adam_record.bpk");
const std::string kScheduler = test_file_path("burnpack/0.22.1/scheduler_record.bpk");

constexpr uint64_t kWeightId = 2632338486986739134U;
constexpr uint64_t kBiasId = 5914103936935585406U;

const BurnOptimizerEntry& entry_of(const BurnOptimizerRecord& record, uint64_t id) {
  return *std::ranges::find(record.entries, id, &BurnOptimizerEntry::param_id);
}

// The linear layer that Adam's record belongs to.
TrainingSnapshot linear_of(const ImportedBurnRecords& adam, const std::vector<float>& values) {
  TrainingSnapshot snapshot = adam.snapshot;
  TensorInfo weight = testing::make_info("weight", DType::kF32, {3, 2});
  weight.param_id = kWeightId;
  TensorInfo bias = testing::make_info("bias", DType::kF32, {2});
  bias.param_id = kBiasId;
  const ByteSpan bytes = std::as_bytes(std::span(values));
  snapshot.weights = {{weight, bytes.first(24)}, {bias, bytes.subspan(24, 8)}};
  return snapshot;
}

TEST(BurnRecords, AdamsRecordIsReadByParameter) {
  const auto archive = open_archive(kAdam);
  ASSERT_TRUE(archive);
  const auto record = read_burn_optimizer(*archive);
  ASSERT_TRUE(record) << record.error().message;
  ASSERT_THAT(record->entries, SizeIs(2));
  const BurnOptimizerEntry& weight = entry_of(*record, kWeightId);
  EXPECT_EQ(weight.parameter, "weight");
  EXPECT_EQ(weight.rank, 2U);
  ASSERT_THAT(weight.scalars, SizeIs(1));
  EXPECT_EQ(weight.scalars[0], (MetaEntry{"momentum.time", uint64_t{2}}));
  ASSERT_THAT(weight.tensors, SizeIs(2));
  EXPECT_EQ(entry_of(*record, kBiasId).parameter, "bias");
  const auto moment = std::ranges::find_if(
      weight.tensors, [](const SnapshotTensor& tensor) { return tensor.info.name == "momentum.moment_1"; });
  ASSERT_NE(moment, weight.tensors.end());
  EXPECT_EQ(moment->info.shape, (Shape{3, 2}));
  EXPECT_EQ(load_le<uint32_t>(moment->bytes.data()), std::bit_cast<uint32_t>(-0.01886146515607834F));
}

TEST(BurnRecords, ModuleOptimizerAndSchedulerAreWrittenBackByteForByte) {
  const TempFolder folder;
  const auto adam = import_burn_records({"", kAdam, kScheduler});
  ASSERT_TRUE(adam) << adam.error().message;
  const std::vector<float> values(8, 0.5F);
  const TrainingSnapshot snapshot = linear_of(*adam, values);
  const BurnRecordFiles files{folder.path("model.bpk"), folder.path("optim.bpk"), folder.path("scheduler.bpk")};
  const Status written = export_burn_records(snapshot, files);
  ASSERT_TRUE(written) << written.error().message;
  EXPECT_EQ(read_text_file(files.optimizer), read_text_file(kAdam));
  EXPECT_EQ(read_text_file(files.scheduler), read_text_file(kScheduler));
  // And the three read together are the snapshot.
  const auto again = import_burn_records(files);
  ASSERT_TRUE(again) << again.error().message;
  EXPECT_EQ(again->snapshot.state_json, snapshot.state_json);
  ASSERT_THAT(again->snapshot.weights, SizeIs(2));
  EXPECT_EQ(again->snapshot.weights[0].info.param_id, kWeightId);

  const auto module = import_burn_records({kModule, "", ""});
  ASSERT_TRUE(module) << module.error().message;
  ASSERT_TRUE(export_burn_records(module->snapshot, {folder.path("copy.bpk"), "", ""}));
  EXPECT_EQ(read_text_file(folder.path("copy.bpk")), read_text_file(kModule));
}

TEST(BurnRecords, TheSnapshotSaysWhatTheRecordsSay) {
  const auto imported = import_burn_records({"", kAdam, kScheduler});
  ASSERT_TRUE(imported);
  std::vector<std::string> names;
  for (const SnapshotTensor& tensor : imported->snapshot.state) names.push_back(tensor.info.name);
  std::ranges::sort(names);
  EXPECT_THAT(names, ElementsAre("bias.momentum.moment_1", "bias.momentum.moment_2", "weight.momentum.moment_1",
                                 "weight.momentum.moment_2"));
  EXPECT_THAT(imported->snapshot.state_json, HasSubstr(R"("weight":{"momentum.time":{"u64":2}})"));
  EXPECT_THAT(imported->snapshot.state_json, HasSubstr(R"("scheduler":{"0.current_iter":{"u64":2}})"));
}

TEST(BurnRecords, SurviveACheckpoint) {
  const TempFolder folder;
  const auto adam = import_burn_records({"", kAdam, kScheduler});
  const std::vector<float> values(8, 0.25F);
  const TrainingSnapshot snapshot = linear_of(*adam, values);
  const auto manager = testing::open_or_fail(folder.path("run"));
  testing::save_or_fail(*manager, snapshot);
  const auto resumed = manager->resume();
  ASSERT_TRUE(resumed->checkpoint);
  EXPECT_EQ(testing::describe_difference(snapshot, *resumed->checkpoint), "");
}

TEST(BurnRecords, AnOptimizerOfAnotherModelIsRefused) {
  const auto imported = import_burn_records({kModule, kAdam, ""});
  ASSERT_FALSE(imported);
  EXPECT_THAT(imported.error().message, HasSubstr("are the two from one run?"));
}

TEST(BurnRecords, FilesThatAreNoRecordsAreRefused) {
  const auto archive = open_archive(kModule);
  ASSERT_TRUE(archive);
  const auto record = read_burn_optimizer(*archive);
  ASSERT_FALSE(record);
  EXPECT_THAT(record.error().message, HasSubstr("is not called <id>.<field>"));
  EXPECT_THAT(import_burn_records({"", "", kModule}).error().message, HasSubstr("no scheduler record"));
}

TEST(BurnRecords, StateThatBurnCouldNotFindAgainIsRefusedAndNothingIsWritten) {
  const TempFolder folder;
  const auto adam = import_burn_records({"", kAdam, ""});
  const std::vector<float> values(8);
  TrainingSnapshot snapshot = linear_of(*adam, values);
  snapshot.state[0].info.param_id = 1;
  const BurnRecordFiles files{folder.path("model.bpk"), folder.path("optim.bpk"), ""};
  EXPECT_THAT(export_burn_records(snapshot, files).error().message, HasSubstr("carries no id of a weight"));
  const BurnRecordFiles scheduler{"", "", folder.path("scheduler.bpk")};
  EXPECT_THAT(export_burn_records(snapshot, scheduler).error().message, HasSubstr("no burn.scheduler"));
  EXPECT_THAT(folder.names(), SizeIs(0));
}

}  // namespace
}  // namespace ballast
