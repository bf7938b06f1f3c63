#include <gmock/gmock.h>

#include "tests/apps/ballast_program.h"
#include "tests/support/json_path.h"

namespace ballast::testing {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

std::string write_one(const TempFolder& folder, const std::string& file, const std::string& tensor, unsigned first) {
  WritePlan plan;
  plan.add_tensor(make_info(tensor, DType::kF32, {4}),
                  [first](ByteSink& sink) { return sink.write(counting_bytes(16, first)); });
  return write_plan(folder, file, plan);
}

// ---------------------------------------------------------------- merge

TEST(MergeCommand, WhatWasSplitComesTogetherAgain) {
  const TempFolder folder;
  const std::string whole = write_sample(folder);
  const ProgramRun split = run_ballast({"split", whole, "-o", folder.path("part-{}.safetensors"), "--by", "^([a-z]+)"});
  EXPECT_EQ(split.exit_code, 0) << split.err;
  const ProgramRun merge = run_ballast({"merge", folder.path("part-blocks.safetensors"),
                                        folder.path("part-head.safetensors"), "-o", folder.path("again.safetensors")});
  EXPECT_EQ(merge.exit_code, 0) << merge.err;
  EXPECT_TRUE(read_text_file(folder.path("again.safetensors")) == read_text_file(whole));
}

TEST(MergeCommand, ACollisionNamesBothFilesAndWritesNothing) {
  const TempFolder folder;
  const std::string a = write_one(folder, "a.safetensors", "w", 1), b = write_one(folder, "b.safetensors", "w", 2);
  const ProgramRun run = run_ballast({"merge", a, b, "-o", folder.path("c.safetensors")});
  EXPECT_EQ(run.exit_code, 2);
  EXPECT_THAT(run.err, HasSubstr(a));
  EXPECT_THAT(run.err, HasSubstr(b));
  EXPECT_THAT(folder.names(), ElementsAre("a.safetensors", "b.safetensors"));
}

TEST(MergeCommand, PreferAndPrefixSettleACollision) {
  const TempFolder folder;
  const std::string a = write_one(folder, "a.safetensors", "w", 1), b = write_one(folder, "b.safetensors", "w", 2);
  EXPECT_EQ(run_ballast({"merge", a, b, "-o", folder.path("last.safetensors"), "--prefer", "last"}).exit_code, 0);
  EXPECT_EQ(run_ballast({"diff", folder.path("last.safetensors"), b}).exit_code, 0);
  const ProgramRun run =
      run_ballast({"merge", a, b, "-o", folder.path("both.safetensors"), "--prefix", a + "=x.", "--prefix", "2=y."});
  EXPECT_EQ(run.exit_code, 0) << run.err;
  const ProgramRun seen = run_ballast({"inspect", folder.path("both.safetensors"), "--json"});
  EXPECT_EQ(json_at(seen.out, "tensors/0/name"), "\"x.w\"");
  EXPECT_EQ(json_at(seen.out, "tensors/1/name"), "\"y.w\"");
}

TEST(MergeCommand, SaysHowManyTensorsWereEqual) {
  const TempFolder folder;
  const std::string a = write_one(folder, "a.safetensors", "w", 1), b = write_one(folder, "b.safetensors", "w", 1);
  const ProgramRun run = run_ballast({"merge", a, b, "-o", folder.path("c.safetensors"), "--json"});
  EXPECT_EQ(run.exit_code, 0) << run.err;
  EXPECT_EQ(json_at(run.out, "equal"), "1");
  EXPECT_EQ(json_at(run.out, "tensors"), "1");
}

TEST(MergeCommand, APrefixForAFileThatIsNotMergedIsAnError) {
  const TempFolder folder;
  const std::string a = write_one(folder, "a.safetensors", "w", 1);
  for (const char* prefix : {"other=x.", "3=x.", "nothing"}) {
    EXPECT_EQ(run_ballast({"merge", a, "-o", folder.path("c.npz"), "--prefix", prefix}).exit_code, 2) << prefix;
  }
}

// ---------------------------------------------------------------- split

TEST(SplitCommand, BySizeIntoAFolderMakesShardsWithAnIndex) {
  const TempFolder folder;
  const std::string whole = write_sample(folder);
  const ProgramRun run = run_ballast({"split", whole, "-o", folder.path("shards/"), "--shard-size", "50"});
  EXPECT_EQ(run.exit_code, 0) << run.err;
  EXPECT_TRUE(std::filesystem::exists(folder.path("shards/sample.safetensors.index.json")));
  EXPECT_EQ(run_ballast({"diff", folder.path("shards"), whole}).exit_code, 0);
}

TEST(SplitCommand, PartsOfAFolderAreNamedAfterTheSource) {
  const TempFolder folder;
  const ProgramRun run =
      run_ballast({"split", write_sample(folder), "-o", folder.path("out/"), "--count", "2", "--to", "npz"});
  EXPECT_EQ(run.exit_code, 0) << run.err;
  EXPECT_TRUE(std::filesystem::exists(folder.path("out/sample-00001-of-00002.npz")));
  EXPECT_TRUE(std::filesystem::exists(folder.path("out/sample-00002-of-00002.npz")));
}

TEST(SplitCommand, AllFilesAppearOrNone) {
  const TempFolder folder;
  const std::string whole = write_sample(folder);
  folder.write("p-head.npz", "in the way");
  const ProgramRun run = run_ballast({"split", whole, "-o", folder.path("p-{}.npz"), "--by", "^([a-z]+)"});
  EXPECT_EQ(run.exit_code, 2);
  EXPECT_THAT(run.err, HasSubstr("p-head.npz"));
  EXPECT_THAT(folder.names(), ElementsAre("p-head.npz", "sample.safetensors"));
  EXPECT_EQ(read_text_file(folder.path("p-head.npz")), "in the way");
}

TEST(SplitCommand, AFolderThatWasMadeForNothingIsRemoved) {
  const TempFolder folder;
  EXPECT_EQ(run_ballast({"split", write_sample(folder), "-o", folder.path("out/"), "--count", "99"}).exit_code, 2);
  EXPECT_THAT(folder.names(), ElementsAre("sample.safetensors"));
}

TEST(SplitCommand, WhatTheExpressionDoesNotMatchIsTheRest) {
  const TempFolder folder;
  const ProgramRun run =
      run_ballast({"split", write_sample(folder), "-o", folder.path("p-{}.npz"), "--by", "^(blocks)", "--json"});
  EXPECT_EQ(run.exit_code, 0) << run.err;
  EXPECT_EQ(json_at(run.out, "parts/0/label"), "\"rest\"");
  EXPECT_EQ(json_at(run.out, "parts/1/label"), "\"blocks\"");
  EXPECT_EQ(json_at(run.out, "parts/1/tensors"), "3");
}

TEST(SplitCommand, ADryRunNamesTheFilesAndWritesNone) {
  const TempFolder folder;
  const ProgramRun run =
      run_ballast({"split", write_sample(folder), "-o", folder.path("p-{}.npz"), "--count", "2", "--dry-run"});
  EXPECT_EQ(run.exit_code, 0) << run.err;
  EXPECT_THAT(run.out, HasSubstr("p-00002-of-00002.npz"));
  EXPECT_THAT(folder.names(), ElementsAre("sample.safetensors"));
}

TEST(SplitCommand, NamesThatAreNeitherFolderNorPatternAreExplained) {
  const TempFolder folder;
  const std::string source = write_sample(folder);
  for (const std::vector<std::string>& rest :
       std::vector<std::vector<std::string>>{{"-o", folder.path("x.npz"), "--count", "2"},
                                             {"-o", "-", "--count", "2"},
                                             {"--count", "2"},
                                             {"-o", folder.path("x-{}.npz")}}) {
    std::vector<std::string> arguments = {"split", source};
    arguments.insert(arguments.end(), rest.begin(), rest.end());
    const ProgramRun run = run_ballast(arguments);
    EXPECT_EQ(run.exit_code, 2) << ::testing::PrintToString(rest);
    EXPECT_THAT(folder.names(), ElementsAre("sample.safetensors"));
  }
}

}  // namespace
}  // namespace ballast::testing
