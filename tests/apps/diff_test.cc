#include <gmock/gmock.h>

#include "tests/apps/ballast_program.h"
#include "tests/support/json_path.h"

namespace ballast::testing {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

TEST(Diff, EqualFilesAreExitCode0) {
  const TempFolder folder;
  const std::string a = write_sample(folder);
  const ProgramRun run = run_ballast({"diff", a, a});
  EXPECT_EQ(run.exit_code, 0);
  EXPECT_EQ(run.out, "equal: 4 same\n");
}

TEST(Diff, TellsWhatChangedWasRenamedAndIsMissing) {
  const TempFolder folder;
  const std::string a = write_tensors(folder, "a", {{"same", {1}}, {"w", {1, 2}}, {"old", {5, 6}}, {"gone", {7}}});
  const std::string b = write_tensors(folder, "b", {{"same", {1}}, {"w", {1, 2.5}}, {"new", {5, 6}}, {"added", {8}}});
  const ProgramRun run = run_ballast({"diff", a, b});
  EXPECT_EQ(run.exit_code, 1);
  for (const char* text : {"changed", "renamed", "-> new", "only in A", "gone", "only in B", "added", "different: "}) {
    EXPECT_THAT(run.out, HasSubstr(text));
  }
  EXPECT_THAT(run.out, Not(HasSubstr("  same\n")));
  EXPECT_THAT(run_ballast({"diff", a, b, "--all"}).out, HasSubstr("  same\n"));
}

TEST(Diff, JsonCountsAndMeasures) {
  const TempFolder folder;
  const std::string a = write_tensors(folder, "a", {{"w", {1, 2}}, {"v", {3}}});
  const std::string b = write_tensors(folder, "b", {{"w", {1, 2.5}}, {"v", {3}}});
  const ProgramRun run = run_ballast({"diff", a, b, "--json"});
  EXPECT_EQ(run.exit_code, 1);
  EXPECT_EQ(json_at(run.out, "equal"), "false");
  EXPECT_EQ(json_at(run.out, "counts"),
            R"({"same":1,"changed":1,"renamed":0,"transposed":0,"only_in_a":0,"only_in_b":0})");
  EXPECT_EQ(json_at(run.out, "entries/0/name_a"), "\"w\"");
  EXPECT_EQ(json_at(run.out, "entries/0/differing"), "1");
  EXPECT_EQ(json_at(run.out, "entries/0/max_abs"), "0.5");
  EXPECT_EQ(json_at(run.out, "entries/1"), "");
}

TEST(Diff, TolerancesDecideWhatIsEqual) {
  const TempFolder folder;
  const std::string a = write_tensors(folder, "a", {{"w", {1, 2}}});
  const std::string b = write_tensors(folder, "b", {{"w", {1, 2.5}}});
  EXPECT_EQ(run_ballast({"diff", a, b, "--atol", "0.4"}).exit_code, 1);
  EXPECT_EQ(run_ballast({"diff", a, b, "--atol", "0.5"}).exit_code, 0);
  EXPECT_EQ(run_ballast({"diff", a, b, "--rtol", "0.2"}).exit_code, 0);
}

TEST(Diff, NamesTransposedMatrices) {
  const TempFolder folder;
  const std::vector<float> values = {1, 2, 3, 4, 5, 6};
  const std::vector<float> turned = {1, 4, 2, 5, 3, 6};
  WritePlan plan_a;
  plan_a.add_tensor(make_info("old", DType::kF32, {2, 3}), std::as_bytes(std::span(values)));
  WritePlan plan_b;
  plan_b.add_tensor(make_info("new", DType::kF32, {3, 2}), std::as_bytes(std::span(turned)));
  const std::string a = write_plan(folder, "a", plan_a);
  const std::string b = write_plan(folder, "b", plan_b);
  const ProgramRun run = run_ballast({"diff", a, b});
  EXPECT_EQ(run.exit_code, 1);
  EXPECT_EQ(run.out, "transposed\n  old  -> new, shape [2, 3] -> [3, 2]\n\ndifferent: 1 transposed\n");
  EXPECT_EQ(json_at(run_ballast({"diff", a, b, "--json"}).out, "entries/0/kind"), "\"transposed\"");
}

TEST(Diff, ATraceShowsWhereTwoRunsPart) {
  const TempFolder folder;
  const std::string a = write_tensors(folder, "a", {{"stem", {1, 1}}, {"mid", {1, 1}}, {"end", {1, 1}}, {"gone", {1}}});
  const std::string b = write_tensors(folder, "b", {{"stem", {1, 1}}, {"mid", {1, 1.25F}}, {"end", {1, 2}}});
  const ProgramRun run = run_ballast({"diff", a, b, "--trace"});
  EXPECT_EQ(run.exit_code, 1);
  EXPECT_THAT(run.out, HasSubstr("first beyond the tolerance: "));
  EXPECT_THAT(run.out, HasSubstr("largest: end, max abs 1\n"));
  EXPECT_THAT(run.out, HasSubstr("only in A"));
  EXPECT_THAT(run_ballast({"diff", a, b, "--trace", "--atol", "0.5"}).out,
              HasSubstr("first beyond the tolerance: end, max abs 1"));
  EXPECT_THAT(run_ballast({"diff", a, a, "--trace"}).out, HasSubstr("no step differs beyond the tolerance\n"));
}

TEST(Diff, TracesOfKnownModelsAreInOrderOfExecution) {
  const std::string trace = test_file_path("gptrs/ministral_linear/trace.gptrsten");
  const std::string other = test_file_path("gptrs/ministral_yarn/trace.gptrsten");
  const ProgramRun run = run_ballast({"diff", trace, other, "--trace"});
  EXPECT_THAT(run.out, HasSubstr("steps in order of execution"));
  EXPECT_LT(run.out.find("tok_embeddings"), run.out.find("blocks.0.norm_1"));
  EXPECT_LT(run.out.find("blocks.0.norm_1"), run.out.find("blocks.0.attention.qkv "));
  const std::string json = run_ballast({"diff", trace, trace, "--trace", "--json"}).out;
  EXPECT_EQ(json_at(json, "trace/order"), "\"execution\"");
  EXPECT_EQ(json_at(json, "trace/first_beyond"), "null");
  EXPECT_EQ(json_at(json, "trace/steps/0/name_a"), "\"tok_embeddings\"");
  EXPECT_EQ(json_at(json, "trace/steps/0/max_abs"), "0");
}

TEST(Diff, AMissingFileIsExitCode2) {
  const TempFolder folder;
  EXPECT_EQ(run_ballast({"diff", write_sample(folder), folder.path("none")}).exit_code, 2);
}

TEST(Diff, MetadataThatDiffersIsExitCode1UnlessItIsIgnored) {
  const TempFolder folder;
  const std::string a =
      write_tensors(folder, "a", {{"w", {1, 2}}}, {{"k", std::string("old")}, {"same", std::string("s")}});
  const std::string b =
      write_tensors(folder, "b", {{"w", {1, 2}}}, {{"same", std::string("s")}, {"k", std::string("new")}});
  const ProgramRun run = run_ballast({"diff", a, b});
  EXPECT_EQ(run.exit_code, 1);
  EXPECT_THAT(run.out, HasSubstr("tensors equal, metadata differs: 1 same\n"));
  EXPECT_THAT(run.out, HasSubstr("  k    old  new\n"));
  EXPECT_EQ(run_ballast({"diff", a, b, "--ignore-metadata"}).out, "equal: 1 same\n");
  EXPECT_EQ(run_ballast({"diff", a, b, "--atol", "1e-6"}).exit_code, 0);
  const std::string json = run_ballast({"diff", a, b, "--json"}).out;
  EXPECT_EQ(json_at(json, "equal"), "false");
  EXPECT_EQ(json_at(json, "tensors_equal"), "true");
  EXPECT_EQ(json_at(json, "metadata/0/key"), "\"k\"");
  EXPECT_EQ(json_at(json, "metadata/0/b"), "\"new\"");
  EXPECT_EQ(json_at(json, "config_differs"), "false");
}

TEST(Diff, AConversionThatCarriesItsOriginIsEqualToItsSource) {
  const TempFolder folder;
  const std::string source = test_file_path("gptrs/gpt_micro/model.gptrs"), target = folder.path("x.safetensors");
  ASSERT_EQ(run_ballast({"convert", source, target}).exit_code, 0);
  EXPECT_EQ(run_ballast({"diff", source, target}).exit_code, 0);
}

}  // namespace
}  // namespace ballast::testing
