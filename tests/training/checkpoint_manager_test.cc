#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <filesystem>
#include <thread>

#include "ballast/archive/open.h"
#include "ballast/training/checkpoints/checkpoint_export.h"
#include "tests/support/child_process.h"
#include "tests/support/faulty_file_system.h"
#include "tests/training/checkpoint_testing.h"

namespace ballast {
namespace {

using ::ballast::testing::describe_difference;
using ::ballast::testing::FaultyFileSystem;
using ::ballast::testing::open_or_fail;
using ::ballast::testing::quick_options;
using ::ballast::testing::read_text_file;
using ::ballast::testing::SampleRun;
using ::ballast::testing::save_or_fail;
using ::ballast::testing::steps_in;
using ::ballast::testing::TempFolder;
using ::ballast::testing::WaitingChild;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::SizeIs;

// Paths of the files of tensors in a folder whose name holds `part`.
std::vector<std::string> files_with(const std::string& folder, const std::string& part) {
  std::vector<std::string> found;
  for (const auto& entry : std::filesystem::directory_iterator(folder)) {
    const std::string name = entry.path().filename().string();
    if (name.find(part) != std::string::npos) found.push_back(entry.path().string());
  }
  std::ranges::sort(found);
  return found;
}

void flip_byte(const std::string& path, size_t from_end) {
  std::string content = read_text_file(path);
  content[content.size() - from_end] = static_cast<char>(content[content.size() - from_end] ^ 1);
  std::filesystem::resize_file(path, 0);
  std::FILE* file = std::fopen(path.c_str(), "wb");
  ASSERT_NE(file, nullptr);
  EXPECT_EQ(std::fwrite(content.data(), 1, content.size(), file), content.size());
  std::fclose(file);
}

TEST(CheckpointManager, GivesBackEverythingThatWasSaved) {
  const TempFolder folder;
  SampleRun run;
  const std::string path = folder.path("runs/first");
  save_or_fail(*open_or_fail(path), run.at(1200));
  const auto manager = open_or_fail(path);
  const auto resumed = manager->resume();
  ASSERT_TRUE(resumed) << resumed.error().message;
  EXPECT_THAT(resumed->rejected, IsEmpty());
  ASSERT_TRUE(resumed->checkpoint);
  EXPECT_EQ(describe_difference(run.at(1200), *resumed->checkpoint), "");
}

TEST(CheckpointManager, AnEmptyFolderHasNothingToResume) {
  const TempFolder folder;
  const auto manager = open_or_fail(folder.path("run"));
  const auto resumed = manager->resume();
  ASSERT_TRUE(resumed);
  EXPECT_FALSE(resumed->checkpoint);
  EXPECT_THAT(resumed->rejected, IsEmpty());
}

TEST(CheckpointManager, AFirstCheckpointIsAManifestAndTwoOrdinarySafetensorsFiles) {
  const TempFolder folder;
  SampleRun run;
  save_or_fail(*open_or_fail(folder.path()), run.at(7));
  EXPECT_THAT(folder.names(), SizeIs(4));  // and the lock
  EXPECT_THAT(files_with(folder.path(), "step-00000007.json"), SizeIs(1));
  const auto files = files_with(folder.path(), "-weights-");
  ASSERT_THAT(files, SizeIs(1));
  const auto archive = open_archive(files.front());
  ASSERT_TRUE(archive) << archive.error().message;
  EXPECT_EQ(archive->description().format, "safetensors");
  ASSERT_TRUE(archive->find("layer.weight"));
  const auto payload = archive->payload(*archive->find("layer.weight"));
  ASSERT_TRUE(payload);
  EXPECT_TRUE(std::ranges::equal(payload->bytes(), run.at(7).weights[1].bytes));
}

TEST(CheckpointManager, TensorsThatDidNotChangeAreNotWrittenAgain) {
  const TempFolder folder;
  SampleRun run(50'000);
  const auto manager = open_or_fail(folder.path());
  save_or_fail(*manager, run.at(1));
  const uint64_t first = manager->last_commit()->bytes_written;
  save_or_fail(*manager, run.at(2));
  const auto report = manager->last_commit();
  EXPECT_EQ(report->bytes_reused, 400'000U);
  EXPECT_LT(report->bytes_written, first - 390'000);
  const auto resumed = manager->resume();
  EXPECT_EQ(describe_difference(run.at(2), *resumed->checkpoint), "");
}

TEST(CheckpointManager, WhatAResumedCheckpointHoldsIsNotWrittenAgain) {
  const TempFolder folder;
  SampleRun run;
  save_or_fail(*open_or_fail(folder.path()), run.at(1));
  const auto manager = open_or_fail(folder.path());
  ASSERT_TRUE(manager->resume());
  save_or_fail(*manager, run.at(2));
  EXPECT_EQ(manager->last_commit()->bytes_reused, 8000U);
}

TEST(CheckpointManager, NothingIsReliedOnThatThisProcessDidNotCheck) {
  const TempFolder folder;
  SampleRun run;
  save_or_fail(*open_or_fail(folder.path()), run.at(1));
  const auto manager = open_or_fail(folder.path());
  save_or_fail(*manager, run.at(2));
  EXPECT_EQ(manager->last_commit()->bytes_reused, 0U);
}

TEST(CheckpointManager, ACheckpointNeverNamesMoreThanTwiceItsOwnSize) {
  const TempFolder folder;
  const auto manager = open_or_fail(folder.path());
  // One more of ten tensors stops changing at each step, so that each file would be needed for one tensor only.
  std::vector<ByteVector> values(10, ByteVector(400'000));
  for (uint64_t step = 0; step < 10; ++step) {
    TrainingSnapshot snapshot;
    snapshot.step = step;
    for (size_t i = 0; i < values.size(); ++i) {
      if (i >= step) values[i] = testing::bytes_of_step(400'000, step, static_cast<unsigned>(i));
      snapshot.weights.push_back({testing::make_info(fmt::format("w{}", i), DType::kU8, {400'000}), values[i]});
    }
    save_or_fail(*manager, snapshot);
    const auto list = list_checkpoints(folder.path());
    uint64_t total = 0;
    for (const CheckpointFile& file : list->checkpoints.back().files) total += file.bytes;
    EXPECT_LE(total, 2U * 4'000'000 + (1 << 20)) << step;
  }
  EXPECT_GT(manager->last_commit()->bytes_reused, 2'000'000U);
}

TEST(CheckpointManager, KeepsTheLastTheBestAndEveryHundredth) {
  const TempFolder folder;
  SampleRun run;
  CheckpointOptions options = quick_options();
  options.policy = {.keep_last = 2, .keep_best = 1, .metric = "accuracy", .larger_is_better = true, .keep_every = 100};
  const auto manager = open_or_fail(folder.path(), options);
  for (const uint64_t step : {50, 100, 150, 200, 250, 300, 350}) {
    TrainingSnapshot snapshot = run.at(step);
    snapshot.metrics = {{"accuracy", step == 150 ? 0.9 : 0.5}};
    save_or_fail(*manager, snapshot);
  }
  EXPECT_THAT(steps_in(folder.path()), ElementsAre(100, 150, 200, 300, 350));
  const auto list = list_checkpoints(folder.path());
  ASSERT_TRUE(list);
  for (const CheckpointManifest& manifest : list->checkpoints) {
    TrainingSnapshot expected = run.at(manifest.step);
    expected.metrics = manifest.metrics;
    const auto loaded = LoadedCheckpoint::open(folder.path(), manifest);
    ASSERT_TRUE(loaded) << loaded.error().message;
    EXPECT_EQ(describe_difference(expected, *loaded), "");
  }
}

TEST(CheckpointManager, PruningLeavesNoFileThatNobodyNames) {
  const TempFolder folder;
  SampleRun run;
  CheckpointOptions options = quick_options();
  options.policy.keep_last = 1;
  const auto manager = open_or_fail(folder.path(), options);
  for (uint64_t step = 1; step <= 4; ++step) save_or_fail(*manager, run.at(step));
  // The first file of weights stays: "frozen" is in it.
  EXPECT_THAT(files_with(folder.path(), "-weights-"), SizeIs(2));
  EXPECT_THAT(files_with(folder.path(), "-state-"), SizeIs(1));
  EXPECT_THAT(files_with(folder.path(), ".json"), SizeIs(1));
}

TEST(CheckpointManager, ADryRunOfPruningRemovesNothing) {
  const TempFolder folder;
  SampleRun run;
  const auto manager = open_or_fail(folder.path());
  for (uint64_t step = 1; step <= 3; ++step) save_or_fail(*manager, run.at(step));
  CheckpointPolicy policy;
  policy.keep_last = 1;
  const auto planned = manager->prune(policy, true);
  ASSERT_TRUE(planned);
  EXPECT_THAT(planned->steps, ElementsAre(1, 2));
  EXPECT_THAT(planned->files, SizeIs(3));
  EXPECT_THAT(steps_in(folder.path()), ElementsAre(1, 2, 3));
  const auto done = manager->prune(policy);
  ASSERT_TRUE(done);
  EXPECT_EQ(done->files, planned->files);
  EXPECT_EQ(done->bytes, planned->bytes);
  EXPECT_THAT(steps_in(folder.path()), ElementsAre(3));
}

TEST(CheckpointManager, ResumePassesOverDamageAndSaysWhy) {
  const TempFolder folder;
  SampleRun run;
  {
    const auto manager = open_or_fail(folder.path());
    for (uint64_t step = 1; step <= 4; ++step) save_or_fail(*manager, run.at(step));
  }
  std::string edited = read_text_file(folder.path("step-00000004.json"));
  edited.replace(edited.find("0.001"), 5, "0.002");
  folder.write("step-00000004.json", edited);
  flip_byte(files_with(folder.path(), "step-00000003-state").front(), 5);
  std::filesystem::remove(files_with(folder.path(), "step-00000002-weights").front());
  const auto manager = open_or_fail(folder.path());
  const auto resumed = manager->resume();
  ASSERT_TRUE(resumed) << resumed.error().message;
  ASSERT_TRUE(resumed->checkpoint);
  EXPECT_EQ(describe_difference(run.at(1), *resumed->checkpoint), "");
  ASSERT_THAT(resumed->rejected, SizeIs(3));
  EXPECT_THAT(resumed->rejected[0], HasSubstr("step-00000004.json: does not fit the digest that it carries"));
  EXPECT_THAT(resumed->rejected[1], HasSubstr("step 3: "));
  EXPECT_THAT(resumed->rejected[1], HasSubstr("\"exp_avg.layer.weight\" do not fit their digest"));
  EXPECT_THAT(resumed->rejected[2], HasSubstr("is missing"));
  // What is damaged neither counts as one of the last, nor is it thrown away.
  CheckpointPolicy policy;
  policy.keep_last = 1;
  save_or_fail(*manager, run.at(9));
  ASSERT_TRUE(manager->prune(policy));
  EXPECT_THAT(steps_in(folder.path()), ElementsAre(2, 3, 9));
  EXPECT_THAT(files_with(folder.path(), "step-00000004.json"), SizeIs(1));
}

TEST(CheckpointManager, AfterGoingBackTheNewestIsTheOneSavedLast) {
  const TempFolder folder;
  SampleRun run;
  CheckpointOptions options = quick_options();
  options.policy.keep_last = 2;
  const auto manager = open_or_fail(folder.path(), options);
  save_or_fail(*manager, run.at(100));
  save_or_fail(*manager, run.at(200));
  const auto earlier = manager->resume_from(100);
  ASSERT_TRUE(earlier) << earlier.error().message;
  EXPECT_EQ(earlier->step(), 100U);
  save_or_fail(*manager, run.at(150));
  EXPECT_THAT(steps_in(folder.path()), ElementsAre(200, 150));
  EXPECT_EQ(manager->resume()->checkpoint->step(), 150U);
  EXPECT_EQ(manager->resume_from(7).error().code, ErrorCode::kNotFound);
}

TEST(CheckpointManager, SavingAStepAgainReplacesIt) {
  const TempFolder folder;
  SampleRun run;
  const auto manager = open_or_fail(folder.path());
  save_or_fail(*manager, run.at(5));
  TrainingSnapshot again = run.at(6);
  again.step = 5;
  save_or_fail(*manager, again);
  EXPECT_EQ(describe_difference(again, *manager->resume()->checkpoint), "");
  EXPECT_THAT(steps_in(folder.path()), ElementsAre(5));
  EXPECT_THAT(files_with(folder.path(), "-state-"), SizeIs(1));
}

TEST(CheckpointManager, ASecondTrainerIsRefusedAndToldWhoHoldsTheFolder) {
  const TempFolder folder;
  const auto manager = open_or_fail(folder.path());
  const auto second = CheckpointManager::open(folder.path(), quick_options());
  ASSERT_FALSE(second);
  EXPECT_EQ(second.error().code, ErrorCode::kExists);
  EXPECT_THAT(second.error().message, HasSubstr(fmt::format("another process ({}) works in this folder", ::getpid())));
}

TEST(CheckpointManager, TheLockOfAKilledProcessHoldsNothing) {
  const TempFolder folder;
  {
    WaitingChild child([&] { open_or_fail(folder.path()).release(); });
    EXPECT_FALSE(CheckpointManager::open(folder.path(), quick_options()));
    child.end(SIGKILL);
  }
  EXPECT_TRUE(CheckpointManager::open(folder.path(), quick_options()));
}

TEST(CheckpointManager, OpeningRemovesWhatAKilledProcessLeft) {
  const TempFolder folder;
  SampleRun run;
  save_or_fail(*open_or_fail(folder.path()), run.at(1));
  const auto before = folder.names();
  folder.write("step-00000002-weights-0123456789abcdef.safetensors", "never committed");
  folder.write(".step-00000002.json.123-456.ballast-tmp", "half");
  folder.write("notes.txt", "the user's own");
  open_or_fail(folder.path());
  auto expected = before;
  expected.emplace_back("notes.txt");
  std::ranges::sort(expected);
  EXPECT_EQ(folder.names(), expected);
}

TEST(CheckpointManager, FilesThatADamagedManifestMayNameAreLeftAlone) {
  const TempFolder folder;
  folder.write("step-00000001.json", "{\"format\":");
  folder.write("step-00000001-weights-0123456789abcdef.safetensors", "of whom?");
  const auto manager = open_or_fail(folder.path());
  EXPECT_THAT(files_with(folder.path(), "-weights-"), SizeIs(1));
  // Until that step is saved again, which replaces what was damaged.
  SampleRun run;
  save_or_fail(*manager, run.at(1));
  EXPECT_THAT(files_with(folder.path(), "-weights-"), SizeIs(1));
  EXPECT_EQ(describe_difference(run.at(1), *manager->resume()->checkpoint), "");
}

TEST(CheckpointManager, ASnapshotThatCannotBeStoredIsRefusedAtOnce) {
  const TempFolder folder;
  SampleRun run;
  const auto manager = open_or_fail(folder.path());
  const auto refusal = [&](auto&& spoil) {
    TrainingSnapshot snapshot = run.at(3);
    spoil(snapshot);
    const auto saved = manager->save(snapshot);
    return saved ? "accepted" : saved.error().message;
  };
  EXPECT_THAT(refusal([](auto& s) { s.weights[1].info.name = "frozen"; }),
              HasSubstr("two tensors are called \"frozen\""));
  EXPECT_THAT(refusal([](auto& s) { s.weights[1].bytes = s.weights[1].bytes.first(8); }), HasSubstr("has 8 bytes"));
  EXPECT_THAT(refusal([](auto& s) { s.state_json = "[1]"; }), HasSubstr("is no object"));
  EXPECT_THAT(refusal([](auto& s) { s.state_json = "{\"a\":"; }), HasSubstr("step 3"));
  EXPECT_THAT(refusal([](auto& s) { s.config_json = "\xff"; }), HasSubstr("not UTF-8"));
  EXPECT_THAT(refusal([](auto& s) { s.metrics = {{"a", 1}, {"a", 2}}; }), HasSubstr("two metrics"));
  EXPECT_THAT(steps_in(folder.path()), IsEmpty());
}

TEST(CheckpointManager, MetricsThatJsonHasNoNumbersForComeBack) {
  const TempFolder folder;
  SampleRun run;
  TrainingSnapshot snapshot = run.at(1);
  snapshot.metrics = {{"loss", std::numeric_limits<double>::infinity()},
                      {"gap", -std::numeric_limits<double>::infinity()}};
  const auto manager = open_or_fail(folder.path());
  save_or_fail(*manager, snapshot);
  EXPECT_EQ(manager->resume()->checkpoint->metrics(), snapshot.metrics);
}

TEST(CheckpointManager, TheCallerMayChangeItsTensorsAsSoonAsSaveReturns) {
  const TempFolder folder;
  SampleRun run;
  ByteVector bytes = testing::bytes_of_step(8'000'000, 1, 1);
  const ByteVector original = bytes;
  TrainingSnapshot snapshot;
  snapshot.weights.push_back({testing::make_info("w", DType::kU8, {bytes.size()}), bytes});
  const auto manager = open_or_fail(folder.path());
  const auto saved = manager->save(snapshot);
  ASSERT_TRUE(saved);
  std::ranges::fill(bytes, std::byte{0});
  EXPECT_EQ(saved->bytes, bytes.size());
  EXPECT_GE(saved->pause_seconds, saved->copy_seconds);
  const auto again = manager->save(run.at(2));  // waits for the first, if that is still being written
  ASSERT_TRUE(again);
  EXPECT_LE(again->wait_seconds, again->pause_seconds);
  ASSERT_TRUE(manager->finish());
  EXPECT_EQ(*manager->resume_from(0)->read(CheckpointPart::kWeights, 0), original);
}

TEST(CheckpointManager, WaitingEndsAfterTheTimeGivenOrWithTheWrite) {
  using std::chrono::milliseconds;
  const TempFolder folder;
  SampleRun run;
  std::atomic<bool> blocked = false;
  const FaultyFileSystem files([&](const std::string&, int) {
    while (blocked) std::this_thread::sleep_for(milliseconds(1));
    return 0;
  });
  CheckpointOptions options = quick_options();
  options.file_system = &files;
  const auto manager = open_or_fail(folder.path(), options);
  EXPECT_TRUE(manager->wait_for(milliseconds(0)));  // nothing is being written
  blocked = true;
  ASSERT_TRUE(manager->save(run.at(1)));
  EXPECT_FALSE(manager->wait_for(milliseconds(20)));
  blocked = false;
  EXPECT_TRUE(manager->wait_for(milliseconds(60'000)));
  EXPECT_THAT(steps_in(folder.path()), ElementsAre(1));
}

TEST(CheckpointManager, ResumingMayBeCancelledWhichSaysNothingAboutTheCheckpoint) {
  const TempFolder folder;
  SampleRun run;
  const auto manager = open_or_fail(folder.path());
  save_or_fail(*manager, run.at(1));
  const Progress cancel = [](const ProgressUpdate&) { return false; };
  const auto resumed = manager->resume(cancel);
  ASSERT_FALSE(resumed);
  EXPECT_EQ(resumed.error().code, ErrorCode::kCancelled);
  EXPECT_EQ(manager->resume_from(1, cancel).error().code, ErrorCode::kCancelled);
  EXPECT_EQ(describe_difference(run.at(1), *manager->resume()->checkpoint), "");
}

TEST(CheckpointManager, AForkedChildThatAbandonsItsCopyDoesNotHoldTheFolder) {
  const TempFolder folder;
  SampleRun run;
  auto manager = open_or_fail(folder.path());
  const WaitingChild child([&] {
    manager->abandon_after_fork();
    manager.reset();
  });
  save_or_fail(*manager, run.at(1));  // the parent's is as it was
  manager.reset();
  EXPECT_EQ(describe_difference(run.at(1), *open_or_fail(folder.path())->resume()->checkpoint), "");
}

class CheckpointFormats : public ::testing::TestWithParam<std::string> {};

TEST_P(CheckpointFormats, WeightsAreKeptInTheFormatThatWasAskedFor) {
  const TempFolder folder;
  SampleRun run;
  CheckpointOptions options = quick_options();
  options.weights_format = GetParam();
  const auto manager = open_or_fail(folder.path(), options);
  const auto snapshot_at = [&](uint64_t step) {
    TrainingSnapshot snapshot = run.at(step);
    snapshot.model_config = ModelConfig{"gptrs", R"({"kind":"gpt","config":{}})"};
    return snapshot;
  };
  save_or_fail(*manager, snapshot_at(1));
  EXPECT_EQ(describe_difference(snapshot_at(1), *manager->resume()->checkpoint), "");
  const std::string file = files_with(folder.path(), "-weights-").front();
  EXPECT_EQ(open_archive(file)->description().format, GetParam());
  // The same weights again need no second file; others need one of their own.
  TrainingSnapshot same = snapshot_at(1);
  same.step = 2;
  save_or_fail(*manager, same);
  EXPECT_THAT(files_with(folder.path(), "-weights-"), ElementsAre(file));
  save_or_fail(*manager, snapshot_at(3));
  EXPECT_THAT(files_with(folder.path(), "-weights-"), SizeIs(2));
  EXPECT_EQ(describe_difference(snapshot_at(3), *manager->resume()->checkpoint), "");
}

INSTANTIATE_TEST_SUITE_P(All, CheckpointFormats,
                         ::testing::Values("safetensors", "burnpack", "gptrs-checkpoint", "npz"),
                         [](const auto& instance) { return instance.param.substr(0, instance.param.find('-')); });

TEST(CheckpointManager, AnUnknownFormatOfWeightsIsRefusedWithTheNearestName) {
  const TempFolder folder;
  CheckpointOptions options = quick_options();
  options.weights_format = "safetensor";
  const auto manager = CheckpointManager::open(folder.path("run"), options);
  ASSERT_FALSE(manager);
  EXPECT_THAT(manager.error().message, HasSubstr("did you mean \"safetensors\"?"));
}

class CheckpointExport : public ::testing::TestWithParam<std::string> {};

TEST_P(CheckpointExport, MakesOneFileThatKeepsIdsAndRequiresGrad) {
  const TempFolder folder;
  SampleRun run;
  const auto manager = open_or_fail(folder.path("run"));
  save_or_fail(*manager, run.at(1));
  save_or_fail(*manager, run.at(2));
  const auto resumed = manager->resume();
  const std::string path = folder.path("out" + GetParam());
  const auto report = export_checkpoint(*resumed->checkpoint, path, *format_for_extension(path), {});
  ASSERT_TRUE(report) << report.error().message;
  const auto archive = open_archive(path);
  ASSERT_TRUE(archive) << archive.error().message;
  WritePlan plan = make_plan(*archive);
  std::vector<std::string> notes;
  ASSERT_TRUE(restore_origin(plan, notes));
  ASSERT_EQ(plan.description.tensors.size(), 3U);
  const TrainingSnapshot& expected = run.at(2);
  for (size_t i = 0; i < 3; ++i) {
    const TensorInfo& info = plan.description.tensors[i];
    EXPECT_EQ(info.name, expected.weights[i].info.name);
    EXPECT_EQ(info.param_id, expected.weights[i].info.param_id);
    EXPECT_EQ(info.requires_grad.value_or(false), *expected.weights[i].info.requires_grad);
    MemorySink sink;
    ASSERT_TRUE(plan.providers[i](sink));
    EXPECT_TRUE(std::ranges::equal(sink.take(), expected.weights[i].bytes));
  }
}

INSTANTIATE_TEST_SUITE_P(All, CheckpointExport, ::testing::Values(".safetensors", ".bpk", ".npz"),
                         [](const auto& instance) { return instance.param.substr(1); });

TEST(CheckpointManager, AnExportWithStateHoldsBoth) {
  const TempFolder folder;
  SampleRun run;
  const auto manager = open_or_fail(folder.path("run"));
  save_or_fail(*manager, run.at(1));
  const auto resumed = manager->resume();
  ExportOptions options;
  options.with_state = true;
  const std::string path = folder.path("out.safetensors");
  ASSERT_TRUE(export_checkpoint(*resumed->checkpoint, path, *format_for_extension(path), options));
  const auto archive = open_archive(path);
  ASSERT_TRUE(archive);
  EXPECT_EQ(archive->tensors().size(), 5U);
  EXPECT_TRUE(archive->find("state.exp_avg.layer.weight"));
}

}  // namespace
}  // namespace ballast
