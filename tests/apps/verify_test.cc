#include <gmock/gmock.h>

#include "tests/apps/ballast_program.h"
#include "tests/support/json_path.h"

namespace ballast::testing {
namespace {

using ::testing::HasSubstr;
using ::testing::StartsWith;

std::string write_truncated(const TempFolder& folder) {
  const std::string whole = read_text_file(write_sample(folder));
  return folder.write("cut.safetensors", whole.substr(0, whole.size() - 40));
}

TEST(Verify, ASoundFileIsExitCode0) {
  const TempFolder folder;
  const std::string path = write_sample(folder);
  const ProgramRun run = run_ballast({"verify", path});
  EXPECT_EQ(run.exit_code, 0);
  EXPECT_EQ(run.out, path + ": safetensors, sound\n");
}

TEST(Verify, ADamagedFileIsExitCode1WithFindingsAndOffsets) {
  const TempFolder folder;
  const std::string path = write_truncated(folder);
  const ProgramRun run = run_ballast({"verify", path});
  EXPECT_EQ(run.exit_code, 1);
  EXPECT_THAT(run.out, HasSubstr("not sound"));
  EXPECT_THAT(run.out, HasSubstr("error"));
  const ProgramRun json = run_ballast({"verify", path, "--json"});
  EXPECT_EQ(json.exit_code, 1);
  EXPECT_EQ(json_at(json.out, "sound"), "false");
  EXPECT_EQ(json_at(json.out, "level"), "\"structure\"");
  EXPECT_EQ(json_at(json.out, "files/0/sound"), "false");
  EXPECT_EQ(json_at(json.out, "files/0/findings/0/severity"), "\"error\"");
  EXPECT_NE(json_at(json.out, "files/0/findings/0/offset"), "");
  EXPECT_NE(json_at(json.out, "files/0/findings/0/message"), "");
}

TEST(Verify, ContentLevelFindsValuesThatAreNotFinite) {
  const TempFolder folder;
  WritePlan plan;
  const float values[2] = {1.0f, std::numeric_limits<float>::quiet_NaN()};
  plan.add_tensor(make_info("w", DType::kF32, {2}), std::as_bytes(std::span(values)));
  const std::string path = write_plan(folder, "nan.safetensors", plan);
  EXPECT_EQ(run_ballast({"verify", path}).exit_code, 0);
  const ProgramRun run = run_ballast({"verify", path, "--level", "content"});
  EXPECT_EQ(run.exit_code, 1);
  EXPECT_THAT(run.out, HasSubstr("\"w\""));
}

TEST(Verify, ChecksEveryFileAndEndsWithTheWorstOutcome) {
  const TempFolder folder;
  const std::string sound = write_sample(folder), cut = write_truncated(folder), none = folder.path("none");
  const ProgramRun two = run_ballast({"verify", cut, sound});
  EXPECT_EQ(two.exit_code, 1);
  EXPECT_THAT(two.out, HasSubstr(sound + ": safetensors, sound\n"));
  const ProgramRun three = run_ballast({"verify", none, cut, sound, "--json"});
  EXPECT_EQ(three.exit_code, 2);
  EXPECT_THAT(three.err, StartsWith("ballast: " + none));
  EXPECT_EQ(json_at(three.out, "files/0/error/code"), "\"not_found\"");
  EXPECT_EQ(json_at(three.out, "files/1/sound"), "false");
  EXPECT_EQ(json_at(three.out, "files/2/sound"), "true");
}

TEST(Verify, AMissingManifestIsANoteAndNoFinding) {
  const TempFolder folder;
  const std::string path = write_tensors(folder, "a.safetensors", {{"w", {1, 2}}});
  const ProgramRun run = run_ballast({"verify", "--level", "content", path});
  EXPECT_EQ(run.exit_code, 0);
  EXPECT_THAT(run.out, StartsWith(path + ": safetensors, sound, 1 note\n"));
  EXPECT_THAT(run.out, HasSubstr("no_manifest"));
  EXPECT_EQ(run.out.find("finding"), std::string::npos) << run.out;
}

}  // namespace
}  // namespace ballast::testing
