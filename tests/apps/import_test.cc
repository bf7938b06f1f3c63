#include <gmock/gmock.h>

#include "ballast/device/host_access.h"
#include "tests/apps/ballast_program.h"
#include "tests/support/json_path.h"
#include "tests/support/recorded_models.h"

namespace ballast::testing {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

// A recorded model as Hugging Face would have it: model.safetensors and config.json in a folder.
std::string write_huggingface(const TempFolder& folder, const std::string& model) {
  const ProgramRun run =
      run_ballast({"convert", recorded_model_path(model), folder.path("model.safetensors"), "--adapt",
                   "gptrs-to-huggingface", "--write-config", folder.path("config.json"), "--no-sync"});
  EXPECT_EQ(run.exit_code, 0) << run.err;
  return folder.path("model.safetensors");
}

TEST(Import, MakesACheckpointThatRunsAndSaysWhatBecameWhat) {
  const TempFolder folder;
  const std::string path = folder.path("gpt2.gptrs");
  const ProgramRun run = run_ballast({"import", test_file_path("huggingface/gpt2"), path});
  EXPECT_EQ(run.exit_code, 0) << run.err;
  EXPECT_THAT(run.out, AllOf(HasSubstr("as a gpt model"), HasSubstr("c_attn"), HasSubstr("attention.w_qkv")));
  const ProgramRun forward = run_ballast({"forward", path, "--tokens", "1,2,3"});
  EXPECT_EQ(forward.exit_code, 0) << forward.err;
}

TEST(Import, NamesTheGeluThatTheModelWasMadeWith) {
  const TempFolder folder;
  const std::string path = folder.path("gpt2.gptrs");
  const ProgramRun tanh = run_ballast({"import", test_file_path("huggingface/gpt2"), path, "--json"});
  EXPECT_EQ(json_at(tanh.out, "config/config/gelu"), "\"tanh\"") << tanh.err;  // gelu_new
  EXPECT_EQ(json_at(tanh.out, "adapted/kind"), "\"gpt\"");
}

// The other form is what gpt.rs computes, so its own models come back as they were.
TEST(Import, BringsBackWhatBallastWroteForHuggingFace) {
  const TempFolder folder;
  const std::string source = write_huggingface(folder, "gpt_base");
  const std::string path = folder.path("back.gptrs");
  const ProgramRun run = run_ballast({"import", source, path, "--json"});
  EXPECT_EQ(json_at(run.out, "config/config/gelu"), "") << run.err;
  const auto original = load_or_die(recorded_model_path("gpt_base"));
  const auto imported = load_or_die(path);
  const auto a = original->forward(TokenInput{{5, 17, 300}});
  const auto b = imported->forward(TokenInput{{5, 17, 300}});
  ASSERT_TRUE(a && b);
  EXPECT_TRUE(
      std::equal(host_data<const float>(*a), host_data<const float>(*a) + a->count(), host_data<const float>(*b)));
}

TEST(Import, OfAMinistralGivesTheSameLogits) {
  const TempFolder folder;
  const std::string source = write_huggingface(folder, "ministral_yarn");
  const std::string path = folder.path("back.gptrs");
  ASSERT_EQ(run_ballast({"import", source, path}).exit_code, 0);
  const auto model = load_or_die(path);
  const auto logits = model->forward(TokenInput{{9}});
  ASSERT_TRUE(logits) << logits.error().message;
  EXPECT_LE(largest_difference(*logits, recorded_tensor("ministral_yarn/forward_0.gptrsten", "logits")), 2e-5);
}

TEST(Import, RefusesTheNameOfAnotherFormat) {
  const TempFolder folder;
  for (const char* name : {"x.gguf", "x.safetensors", "x.netcl", "x.npz"}) {
    const ProgramRun run = run_ballast({"import", test_file_path("hf/llama_plain"), folder.path(name)});
    EXPECT_EQ(run.exit_code, 2);
    EXPECT_THAT(run.err, HasSubstr("import writes gpt.rs checkpoints (.gptrs)")) << name;
  }
  EXPECT_TRUE(folder.names().empty());
}

TEST(Import, SendsACheckpointOnToWhatRunsIt) {
  const TempFolder folder;
  const ProgramRun run = run_ballast({"import", recorded_model_path("gpt_micro"), folder.path("x.gptrs")});
  EXPECT_EQ(run.exit_code, 2);
  EXPECT_THAT(run.err, HasSubstr("`ballast generate`"));
}

TEST(Import, TellsWhatIsNoModelOfItsKinds) {
  const TempFolder folder;
  const std::string source = write_sample(folder);
  const ProgramRun run = run_ballast({"import", source, folder.path("x.gptrs")});
  EXPECT_EQ(run.exit_code, 2);
  EXPECT_THAT(folder.names(), Not(::testing::Contains("x.gptrs")));
}

}  // namespace
}  // namespace ballast::testing
