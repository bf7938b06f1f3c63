#include <gmock/gmock.h>

#include "tests/apps/ballast_program.h"
#include "tests/support/json_path.h"

namespace ballast::testing {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

// With metadata that tell the files apart.
std::string write_named(const TempFolder& folder, const std::string& name,
                        const std::vector<std::pair<std::string, std::vector<float>>>& tensors) {
  return write_tensors(folder, name, tensors, {{"of", name}});
}

TEST(ApplyCommand, WritesTheModelWithTheNewValues) {
  const TempFolder folder;
  const std::string model = write_named(folder, "model.safetensors", {{"a", {0, 0}}, {"b", {0}}});
  const std::string weights = write_named(folder, "w.safetensors", {{"b", {3}}, {"a", {1, 2}}});
  const std::string out = folder.path("out.safetensors");
  const ProgramRun run = run_ballast({"apply", weights, "--to", model, "-o", out});
  EXPECT_EQ(run.exit_code, 0) << run.err;
  EXPECT_THAT(run.out, HasSubstr("2 applied, 0 skipped, 0 missing, 0 unused, 0 misfits"));
  EXPECT_EQ(run_ballast({"diff", weights, out, "--ignore-metadata"}).exit_code, 0);
  EXPECT_EQ(json_at(run_ballast({"inspect", out, "--json"}).out, "metadata/of"), "\"model.safetensors\"");
}

TEST(ApplyCommand, AModelAppliedToItselfGivesTheSameBytes) {
  const TempFolder folder;
  for (const char* name : {"gptrs/gpt_micro/model.gptrs", "netcl/mlp_basic.netcl"}) {
    const std::string model = test_file_path(name);
    const std::string out = folder.path(std::filesystem::path(name).filename().string());
    const ProgramRun run = run_ballast({"apply", model, "--to", model, "-o", out});
    EXPECT_EQ(run.exit_code, 0) << run.err;
    EXPECT_EQ(read_text_file(out), read_text_file(model));
  }
}

TEST(ApplyCommand, RestoresIdsThatTravelledThroughAnotherFormat) {
  const TempFolder folder;
  const std::string model = test_file_path("burnpack/0.23.0-pre.1/module.bpk");
  const std::string weights = folder.path("w.safetensors"), out = folder.path("out.bpk");
  ASSERT_EQ(run_ballast({"convert", model, weights}).exit_code, 0);
  const ProgramRun run = run_ballast({"apply", weights, "--to", model, "-o", out});
  EXPECT_EQ(run.exit_code, 0) << run.err;
  EXPECT_THAT(run.out, HasSubstr("note: weights: restored from ballast.origin: burnpack"));
  EXPECT_EQ(read_text_file(out), read_text_file(model));
}

TEST(ApplyCommand, ListsMissingTensorsWithWhatMayHaveBeenMeant) {
  const TempFolder folder;
  const std::string model = write_named(folder, "model.safetensors", {{"a", {0}}, {"encoder.weight", {0}}});
  const std::string weights = write_named(folder, "w.safetensors", {{"a", {1}}, {"enc.weight", {2}}});
  const std::string out = folder.path("out.safetensors");
  const ProgramRun refused = run_ballast({"apply", weights, "--to", model, "-o", out});
  EXPECT_EQ(refused.exit_code, 2);
  EXPECT_THAT(refused.err, HasSubstr("1 tensor missing from the weights, so nothing was written; --allow-partial"));
  EXPECT_THAT(refused.out, HasSubstr("did you mean enc.weight?"));
  EXPECT_THAT(folder.names(), ElementsAre("model.safetensors", "w.safetensors"));
  const ProgramRun json = run_ballast({"apply", weights, "--to", model, "-o", out, "--json"});
  EXPECT_EQ(json.exit_code, 2);
  EXPECT_EQ(json_at(json.out, "error/code"), "\"invalid_argument\"");
  EXPECT_EQ(json_at(json.out, "missing"), R"(["encoder.weight"])");
  EXPECT_EQ(json_at(json.out, "near_misses/0/candidate"), "\"enc.weight\"");
  const ProgramRun partial = run_ballast({"apply", weights, "--to", model, "-o", out, "--allow-partial"});
  EXPECT_EQ(partial.exit_code, 0) << partial.err;
  const ProgramRun renamed =
      run_ballast({"apply", weights, "--to", model, "-o", out, "--overwrite", "--rename", "^enc\\.=encoder."});
  EXPECT_EQ(renamed.exit_code, 0) << renamed.err;
}

TEST(ApplyCommand, FiltersByPatternAndExactName) {
  const TempFolder folder;
  const std::string model = write_named(folder, "model.safetensors", {{"a", {0}}, {"ab", {0}}, {"c", {0}}});
  const std::string weights = write_named(folder, "w.safetensors", {{"a", {1}}, {"ab", {2}}, {"c", {3}}});
  const ProgramRun run = run_ballast({"apply", weights, "--to", model, "-o", folder.path("o.safetensors"), "--exact",
                                      "a", "--only", "^c", "--dry-run", "--json"});
  EXPECT_EQ(run.exit_code, 0) << run.err;
  EXPECT_EQ(json_at(run.out, "applied"), R"(["a","c"])");
  EXPECT_EQ(json_at(run.out, "skipped"), R"(["ab"])");
  EXPECT_EQ(json_at(run.out, "files"), "[]");
}

TEST(ApplyCommand, MisfitsStopItUnlessToldNotToValidate) {
  const TempFolder folder;
  const std::string model = write_named(folder, "model.safetensors", {{"a", {0, 0}}});
  const std::string weights = write_named(folder, "w.safetensors", {{"a", {1}}});
  const std::string out = folder.path("o.safetensors");
  const ProgramRun refused = run_ballast({"apply", weights, "--to", model, "-o", out});
  EXPECT_EQ(refused.exit_code, 2);
  EXPECT_THAT(refused.out, HasSubstr("shape [1], the model [2]"));
  EXPECT_THAT(refused.err, HasSubstr("--no-validate"));
  const ProgramRun run = run_ballast({"apply", weights, "--to", model, "-o", out, "--no-validate"});
  EXPECT_EQ(run.exit_code, 0) << run.err;
  EXPECT_THAT(run.out, HasSubstr("1 misfit"));
  EXPECT_EQ(run_ballast({"diff", model, out}).exit_code, 0);
}

TEST(ApplyCommand, TakesTheFormatOfTheModelUnlessTheNameSaysAnother) {
  const TempFolder folder;
  const std::string model = test_file_path("netcl/mlp_basic.netcl");
  const ProgramRun same = run_ballast({"apply", model, "--to", model, "-o", folder.path("out"), "--json"});
  EXPECT_EQ(json_at(same.out, "format"), "\"netcl\"") << same.err;
  const ProgramRun other = run_ballast({"apply", model, "--to", model, "-o", folder.path("out.bpk"), "--json"});
  EXPECT_EQ(json_at(other.out, "format"), "\"burnpack\"") << other.err;
}

TEST(ApplyCommand, AnExistingDestinationNeedsOverwrite) {
  const TempFolder folder;
  const std::string model = write_named(folder, "model.safetensors", {{"a", {0}}});
  const std::string weights = write_named(folder, "w.safetensors", {{"a", {1}}});
  EXPECT_EQ(run_ballast({"apply", weights, "--to", model, "-o", model}).exit_code, 2);
  EXPECT_EQ(run_ballast({"apply", weights, "--to", model, "-o", model, "--overwrite"}).exit_code, 0);
  EXPECT_EQ(run_ballast({"diff", weights, model, "--ignore-metadata"}).exit_code, 0);
}

TEST(Apply, SaysThatItDoesNotWriteToStandardOutput) {
  const ProgramRun run = run_ballast({"apply", "w.safetensors", "--to", "m.safetensors", "-o", "-"});
  EXPECT_EQ(run.exit_code, 2);
  EXPECT_THAT(run.err, ::testing::HasSubstr("apply cannot write to standard output"));
}

}  // namespace
}  // namespace ballast::testing
