#include <gmock/gmock.h>

#include "ballast/archive/open.h"
#include "tests/apps/ballast_program.h"
#include "tests/support/json_path.h"
#include "tests/support/recorded_models.h"

namespace ballast::testing {
namespace {

using ::testing::HasSubstr;

ProgramRun trace(std::vector<std::string> arguments) {
  arguments.insert(arguments.begin(), "trace");
  return run_ballast(arguments);
}

TEST(Trace, ShowsEveryOperationInOrder) {
  const ProgramRun run = trace({recorded_model_path("gpt_micro"), "--tokens", "1,2,3", "--json"});
  EXPECT_EQ(run.exit_code, 0) << run.err;
  EXPECT_EQ(json_at(run.out, "steps/0/name"), "\"tok_embeddings\"");
  EXPECT_EQ(json_at(run.out, "steps/0/functional"), "\"embedding_lookup\"");
  EXPECT_EQ(json_at(run.out, "steps/0/shape"), "[3,8]");
  const ProgramRun text = trace({recorded_model_path("gpt_micro"), "--tokens", "1,2,3"});
  EXPECT_THAT(text.out, HasSubstr("blocks.1.attention.context"));
  EXPECT_THAT(text.out, HasSubstr("logits"));
}

TEST(Trace, TwoTracesPartWhereTheModelsDo) {
  const TempFolder folder;
  const std::string changed = write_changed_model(folder, "gpt_micro", [](WritePlan& plan) {
    const size_t index = tensor_index(plan, "blocks.1.ln_1.gamma");
    plan.providers[index] = [size = plan.description.tensors[index].byte_size](ByteSink& sink) {
      return sink.write_zeros(size);
    };
  });
  const std::string a = folder.path("a.gten"), b = folder.path("b.gten");
  EXPECT_EQ(trace({recorded_model_path("gpt_micro"), "--tokens", "1,2", "--out", a}).exit_code, 0);
  EXPECT_EQ(trace({changed, "--tokens", "1,2", "--out", b}).exit_code, 0);
  const ProgramRun diff = run_ballast({"diff", a, b});
  EXPECT_EQ(diff.exit_code, 1);
  EXPECT_THAT(diff.out, HasSubstr("blocks.1.ln_1"));
  EXPECT_THAT(diff.out, ::testing::Not(HasSubstr("blocks.0")));
}

TEST(Trace, OfAMinistralHoldsTheActivationsOfGptRs) {
  const TempFolder folder;
  const std::string path = folder.path("trace.gten");
  ASSERT_EQ(trace({recorded_model_path("ministral_yarn"), "--tokens", "1,22,300,4,4", "--out", path}).exit_code, 0);
  const auto archive = open_archive(path);
  ASSERT_TRUE(archive);
  EXPECT_TRUE(archive->find("blocks.1.attention.qkv_rope"));
  EXPECT_TRUE(archive->find("final_norm"));
}

}  // namespace
}  // namespace ballast::testing
