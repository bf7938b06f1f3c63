#include "apps/ballast/output/remedy_text.h"

#include <gmock/gmock.h>

#include <set>

#include "tests/apps/ballast_program.h"
#include "tests/support/json_path.h"

namespace ballast::testing {
namespace {

using ::testing::AllOf;
using ::testing::ContainsRegex;
using ::testing::EndsWith;
using ::testing::HasSubstr;

TEST(RemedyText, NamesAFlagForEveryRemedy) {
  std::set<std::string> texts;
  for (unsigned i = 0; i <= static_cast<unsigned>(kLastRemedy); ++i) {
    const std::string text = cli::remedy_text(static_cast<Remedy>(i));
    EXPECT_THAT(text, ContainsRegex("--[a-z]"));
    texts.insert(text);
  }
  EXPECT_EQ(texts.size(), static_cast<size_t>(kLastRemedy) + 1);
  EXPECT_EQ(cli::remedy_text({}), "");
}

TEST(RemedyText, FollowsTheMessage) {
  EXPECT_EQ(cli::error_text(make_error(ErrorCode::kExists, "x: exists", Remedy::kAllowOverwrite)),
            "x: exists; --overwrite replaces it");
  EXPECT_EQ(cli::error_text(make_error(ErrorCode::kExists, "x: is locked")), "x: is locked");
  EXPECT_EQ(cli::error_text(make_error(ErrorCode::kUnknownFormat, "x: what?")),
            "x: what? (`ballast doctor` examines such files)");
}

// Half types and quantised ones in one file: both flags are named, each once.
TEST(RemedyText, OfSeveralLossesIsToldOnce) {
  const TempFolder folder;
  WritePlan plan;
  const ByteVector half(2), block(34);  // the plan keeps spans
  for (const char* name : {"a", "b"}) plan.add_tensor(make_info(name, DType::kF16, {1}), half);
  plan.add_tensor(make_info("c", DType::kQ8_0, {32}), block);
  plan.description.metadata.push_back({"general.architecture", std::string("none")});
  const std::string source = write_plan(folder, "mixed.gguf", plan, "gguf");
  const ProgramRun run = run_ballast(
      {"convert", source, folder.path("out.gptrs-tensors"), "--to", "gptrs-tensors", "--container-only", "--json"});
  EXPECT_EQ(run.exit_code, 2);
  EXPECT_THAT(run.err, AllOf(HasSubstr("tensor \"b\""), HasSubstr("--dequantize TYPE"), HasSubstr("--allow-half")));
  EXPECT_EQ(run.err.find("--allow-half"), run.err.rfind("--allow-half"));
  EXPECT_THAT(json_at(run.out, "error/message"), HasSubstr("--allow-half"));
}

}  // namespace
}  // namespace ballast::testing
