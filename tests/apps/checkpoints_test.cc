#include <gmock/gmock.h>
#include <unistd.h>

#include <fstream>

#include "ballast/archive/open.h"
#include "ballast/training/checkpoint.h"
#include "tests/apps/ballast_program.h"
#include "tests/support/json_path.h"
#include "tests/support/recorded_models.h"

namespace ballast::testing {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

// Steps 10, 20, 30 with losses 3, 1, 2: the second is the best.
std::string make_run(const TempFolder& folder) {
  const std::string path = folder.path("run");
  const auto manager = CheckpointManager::open(path, {});
  EXPECT_TRUE(manager) << manager.error().message;
  const double losses[] = {3, 1, 2};
  for (unsigned i = 0; i < 3; ++i) {
    const ByteVector bytes = counting_bytes(64, i + 1);
    TrainingSnapshot snapshot;
    snapshot.step = 10 * (i + 1);
    snapshot.weights = {{make_info("w", DType::kF32, {16}), bytes}};
    snapshot.state = {{make_info("m", DType::kF32, {16}), bytes}};
    snapshot.metrics = {{"loss", losses[i]}};
    EXPECT_TRUE((*manager)->save(snapshot));
    EXPECT_TRUE((*manager)->finish());
  }
  return path;
}

std::string file_with(const std::string& folder, const std::string& part) {
  for (const auto& entry : std::filesystem::directory_iterator(folder)) {
    if (entry.path().filename().string().find(part) != std::string::npos) return entry.path().string();
  }
  return "";
}

void spoil_last_byte(const std::string& path) {
  std::fstream file(path, std::ios::in | std::ios::out | std::ios::binary);
  file.seekp(-1, std::ios::end);
  file.put('\xEE');
}

TEST(Checkpoints, ListShowsStepsSizesAndMetrics) {
  const TempFolder folder;
  const ProgramRun run = run_ballast({"checkpoints", "list", make_run(folder)});
  EXPECT_EQ(run.exit_code, 0) << run.err;
  EXPECT_THAT(run.out, AllOf(HasSubstr("step"), HasSubstr("  10  "), HasSubstr("loss 3"), HasSubstr("loss 1")));
  EXPECT_THAT(run.out, Not(HasSubstr("kept because")));
}

TEST(Checkpoints, ExportMakesAFolderThatRunsHereOfAModelThatTransformersHasNot) {
  const TempFolder folder;
  const std::string model = write_rule_checkpoint(folder, "mobilenet_v2", 1);
  const auto archive = open_archive(model);
  ASSERT_TRUE(archive) << archive.error().message;
  TrainingSnapshot snapshot;
  snapshot.model_config = archive->description().config;
  std::vector<Payload> payloads;
  for (size_t i = 0; i < archive->tensors().size(); ++i) {
    auto payload = archive->payload(i);
    ASSERT_TRUE(payload) << payload.error().message;
    payloads.push_back(std::move(*payload));
    snapshot.weights.push_back({archive->tensors()[i], payloads.back().bytes()});
  }
  const auto manager = CheckpointManager::open(folder.path("run"), {});
  ASSERT_TRUE(manager && (*manager)->save(snapshot) && (*manager)->finish());
  const ProgramRun run = run_ballast({"checkpoints", "export", folder.path("run"), "latest", folder.path("out/")});
  EXPECT_EQ(run.exit_code, 0) << run.err;
  EXPECT_THAT(run.out, HasSubstr("the folder runs in Ballast alone"));
  const ProgramRun inspected = run_ballast({"inspect", folder.path("out"), "--json"});
  EXPECT_THAT(inspected.out, HasSubstr("ballast.model"));
  const ProgramRun converted = run_ballast({"convert", model, folder.path("other/")});
  EXPECT_EQ(converted.exit_code, 2);
  EXPECT_THAT(converted.err, HasSubstr("the model runs as a .gptrs or .safetensors file"));
}

TEST(Checkpoints, ExportToAFolderComparesDigestsAndLeavesNothing) {
  const TempFolder folder;
  const std::string path = make_run(folder);
  spoil_last_byte(file_with(path, "step-00000030-weights"));
  const ProgramRun run = run_ballast({"checkpoints", "export", path, "30", folder.path("out/")});
  EXPECT_EQ(run.exit_code, 1);
  EXPECT_THAT(run.err, HasSubstr("do not fit their digest"));
  EXPECT_FALSE(std::filesystem::exists(folder.path("out")));
}

TEST(Checkpoints, ListSaysWhatARuleWouldKeep) {
  const TempFolder folder;
  const ProgramRun run = run_ballast({"checkpoints", "list", make_run(folder), "--keep-best", "loss"});
  EXPECT_THAT(run.out, AllOf(HasSubstr("kept because"), HasSubstr("best loss"), HasSubstr("would be pruned")));
  const ProgramRun json =
      run_ballast({"checkpoints", "list", folder.path("run"), "--keep-best", "loss", "--larger", "--json"});
  EXPECT_EQ(json_at(json.out, "checkpoints/0/kept"), "\"best loss\"");
  EXPECT_EQ(json_at(json.out, "checkpoints/1/kept"), "null");
  EXPECT_EQ(json_at(json.out, "checkpoints/1/step"), "20");
  EXPECT_EQ(json_at(json.out, "checkpoints/1/bytes"), "128");
  EXPECT_EQ(json_at(json.out, "checkpoints/2/kept"), "\"last\"");
}

TEST(Checkpoints, VerifySaysExactlyWhatIsWrong) {
  const TempFolder folder;
  const std::string path = make_run(folder);
  EXPECT_EQ(run_ballast({"checkpoints", "verify", path}).exit_code, 0);
  spoil_last_byte(file_with(path, "step-00000020-weights"));
  std::filesystem::remove(file_with(path, "step-00000010-state"));
  folder.write("run/step-00000030.json", "{\"format\":");
  const ProgramRun run = run_ballast({"checkpoints", "verify", path});
  EXPECT_EQ(run.exit_code, 1);
  EXPECT_THAT(run.out, AllOf(HasSubstr("damaged step 20"),
                             HasSubstr("the bytes of tensor \"w\" do not fit their digest"), HasSubstr("is missing"),
                             HasSubstr("damaged step-00000030.json"), HasSubstr("3 of 3 checkpoints damaged")));
  const ProgramRun json = run_ballast({"checkpoints", "verify", path, "20", "--json"});
  EXPECT_EQ(json.exit_code, 1);
  EXPECT_EQ(json_at(json.out, "sound"), "false");
  EXPECT_EQ(json_at(json.out, "checkpoints/0/checkpoint"), "\"step 20\"");
}

TEST(Checkpoints, PruneKeepsWhatItIsTold) {
  const TempFolder folder;
  const std::string path = make_run(folder);
  const ProgramRun dry = run_ballast({"checkpoints", "prune", path, "--keep-best", "loss", "--dry-run", "--json"});
  EXPECT_EQ(json_at(dry.out, "steps"), "[10]");
  EXPECT_NE(file_with(path, "step-00000010.json"), "");
  const ProgramRun run = run_ballast({"checkpoints", "prune", path, "--keep-best", "loss"});
  EXPECT_EQ(run.exit_code, 0) << run.err;
  EXPECT_THAT(run.out, HasSubstr("removed 1 checkpoint and 2 files"));
  EXPECT_EQ(file_with(path, "step-00000010"), "");
  EXPECT_NE(file_with(path, "step-00000020.json"), "");
  EXPECT_NE(file_with(path, "step-00000030.json"), "");
}

TEST(Checkpoints, LatestIsRefusedWhenTheNewestCannotBeRead) {
  const TempFolder folder;
  const std::string run = make_run(folder);
  folder.write("run/step-00000030.json", "{");
  const ProgramRun latest = run_ballast({"checkpoints", "export", run, "latest", folder.path("w.npz")});
  EXPECT_NE(latest.exit_code, 0);
  EXPECT_THAT(latest.err, AllOf(HasSubstr("step-00000030.json"), HasSubstr("the newest intact one is step 20")));
  EXPECT_FALSE(std::filesystem::exists(folder.path("w.npz")));
  // An older one that cannot be read changes nothing about which is the newest.
  const TempFolder other;
  const std::string sound = make_run(other);
  other.write("run/step-00000010.json", "{");
  EXPECT_EQ(run_ballast({"checkpoints", "verify", sound, "latest"}).exit_code, 0);
}

TEST(Checkpoints, PruneFailsWhenNoCheckpointCanBeRead) {
  const TempFolder folder;
  const std::string run = make_run(folder);
  for (const char* name : {"run/step-00000010.json", "run/step-00000020.json", "run/step-00000030.json"})
    folder.write(name, "{");
  const ProgramRun pruned = run_ballast({"checkpoints", "prune", run, "--keep-last", "1"});
  EXPECT_NE(pruned.exit_code, 0);
  EXPECT_THAT(pruned.err, HasSubstr("no checkpoint can be read, so none was removed"));
  EXPECT_THAT(pruned.out, Not(HasSubstr("removed 0")));
}

TEST(Checkpoints, PruneNeedsARuleAndTheLock) {
  const TempFolder folder;
  const std::string path = make_run(folder);
  EXPECT_THAT(run_ballast({"checkpoints", "prune", path}).err, HasSubstr("--keep-last"));
  const auto manager = CheckpointManager::open(path, {});
  const ProgramRun run = run_ballast({"checkpoints", "prune", path, "--keep-last", "1"});
  EXPECT_EQ(run.exit_code, 2);
  EXPECT_THAT(run.err, HasSubstr(fmt::format("another process ({}) works in this folder", ::getpid())));
  EXPECT_EQ(run_ballast({"checkpoints", "prune", folder.path("none"), "--keep-last", "1"}).exit_code, 2);
  EXPECT_FALSE(std::filesystem::exists(folder.path("none")));
}

TEST(Checkpoints, ExportMakesOneOrdinaryFile) {
  const TempFolder folder;
  const std::string path = make_run(folder);
  for (const std::string name : {"out.safetensors", "out.bpk", "out.npz"}) {
    const ProgramRun run = run_ballast({"checkpoints", "export", path, "latest", folder.path(name)});
    EXPECT_EQ(run.exit_code, 0) << run.err;
    EXPECT_THAT(run.out, HasSubstr("exported step 30: 1 tensor"));
    EXPECT_EQ(run_ballast({"verify", folder.path(name)}).exit_code, 0);
  }
  const ProgramRun best = run_ballast({"checkpoints", "export", path, "best", folder.path("best.safetensors"),
                                       "--keep-best", "loss", "--with-state", "--json"});
  EXPECT_EQ(json_at(best.out, "step"), "20");
  EXPECT_EQ(json_at(best.out, "tensors"), "2");
}

TEST(Checkpoints, MistakesAreToldWithWhatThereIs) {
  const TempFolder folder;
  const std::string path = make_run(folder);
  const auto complaint = [](const std::vector<std::string>& arguments) {
    const ProgramRun run = run_ballast(arguments);
    EXPECT_EQ(run.exit_code, 2);
    return run.err;
  };
  EXPECT_THAT(complaint({"checkpoints", "lsit", path}), HasSubstr("did you mean \"list\"?"));
  EXPECT_THAT(complaint({"checkpoints", "export", path, "7", folder.path("x.npz")}),
              HasSubstr("there are: 10, 20, 30"));
  EXPECT_THAT(complaint({"checkpoints", "export", path, "newest", folder.path("x.npz")}),
              HasSubstr("neither a step nor latest nor best"));
  EXPECT_THAT(complaint({"checkpoints", "export", path, "best", folder.path("x.npz")}),
              HasSubstr("--keep-best METRIC"));
  EXPECT_THAT(complaint({"checkpoints", "export", path}), HasSubstr("an output file"));
  EXPECT_THAT(complaint({"checkpoints", "list", path, "--keep-best", "los"}), HasSubstr("there are: loss"));
  EXPECT_THAT(complaint({"checkpoints", "list", path, "--compress"}), HasSubstr("--compress belongs to export"));
  EXPECT_THAT(complaint({"checkpoints", "list", path, "3"}), HasSubstr("one argument too many"));
  EXPECT_THAT(complaint({"checkpoints", "list", folder.path("none")}), HasSubstr("No such file"));
}

}  // namespace
}  // namespace ballast::testing
