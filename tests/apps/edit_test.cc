#include <gmock/gmock.h>

#include "ballast/archive/open.h"
#include "tests/apps/ballast_program.h"
#include "tests/support/json_path.h"

namespace ballast::testing {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

std::vector<MetaEntry> metadata_of(const std::string& path) {
  const auto archive = open_archive(path);
  EXPECT_TRUE(archive) << (archive ? "" : archive.error().message);
  return archive ? archive->description().metadata : std::vector<MetaEntry>();
}

TEST(Edit, SetsAndTakesAwayInPlace) {
  const TempFolder folder;
  const std::string path = write_sample(folder), copy = folder.path("copy.safetensors");
  std::filesystem::copy_file(path, copy);
  const ProgramRun run =
      run_ballast({"edit", path, "--set", "license=MIT=really", "--unset", "note", "--set", "format=np"});
  EXPECT_EQ(run.exit_code, 0) << run.err;
  EXPECT_THAT(run.out, HasSubstr("MIT=really"));
  EXPECT_EQ(metadata_of(path),
            (std::vector<MetaEntry>{{"format", std::string("np")}, {"license", std::string("MIT=really")}}));
  EXPECT_EQ(run_ballast({"diff", path, copy, "--ignore-metadata"}).exit_code, 0);
  EXPECT_THAT(folder.names(), ElementsAre("copy.safetensors", "sample.safetensors"));
}

TEST(Edit, BackAndForthGivesTheSameFile) {
  const TempFolder folder;
  const std::string path = write_sample(folder);
  const std::string before = read_text_file(path);
  EXPECT_EQ(run_ballast({"edit", path, "--set", "x=1"}).exit_code, 0);
  EXPECT_FALSE(read_text_file(path) == before);
  EXPECT_EQ(run_ballast({"edit", path, "--unset", "x"}).exit_code, 0);
  EXPECT_TRUE(read_text_file(path) == before);
}

TEST(Edit, WithAnOutputLeavesTheSourceAlone) {
  const TempFolder folder;
  const std::string path = write_sample(folder);
  const std::string before = read_text_file(path);
  EXPECT_EQ(run_ballast({"edit", path, "--set", "x=1", "-o", folder.path("new.safetensors")}).exit_code, 0);
  EXPECT_TRUE(read_text_file(path) == before);
  EXPECT_EQ(metadata_of(folder.path("new.safetensors")).size(), 3U);
  // It does not replace what stands there without leave.
  EXPECT_EQ(run_ballast({"edit", path, "--set", "x=2", "-o", folder.path("new.safetensors")}).exit_code, 2);
}

TEST(Edit, TypedValuesAreKeptWhereTheFormatHasThem) {
  const TempFolder folder;
  const std::string path = folder.path("a.bpk");
  ASSERT_EQ(run_ballast({"convert", write_sample(folder), path}).exit_code, 0);
  const ProgramRun run = run_ballast({"edit", path, "--set-json", "epoch=-3", "--set-json", "lr=0.5", "--set-json",
                                      "done=true", "--set-json", "steps=18446744073709551615"});
  EXPECT_EQ(run.exit_code, 0) << run.err;
  const auto metadata = metadata_of(path);
  for (const MetaEntry& entry :
       std::vector<MetaEntry>{{"epoch", int64_t{-3}}, {"lr", 0.5}, {"done", true}, {"steps", UINT64_MAX}}) {
    EXPECT_THAT(metadata, ::testing::Contains(entry)) << entry.key;
  }
}

TEST(Edit, ANumberKeepsTheKindOfNumberThatTheKeyHad) {
  const TempFolder folder;
  const std::string path = folder.path("a.gguf");
  const ProgramRun run =
      run_ballast({"edit", test_file_path("gguf/tiny/tiny_llama.q4_0.gguf"), "-o", path, "--set-json",
                   "llama.context_length=256", "--set-json", "llama.rope.freq_base=5000"});
  EXPECT_EQ(run.exit_code, 0) << run.err;
  const auto metadata = metadata_of(path);
  EXPECT_THAT(metadata, ::testing::Contains(MetaEntry{"llama.context_length", uint64_t{256}}));
  EXPECT_THAT(metadata, ::testing::Contains(MetaEntry{"llama.rope.freq_base", 5000.0}));
}

TEST(Edit, FormatsWithoutAPlaceSaySoAndStayAsTheyAre) {
  const TempFolder folder;
  const std::string sample = write_sample(folder), npz = folder.path("a.npz");
  ASSERT_EQ(run_ballast({"convert", sample, npz}).exit_code, 0);
  const std::string before = read_text_file(npz);
  const ProgramRun no_field = run_ballast({"edit", npz, "--set", "x=1"});
  EXPECT_EQ(no_field.exit_code, 2);
  EXPECT_THAT(no_field.err, HasSubstr("npz files cannot store metadata"));
  EXPECT_TRUE(read_text_file(npz) == before);
  const ProgramRun typed = run_ballast({"edit", sample, "--set-json", "x=1"});
  EXPECT_EQ(typed.exit_code, 2);
  EXPECT_THAT(typed.err, HasSubstr("--set x="));
  const ProgramRun config =
      run_ballast({"edit", test_file_path("gptrs/gpt_micro/model.gptrs"), "--set", "x=1", "--dry-run"});
  EXPECT_EQ(config.exit_code, 2);
  EXPECT_THAT(config.err, HasSubstr("--config FILE"));
}

TEST(Edit, ReplacesTheConfigOfACheckpoint) {
  const TempFolder folder;
  const std::string path = folder.path("m.gptrs");
  std::filesystem::copy_file(test_file_path("gptrs/gpt_micro/model.gptrs"), path);
  std::filesystem::permissions(path, std::filesystem::perms::owner_write, std::filesystem::perm_options::add);
  const std::string config = folder.write("config.json", R"({"kind":"gpt","config":{"new":1}})");
  const ProgramRun run = run_ballast({"edit", path, "--config", config});
  EXPECT_EQ(run.exit_code, 0) << run.err;
  const auto archive = open_archive(path);
  ASSERT_TRUE(archive);
  EXPECT_EQ(archive->description().config->text, R"({"kind":"gpt","config":{"new":1}})");
}

TEST(Edit, ADryRunShowsTheChangeAndMakesNone) {
  const TempFolder folder;
  const std::string path = write_sample(folder);
  const std::string before = read_text_file(path);
  const ProgramRun run = run_ballast({"edit", path, "--set", "note=new", "--dry-run", "--json"});
  EXPECT_EQ(run.exit_code, 0) << run.err;
  EXPECT_EQ(json_at(run.out, "changes/0/before"), "\"for tests\"");
  EXPECT_EQ(json_at(run.out, "changes/0/after"), "\"new\"");
  EXPECT_TRUE(read_text_file(path) == before);
}

TEST(Edit, SuggestsTheKeyThatWasMeant) {
  const TempFolder folder;
  const ProgramRun run = run_ballast({"edit", write_sample(folder), "--unset", "notte"});
  EXPECT_EQ(run.exit_code, 2);
  EXPECT_EQ(run.err, "ballast: there is no metadata \"notte\"; did you mean \"note\"?\n");
}

TEST(Edit, RefusesWhatMakesNoSense) {
  const TempFolder folder;
  const std::string path = write_sample(folder);
  for (const std::vector<std::string>& rest : std::vector<std::vector<std::string>>{{},
                                                                                    {"--set", "novalue"},
                                                                                    {"--set", "=x"},
                                                                                    {"--set", "a=1", "--unset", "a"},
                                                                                    {"--set-json", "a=[1]"},
                                                                                    {"--set-json", "a=1 2"},
                                                                                    {"--set", "ballast.origin=x"}}) {
    std::vector<std::string> arguments = {"edit", path};
    arguments.insert(arguments.end(), rest.begin(), rest.end());
    EXPECT_EQ(run_ballast(arguments).exit_code, 2) << ::testing::PrintToString(rest);
  }
}

TEST(Edit, ASetOfFilesIsNotChangedInPlace) {
  const TempFolder folder;
  ASSERT_EQ(run_ballast({"split", write_sample(folder), "-o", folder.path("shards/"), "--shard-size", "50"}).exit_code,
            0);
  const ProgramRun run = run_ballast({"edit", folder.path("shards"), "--set", "x=1"});
  EXPECT_EQ(run.exit_code, 2);
  EXPECT_THAT(run.err, HasSubstr("-o OUT"));
}

}  // namespace
}  // namespace ballast::testing
