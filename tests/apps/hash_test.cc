#include <gmock/gmock.h>

#include "tests/apps/ballast_program.h"
#include "tests/support/json_path.h"

namespace ballast::testing {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::StartsWith;

TEST(Hash, ListsTensorsByNameAndTheArchiveLast) {
  const TempFolder folder;
  const std::string path = write_sample(folder);
  const std::string text = run_ballast({"hash", path}).out;
  const std::string json = run_ballast({"hash", path, "--json"}).out;
  const auto unquoted = [&](const std::string& where) {
    const std::string value = json_at(json, where);
    return value.substr(1, value.size() - 2);
  };
  EXPECT_EQ(unquoted("tensors/0/name"), "blocks.0.weight");
  EXPECT_EQ(unquoted("tensors/1/name"), "blocks.10.weight");
  EXPECT_THAT(text, StartsWith(unquoted("tensors/0/blake3") + "  blocks.0.weight\n"));
  EXPECT_THAT(text, HasSubstr("\n" + unquoted("digest") + "  archive digest of " + path + "\n"));
}

TEST(Hash, DoesNotDependOnTheFormatOrTheNumberOfThreads) {
  const TempFolder folder;
  const std::string source = test_file_path("gptrs/gpt_micro/model.gptrs"), copy = folder.path("copy.safetensors");
  ASSERT_EQ(run_ballast({"convert", source, copy}).exit_code, 0);
  const std::string digest = json_at(run_ballast({"hash", source, "--json"}).out, "digest");
  EXPECT_EQ(json_at(run_ballast({"hash", copy, "--json", "--threads", "1"}).out, "digest"), digest);
  EXPECT_EQ(json_at(run_ballast({"hash", copy, "--json", "--threads", "7"}).out, "digest"), digest);
}

TEST(Hash, Sha256IsThatOfTheBytes) {
  const TempFolder folder;
  const ProgramRun run = run_ballast({"hash", write_sample(folder), "--sha256", "--json"});
  EXPECT_EQ(json_at(run.out, "tensors/3/name"), "\"head\"");
  EXPECT_EQ(json_at(run.out, "tensors/3/sha256"), "\"" + sha256_hex(counting_bytes(32, 4)) + "\"");
}

TEST(Hash, AManifestIsWrittenBesideTheFileAndChecked) {
  const TempFolder folder;
  const std::string path = write_sample(folder);
  EXPECT_EQ(run_ballast({"hash", path, "--write"}).exit_code, 0);
  EXPECT_THAT(folder.names(), ElementsAre("sample.safetensors", "sample.safetensors.ballast.json"));
  EXPECT_EQ(run_ballast({"hash", path, "--write"}).exit_code, 0);  // an older one is replaced
  const ProgramRun same = run_ballast({"hash", path, "--check"});
  EXPECT_EQ(same.exit_code, 0);
  EXPECT_THAT(same.out, HasSubstr("matches"));

  std::string bytes = read_text_file(path);
  bytes.back() ^= 1;
  folder.write("sample.safetensors", bytes);
  const ProgramRun changed = run_ballast({"hash", path, "--check"});
  EXPECT_EQ(changed.exit_code, 1);
  EXPECT_THAT(changed.out, HasSubstr("does not match"));
  const ProgramRun json = run_ballast({"hash", path, "--check", "--json"});
  EXPECT_EQ(json.exit_code, 1);
  EXPECT_EQ(json_at(json.out, "matches"), "false");
  EXPECT_NE(json_at(json.out, "differences/0"), "");
}

TEST(Hash, CheckingWithoutAManifestIsExitCode2) {
  const TempFolder folder;
  const ProgramRun run = run_ballast({"hash", write_sample(folder), "--check"});
  EXPECT_EQ(run.exit_code, 2);
  EXPECT_THAT(run.err, HasSubstr("--write makes one"));
}

}  // namespace
}  // namespace ballast::testing
