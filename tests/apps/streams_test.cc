// "-" for standard input and standard output.
#include <gmock/gmock.h>

#include "tests/apps/ballast_program.h"
#include "tests/support/json_path.h"

namespace ballast::testing {
namespace {

using ::testing::HasSubstr;
using ::testing::IsEmpty;

// Runs a line of shell in which $B is the program, and in the folder.
ProgramRun shell(const TempFolder& folder, const std::string& line, const ProgramSetting& setting = {}) {
  return run_program({"/bin/sh", "-c", "cd '" + folder.path() + "' && B='" + program_path() + "' && " + line}, setting);
}

TEST(Streams, AFileGoesThroughTwoPipesAndComesBackTheSame) {
  const TempFolder folder;
  write_sample(folder, "a.safetensors");
  const ProgramRun run = shell(folder,
                               "cat a.safetensors | $B convert - - --to burnpack | $B convert - back.safetensors && "
                               "cmp a.safetensors back.safetensors");
  EXPECT_EQ(run.exit_code, 0) << run.err;
}

TEST(Streams, WhatConvertSaysGoesToStandardErrorWhenDataTakesStandardOutput) {
  const TempFolder folder;
  write_sample(folder, "a.safetensors");
  const ProgramRun run = shell(folder, "$B convert a.safetensors - --to safetensors > b.safetensors");
  EXPECT_EQ(run.exit_code, 0);
  EXPECT_EQ(run.out, "");
  EXPECT_THAT(run.err, HasSubstr("converted a.safetensors"));
  EXPECT_TRUE(read_text_file(folder.path("a.safetensors")) == read_text_file(folder.path("b.safetensors")));
}

TEST(Streams, AFormatThatPatchesGoesThroughATemporaryFile) {
  const TempFolder folder;
  write_sample(folder, "a.safetensors");
  for (const char* compress : {"", " --compress"}) {
    const ProgramRun run =
        shell(folder, std::string("$B convert a.safetensors - --to npz") + compress + " | $B verify -");
    EXPECT_EQ(run.exit_code, 0) << run.err;
    EXPECT_EQ(run.out, "-: npz, sound\n");
  }
}

TEST(Streams, EveryCommandThatReadsTakesStandardInput) {
  const TempFolder folder;
  write_sample(folder, "a.safetensors");
  for (const char* line :
       {"inspect -", "verify -", "hash -", "diff - a.safetensors", "diff a.safetensors -", "doctor -",
        "extract - -o x.npz head", "split - -o 'y-{}.npz' --count 2", "merge - a.safetensors -o z.npz"}) {
    const ProgramRun piped = shell(folder, std::string("cat a.safetensors | $B ") + line);
    EXPECT_EQ(piped.exit_code, 0) << line << ": " << piped.err;
  }
  EXPECT_EQ(shell(folder, "$B inspect --json - < a.safetensors").exit_code, 0);
}

TEST(Streams, TemporaryFilesStandInTmpdirAndLeaveNothing) {
  const TempFolder folder, temporary;
  write_sample(folder, "a.safetensors");
  ProgramSetting setting;
  setting.environment = {{"TMPDIR", temporary.path()}};
  EXPECT_EQ(shell(folder, "cat a.safetensors | $B inspect -", setting).exit_code, 0);
  EXPECT_THAT(temporary.names(), IsEmpty());
  setting.environment = {{"TMPDIR", folder.path("missing")}};
  const ProgramRun run = shell(folder, "cat a.safetensors | $B inspect -", setting);
  EXPECT_EQ(run.exit_code, 2);
  EXPECT_THAT(run.err, HasSubstr("missing"));
}

TEST(Streams, AReaderThatHasSeenEnoughIsNoFailure) {
  const TempFolder folder;
  write_sparse_file(folder, "big.safetensors", 32);
  const ProgramRun run =
      shell(folder, "{ $B convert big.safetensors - --to burnpack; echo \"code $?\" >&2; } | head -c 10 > /dev/null");
  EXPECT_EQ(run.err, "code 0\n");
}

TEST(Streams, AFullDiskBehindStandardOutputIsAFailure) {
  const TempFolder folder;
  const std::string path = write_sample(folder);
  ProgramSetting setting;
  setting.stdout_path = "/dev/full";
  const ProgramRun run = run_ballast({"convert", path, "-", "--to", "burnpack"}, setting);
  EXPECT_EQ(run.exit_code, 2);
  EXPECT_THAT(run.err, HasSubstr("standard output"));
}

TEST(Streams, BytesAreNotPouredOntoATerminal) {
  const TempFolder folder;
  const std::string path = write_sample(folder);
  ProgramSetting setting;
  setting.terminal = true;
  setting.columns = 200;
  const ProgramRun run = run_ballast({"convert", path, "-", "--to", "burnpack"}, setting);
  EXPECT_EQ(run.exit_code, 2);
  EXPECT_THAT(run.out, HasSubstr("terminal"));
}

TEST(Streams, ForStandardOutputTheFormatMustBeTold) {
  const TempFolder folder;
  const ProgramRun run = run_ballast({"convert", write_sample(folder), "-"});
  EXPECT_EQ(run.exit_code, 2);
  EXPECT_THAT(run.err, HasSubstr("--to"));
}

TEST(Streams, SeveralFilesDoNotGoThroughOnePipe) {
  const TempFolder folder;
  const ProgramRun run =
      run_ballast({"convert", write_sample(folder), "-", "--to", "safetensors", "--shard-size", "20"});
  EXPECT_EQ(run.exit_code, 2);
  EXPECT_EQ(run.out, "");
  EXPECT_THAT(run.err, HasSubstr("a pipe takes one"));
}

TEST(Streams, StandardInputCanBeReadOnlyOnce) {
  const ProgramRun run = run_ballast({"diff", "-", "-"});
  EXPECT_EQ(run.exit_code, 2);
  EXPECT_THAT(run.err, HasSubstr("only once"));
}

TEST(Streams, AManifestHasNoPlaceBesideAStream) {
  const TempFolder folder;
  write_sample(folder, "a.safetensors");
  const ProgramRun run = shell(folder, "$B hash - --write < a.safetensors");
  EXPECT_EQ(run.exit_code, 2);
  EXPECT_THAT(folder.names(), ::testing::ElementsAre("a.safetensors"));
}

TEST(Streams, AnEmptyPipeIsAnErrorThatNamesStandardInput) {
  const ProgramRun run = run_ballast({"inspect", "-"});
  EXPECT_EQ(run.exit_code, 2);
  EXPECT_THAT(run.err, HasSubstr("standard input: the file is empty"));
}

TEST(Streams, NamedPipesAndProcessSubstitutionAreRead) {
  const TempFolder folder;
  write_sample(folder, "a.safetensors");
  for (const char* line : {"inspect fifo", "verify fifo", "hash fifo", "diff fifo a.safetensors", "doctor fifo",
                           "stats fifo", "convert fifo out.npz --overwrite"}) {
    const ProgramRun run = shell(folder, std::string("rm -f fifo; mkfifo fifo; cat a.safetensors > fifo & $B ") + line);
    EXPECT_EQ(run.exit_code, 0) << line << ": " << run.err;
  }
  EXPECT_EQ(shell(folder, "cat a.safetensors | $B inspect /dev/stdin").exit_code, 0);
  EXPECT_EQ(shell(folder, "$B verify /dev/fd/3 3<a.safetensors").exit_code, 0);
}

TEST(Streams, ADeviceIsStillRefused) {
  const ProgramRun run = run_ballast({"inspect", "/dev/zero"});
  EXPECT_EQ(run.exit_code, 2);
  EXPECT_THAT(run.err, HasSubstr("is a device"));
}

TEST(Streams, APipeHasNoPlaceForAManifest) {
  const TempFolder folder;
  write_sample(folder, "a.safetensors");
  const ProgramRun run = shell(folder, "cat a.safetensors | $B hash /dev/stdin --write");
  EXPECT_EQ(run.exit_code, 2);
  EXPECT_THAT(run.err, HasSubstr("need a file, not a pipe"));
}

}  // namespace
}  // namespace ballast::testing
