#include <gmock/gmock.h>

#include "tests/apps/ballast_program.h"
#include "tests/support/json_path.h"

namespace ballast::testing {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

std::string write_cut(const TempFolder& folder) {
  const std::string whole = read_text_file(write_sample(folder));
  return folder.write("cut.safetensors", whole.substr(0, whole.size() - 10));
}

TEST(DoctorCommand, ASoundFileIsSound) {
  const TempFolder folder;
  const ProgramRun run = run_ballast({"doctor", write_sample(folder)});
  EXPECT_EQ(run.exit_code, 0);
  EXPECT_THAT(run.out, HasSubstr("nothing is wrong"));
}

TEST(DoctorCommand, ATruncatedFileIsExplained) {
  const TempFolder folder;
  const ProgramRun run = run_ballast({"doctor", write_cut(folder)});
  EXPECT_EQ(run.exit_code, 1);
  for (const char* part : {"damaged", "cause: the file was cut short", "> the file ends here", "lost: 1 tensor",
                           "3 tensors", "--rescue OUT"}) {
    EXPECT_THAT(run.out, HasSubstr(part));
  }
}

TEST(DoctorCommand, RescueWritesTheSoundTensorsAndSaysThatSomeAreLost) {
  const TempFolder folder;
  const std::string out = folder.path("saved.safetensors");
  const ProgramRun run = run_ballast({"doctor", write_cut(folder), "--rescue", out, "--json"});
  EXPECT_EQ(run.exit_code, 1) << run.err;
  EXPECT_EQ(json_at(run.out, "verdict"), "\"damaged\"");
  EXPECT_EQ(json_at(run.out, "rescue/tensors"), "3");
  EXPECT_EQ(json_at(run.out, "rescue/lost/0/code"), "\"truncated\"");
  EXPECT_EQ(json_at(run.out, "rescue/destination"), "\"" + out + "\"");
  EXPECT_EQ(run_ballast({"verify", out}).exit_code, 0);
}

TEST(DoctorCommand, RescueOfEverythingIsASuccess) {
  const TempFolder folder;
  const std::string path = folder.write("tail.safetensors", read_text_file(write_sample(folder)) + "tail");
  EXPECT_EQ(run_ballast({"doctor", path}).exit_code, 1);
  const ProgramRun run = run_ballast({"doctor", path, "--rescue", folder.path("saved.safetensors")});
  EXPECT_EQ(run.exit_code, 0) << run.err;
  EXPECT_EQ(run_ballast({"diff", folder.path("saved.safetensors"), folder.path("sample.safetensors")}).exit_code, 0);
}

TEST(DoctorCommand, AnErrorPageIsCalledOne) {
  const TempFolder folder;
  const ProgramRun run = run_ballast({"doctor", folder.write("m.safetensors", "<!doctype html><html>404"), "--json"});
  EXPECT_EQ(run.exit_code, 1);
  EXPECT_EQ(json_at(run.out, "content"), "\"html\"");
  EXPECT_EQ(json_at(run.out, "verdict"), "\"foreign\"");
}

TEST(DoctorCommand, WhatNobodyKnowsEndsWithTwoAndShowsTheBytes) {
  const TempFolder folder;
  const ProgramRun run = run_ballast({"doctor", folder.write("x", "\x91\x1b[31m\xfe\xfd")});
  EXPECT_EQ(run.exit_code, 2);
  EXPECT_THAT(run.out, HasSubstr("[91]1b 5b 33 31 6d"));
  EXPECT_THAT(run.out, Not(HasSubstr("\x1b")));
}

TEST(DoctorCommand, NothingToRescueIsAFailureThatLeavesNoFile) {
  const TempFolder folder;
  const ProgramRun run =
      run_ballast({"doctor", folder.write("m.npz", "GIF89a\x80\x81\xfe"), "--rescue", folder.path("saved.npz")});
  EXPECT_EQ(run.exit_code, 1);
  EXPECT_THAT(run.err, HasSubstr("nothing can be rescued"));
  EXPECT_FALSE(std::filesystem::exists(folder.path("saved.npz")));
}

TEST(DoctorCommand, AMissingFileIsAnError) { EXPECT_EQ(run_ballast({"doctor", "/nonexistent/file"}).exit_code, 2); }

TEST(DoctorCommand, WhereNothingCanBeSavedNothingIsOffered) {
  const TempFolder folder;
  const std::string whole = read_text_file(write_tensors(folder, "a.safetensors", {{"w", {1, 2, 3, 4}}}));
  const ProgramRun run = run_ballast({"doctor", folder.write("cut.safetensors", whole.substr(0, whole.size() - 8))});
  EXPECT_EQ(run.exit_code, 1);
  EXPECT_THAT(run.out, HasSubstr("nothing in it can be saved"));
  EXPECT_THAT(run.out, Not(HasSubstr("--rescue")));
  EXPECT_THAT(run.out, Not(HasSubstr("0 tensors")));
}

}  // namespace
}  // namespace ballast::testing
