#include <gmock/gmock.h>

#include <cmath>
#include <limits>

#include "tests/apps/ballast_program.h"
#include "tests/support/json_path.h"

namespace ballast::testing {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

struct Plan {
  WritePlan plan;
  std::vector<std::unique_ptr<std::vector<float>>> kept;

  Plan& add(const std::string& name, std::vector<float> values) {
    kept.push_back(std::make_unique<std::vector<float>>(std::move(values)));
    plan.add_tensor(make_info(name, DType::kF32, {kept.back()->size()}), std::as_bytes(std::span(*kept.back())));
    return *this;
  }
};

std::string write_odd_values(const TempFolder& folder) {
  const float nan = std::numeric_limits<float>::quiet_NaN();
  const float inf = std::numeric_limits<float>::infinity();
  Plan plan;
  plan.add("good", {1, 2, 3, 4}).add("bad", {nan, inf, 1, -inf}).add("zero", {0, 0, 0}).add("same", {5, 5});
  plan.add("wide", {-100, 100});
  return write_plan(folder, "values.safetensors", plan.plan);
}

std::vector<std::string> lines_of(const std::string& text) {
  std::vector<std::string> lines;
  for (size_t begin = 0; begin < text.size(); begin = text.find('\n', begin) + 1) {
    lines.push_back(text.substr(begin, text.find('\n', begin) - begin));
  }
  return lines;
}

TEST(Stats, TableWithTotalAndHistogram) {
  const TempFolder folder;
  const ProgramRun run = run_ballast({"stats", write_odd_values(folder), "--only", "good"});
  EXPECT_EQ(run.exit_code, 0);
  const auto lines = lines_of(run.out);
  EXPECT_THAT(lines[0], HasSubstr("name  dtype  count  min  max  mean    std  zeros  histogram"));
  EXPECT_THAT(lines[1], HasSubstr("good  f32        4    1    4   2.5  1.118"));
  EXPECT_THAT(lines[1], HasSubstr("█"));
  EXPECT_THAT(run.out, HasSubstr("all 4 finite numbers together\n"));
  EXPECT_THAT(run.out, HasSubstr("\n  to 4\n"));
  EXPECT_THAT(run.out, Not(HasSubstr("warning")));
  EXPECT_THAT(run_ballast({"stats", write_odd_values(folder)}).out, HasSubstr("\n  total "));
}

TEST(Stats, WarnsOfWhatDeservesASecondLook) {
  const TempFolder folder;
  const std::string out = run_ballast({"stats", write_odd_values(folder)}).out;
  EXPECT_THAT(out, HasSubstr("1 NaN, 1 +Inf, 1 -Inf"));
  EXPECT_THAT(out, HasSubstr("all zeros"));
  EXPECT_THAT(out, HasSubstr("constant 5"));
  EXPECT_THAT(out, HasSubstr("warning: 1 tensor with NaN or infinities: 1 NaN, 1 +Inf, 1 -Inf\n"));
  EXPECT_THAT(out, HasSubstr("warning: 2 tensors with a single value throughout\n"));
}

TEST(Stats, SortsAndDrawsEveryTensorOnRequest) {
  const TempFolder folder;
  const std::string path = write_odd_values(folder);
  const auto first = [&](const char* key) { return lines_of(run_ballast({"stats", path, "--sort", key}).out)[1]; };
  EXPECT_THAT(first("name"), HasSubstr("  bad "));
  EXPECT_THAT(first("std"), HasSubstr("  wide "));
  EXPECT_THAT(first("absmax"), HasSubstr("  wide "));
  EXPECT_THAT(first("size"), Not(HasSubstr("  same ")));
  const std::string out = run_ballast({"stats", path, "--histogram", "--only", "good|wide"}).out;
  EXPECT_THAT(out, HasSubstr("\ngood\n"));
  EXPECT_THAT(out, HasSubstr("\nwide\n"));
}

TEST(Stats, JsonHasEveryNumber) {
  const TempFolder folder;
  const std::string out = run_ballast({"stats", write_odd_values(folder), "--json", "--sort", "name"}).out;
  EXPECT_EQ(json_at(out, "tensors/0/name"), "\"bad\"");
  EXPECT_EQ(json_at(out, "tensors/0/nan"), "1");
  EXPECT_EQ(json_at(out, "tensors/0/positive_infinity"), "1");
  EXPECT_EQ(json_at(out, "tensors/0/mean"), "1");
  EXPECT_EQ(json_at(out, "tensors/1/mean"), "2.5");
  EXPECT_EQ(json_at(out, "tensors/1/abs_max"), "4");
  EXPECT_EQ(json_at(out, "tensors/1/histogram/low"), "1");
  EXPECT_EQ(json_at(out, "tensors/4/warning"), "\"all zeros\"");
  EXPECT_EQ(json_at(out, "total/count"), "15");
  EXPECT_EQ(json_at(out, "total/zeros"), "3");
  EXPECT_EQ(json_at(out, "tied"), "[]");
}

TEST(Stats, TiedTensorsAreNamedButNotEqualConstants) {
  const TempFolder folder;
  Plan plan;
  plan.add("a", {1, 2, 3}).add("b", {1, 2, 3}).add("z1", {0, 0}).add("z2", {0, 0});
  const std::string path = write_plan(folder, "tied.safetensors", plan.plan);
  EXPECT_THAT(run_ballast({"stats", path}).out, HasSubstr("  a = b  stored 2 times"));
  EXPECT_EQ(json_at(run_ballast({"stats", path, "--json"}).out, "tied"),
            R"([{"names":["a","b"],"stored_once":false}])");
  EXPECT_THAT(run_ballast({"inspect", path, "--hash"}).out, HasSubstr("  a = b  stored 2 times"));
  EXPECT_THAT(run_ballast({"inspect", path}).out, Not(HasSubstr("tied:")));
}

TEST(Stats, TypesWithoutArithmeticAreListedAsSuch) {
  const ProgramRun run = run_ballast({"stats", test_file_path("npz/opaque.npz")});
  EXPECT_EQ(run.exit_code, 0);
  EXPECT_THAT(run.out, HasSubstr("no statistics for this type"));
  EXPECT_EQ(json_at(run_ballast({"stats", test_file_path("npz/opaque.npz"), "--json"}).out, "tensors/0/measured"),
            "false");
}

TEST(Stats, NothingToMeasure) {
  const TempFolder folder;
  const ProgramRun run = run_ballast({"stats", write_odd_values(folder), "--only", "nothing"});
  EXPECT_EQ(run.exit_code, 2);
  EXPECT_THAT(run.err, HasSubstr("--only matches no tensor"));
  EXPECT_EQ(run_ballast({"stats", write_plan(folder, "none", WritePlan())}).out, "no tensors\n");
}

TEST(Stats, AreTheSameForAnyNumberOfThreads) {
  const std::string path = test_file_path("gptrs/gpt_base/model.gptrs");
  const std::string one = run_ballast({"stats", path, "--json", "--threads", "1"}).out;
  EXPECT_EQ(one, run_ballast({"stats", path, "--json", "--threads", "4"}).out);
  EXPECT_THAT(one, HasSubstr("\"total\""));
}

}  // namespace
}  // namespace ballast::testing
