#include <gmock/gmock.h>
#include <signal.h>

#include "tests/apps/ballast_program.h"

namespace ballast::testing {
namespace {

using ::testing::ElementsAre;

constexpr uint64_t kBig = 3072;  // MiB: takes long enough to be interrupted

// Sends the signal `times` times as soon as a file other than the source has appeared.
ProgramSetting interrupt_writing(const TempFolder& folder, size_t files_before, int signal, int times) {
  ProgramSetting setting;
  setting.timeout_seconds = 120;
  setting.watch = [&folder, files_before, signal, times, sent = 0](pid_t process, const std::string&) mutable {
    if (sent == times || folder.names().size() == files_before) return;
    ::kill(process, signal);
    ++sent;
  };
  return setting;
}

TEST(FileSizeLimit, IsAnOrdinaryErrorAndLeavesNothingBehind) {
  const TempFolder folder;
  const std::string source = write_sparse_file(folder, "big.safetensors", 4);
  const ProgramRun run = run_program({"/bin/sh", "-c",
                                      fmt::format("ulimit -f 64; exec '{}' convert '{}' '{}'", program_path(), source,
                                                  folder.path("copy.safetensors"))});
  EXPECT_EQ(run.signal, 0) << "SIGXFSZ ended it";
  EXPECT_EQ(run.exit_code, 2);
  EXPECT_THAT(run.err, ::testing::HasSubstr("File too large"));
  EXPECT_THAT(folder.names(), ElementsAre("big.safetensors"));
}

class InterruptedConvert : public ::testing::TestWithParam<std::pair<int, int>> {};

TEST_P(InterruptedConvert, IsExitCode130AndLeavesNothingBehind) {
  const TempFolder folder;
  const std::string source = write_sparse_file(folder, "big.safetensors", kBig);
  const auto [signal, times] = GetParam();
  const ProgramRun run = run_ballast({"convert", source, folder.path("copy.safetensors"), "--no-sync"},
                                     interrupt_writing(folder, 1, signal, times));
  EXPECT_EQ(run.exit_code, 130) << "signal " << run.signal;
  EXPECT_THAT(folder.names(), ElementsAre("big.safetensors"));
}

INSTANTIATE_TEST_SUITE_P(Signals, InterruptedConvert,
                         ::testing::Values(std::pair(SIGINT, 1), std::pair(SIGTERM, 1), std::pair(SIGHUP, 1),
                                           std::pair(SIGINT, 2)));

TEST(Signals, AnInterruptedOverwriteLeavesTheOldFile) {
  const TempFolder folder;
  const std::string source = write_sparse_file(folder, "big.safetensors", kBig);
  const std::string target = folder.write("copy.safetensors", "precious");
  const ProgramRun run =
      run_ballast({"convert", source, target, "--overwrite", "--no-sync"}, interrupt_writing(folder, 2, SIGINT, 1));
  EXPECT_EQ(run.exit_code, 130);
  EXPECT_EQ(read_text_file(target), "precious");
  EXPECT_THAT(folder.names(), ElementsAre("big.safetensors", "copy.safetensors"));
}

TEST(Signals, ATruncatedSourceEndsTheCommandAndLeavesNothingBehind) {
  const TempFolder folder;
  const std::string source = write_sparse_file(folder, "big.safetensors", kBig);
  ProgramSetting setting;
  setting.timeout_seconds = 120;
  setting.watch = [&, cut = false](pid_t, const std::string&) mutable {
    if (cut || folder.names().size() == 1) return;
    std::filesystem::resize_file(source, 4096);
    cut = true;
  };
  const ProgramRun run = run_ballast({"convert", source, folder.path("copy.safetensors"), "--no-sync"}, setting);
  EXPECT_EQ(run.exit_code, 2) << "signal " << run.signal;
  EXPECT_THAT(run.err, ::testing::StartsWith("ballast: "));
  EXPECT_THAT(folder.names(), ElementsAre("big.safetensors"));
}

TEST(Signals, AReaderThatGoesAwayIsNoFailure) {
  const TempFolder folder;
  WritePlan plan;
  for (int i = 0; i < 20'000; ++i) plan.add_tensor(make_info("t" + std::to_string(i), DType::kU8, {0}), ByteSpan());
  const std::string path = write_plan(folder, "many.safetensors", plan);
  const std::string program = program_path();
  const std::string script = "\"" + program + "\" inspect \"" + path + "\" | head -n 1; exit ${PIPESTATUS[0]}";
  const ProgramRun run = run_program({"/bin/bash", "-c", script});
  EXPECT_EQ(run.exit_code, 0);
  EXPECT_EQ(run.out, path + "\n");
  EXPECT_EQ(run.err, "");
}

}  // namespace
}  // namespace ballast::testing
