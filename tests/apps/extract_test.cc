#include <gmock/gmock.h>

#include "ballast/archive/open.h"
#include "tests/apps/ballast_program.h"
#include "tests/support/json_path.h"

namespace ballast::testing {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

std::vector<std::string> names_in(const std::string& path) {
  const auto archive = open_archive(path);
  EXPECT_TRUE(archive) << (archive ? "" : archive.error().message);
  std::vector<std::string> names;
  if (archive) {
    for (const TensorInfo& tensor : archive->tensors()) names.push_back(tensor.name);
  }
  return names;
}

TEST(Extract, TakesTensorsByName) {
  const TempFolder folder;
  const std::string out = folder.path("x.npz");
  const ProgramRun run = run_ballast({"extract", write_sample(folder), "-o", out, "head", "blocks.2.weight"});
  EXPECT_EQ(run.exit_code, 0) << run.err;
  EXPECT_THAT(names_in(out), ElementsAre("head", "blocks.2.weight"));
}

TEST(Extract, NamesAndPatternsAddUpAndExcludeTakesAway) {
  const TempFolder folder;
  const std::string out = folder.path("x.npz");
  const ProgramRun run =
      run_ballast({"extract", write_sample(folder), "-o", out, "head", "--only", "^blocks", "--exclude", "10"});
  EXPECT_EQ(run.exit_code, 0) << run.err;
  EXPECT_THAT(names_in(out), ElementsAre("head", "blocks.0.weight", "blocks.2.weight"));
}

TEST(Extract, SuggestsTheNameThatWasMeant) {
  const TempFolder folder;
  const ProgramRun run = run_ballast({"extract", write_sample(folder), "-o", folder.path("x.npz"), "haed"});
  EXPECT_EQ(run.exit_code, 2);
  EXPECT_THAT(run.err, HasSubstr(": no tensor is called \"haed\"; did you mean \"head\"?\n"));
}

TEST(Extract, TakesATensorsIdForItsName) {
  const TempFolder folder;
  const std::string out = folder.path("x.npz");
  const ProgramRun run = run_ballast(
      {"extract", write_sample(folder), "-o", out, base_param_id("head").to_bytes_hex(), "blocks.0.weight"});
  EXPECT_EQ(run.exit_code, 0) << run.err;
  EXPECT_THAT(names_in(out), ElementsAre("head", "blocks.0.weight"));
}

TEST(Extract, OneTensorBecomesAnNpyArrayWithoutFurtherQuestions) {
  const TempFolder folder;
  const std::string out = folder.path("x.npy");
  const ProgramRun run = run_ballast({"extract", write_sample(folder), "-o", out, "head"});
  EXPECT_EQ(run.exit_code, 0) << run.err;
  const auto archive = open_archive(out);
  ASSERT_TRUE(archive);
  EXPECT_EQ(archive->tensors()[0].dtype, DType::kI64);
  EXPECT_EQ(archive->tensors()[0].shape, Shape({4}));
  const auto payload = archive->payload(0);
  ASSERT_TRUE(payload);
  EXPECT_TRUE(std::ranges::equal(payload->bytes(), counting_bytes(32, 4)));
  EXPECT_EQ(run_ballast({"extract", write_sample(folder), "-o", folder.path("y.npy")}).exit_code, 2);
}

TEST(Extract, EachMakesOneFilePerTensor) {
  const TempFolder folder;
  const ProgramRun run =
      run_ballast({"extract", write_sample(folder), "--each", folder.path("arrays"), "--only", "^blocks"});
  EXPECT_EQ(run.exit_code, 0) << run.err;
  std::vector<std::string> files;
  for (const auto& entry : std::filesystem::directory_iterator(folder.path("arrays")))
    files.push_back(entry.path().filename());
  EXPECT_THAT(files,
              ::testing::UnorderedElementsAre("blocks.0.weight.npy", "blocks.2.weight.npy", "blocks.10.weight.npy"));
  EXPECT_THAT(folder.names(), ElementsAre("arrays", "sample.safetensors"));
}

TEST(Extract, EachNeverLeavesItsFolder) {
  const TempFolder folder;
  WritePlan plan;
  for (const char* name : {"../up", "/root", "a/b", "..", ".hidden", "sp ace", "100%"}) {
    plan.add_tensor(make_info(name, DType::kU8, {1}), [](ByteSink& sink) { return sink.write(counting_bytes(1)); });
  }
  const std::string source = write_plan(folder, "odd.safetensors", plan);
  const ProgramRun run = run_ballast({"extract", source, "--each", folder.path("arrays")});
  EXPECT_EQ(run.exit_code, 0) << run.err;
  EXPECT_THAT(folder.names(), ElementsAre("arrays", "odd.safetensors"));
  std::vector<std::string> files;
  for (const auto& entry : std::filesystem::directory_iterator(folder.path("arrays")))
    files.push_back(entry.path().filename());
  EXPECT_THAT(files, ::testing::UnorderedElementsAre("%2E.%2Fup.npy", "%2Froot.npy", "a%2Fb.npy", "%2E..npy",
                                                     "%2Ehidden.npy", "sp%20ace.npy", "100%25.npy"));
}

TEST(Extract, EachRefusesNamesThatDifferOnlyInCase) {
  const TempFolder folder;
  WritePlan plan;
  for (const char* name : {"w", "W"}) {
    plan.add_tensor(make_info(name, DType::kU8, {1}), [](ByteSink& sink) { return sink.write(counting_bytes(1)); });
  }
  const ProgramRun run =
      run_ballast({"extract", write_plan(folder, "a.safetensors", plan), "--each", folder.path("arrays")});
  EXPECT_EQ(run.exit_code, 2);
  EXPECT_THAT(run.err, HasSubstr("ignore case"));
  EXPECT_FALSE(std::filesystem::exists(folder.path("arrays")));
}

TEST(Extract, EachLeavesAFolderWithSomethingInItAlone) {
  const TempFolder folder;
  const std::string source = write_sample(folder);
  std::filesystem::create_directory(folder.path("arrays"));
  EXPECT_EQ(run_ballast({"extract", source, "--each", folder.path("arrays")}).exit_code, 0);  // empty: fine
  EXPECT_EQ(run_ballast({"extract", source, "--each", folder.path("arrays")}).exit_code, 2);
}

TEST(Extract, NeedsToKnowWhereTo) {
  const TempFolder folder;
  const ProgramRun run = run_ballast({"extract", write_sample(folder)});
  EXPECT_EQ(run.exit_code, 2);
  EXPECT_THAT(run.err, HasSubstr("-o OUT"));
}

TEST(Extract, JsonSaysWhatWasWritten) {
  const TempFolder folder;
  const std::string out = folder.path("x.npz");
  const ProgramRun run = run_ballast({"extract", write_sample(folder), "-o", out, "head", "--json"});
  EXPECT_EQ(json_at(run.out, "format"), "\"npz\"");
  EXPECT_EQ(json_at(run.out, "tensors"), "1");
  EXPECT_EQ(json_at(run.out, "files/0"), "\"" + out + "\"");
}

}  // namespace
}  // namespace ballast::testing
