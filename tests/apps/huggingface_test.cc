#include <gmock/gmock.h>

#include <filesystem>

#include "ballast/archive/open.h"
#include "tests/apps/ballast_program.h"

namespace ballast::testing {
namespace {

using ::testing::HasSubstr;

std::string micro() { return test_file_path("gptrs/gpt_micro/model.gptrs"); }

TEST(HuggingFaceCommand, ModelsOfGptRsGoThereAndComeBackAsTheSameFile) {
  const TempFolder folder;
  for (const char* name : {"gpt_base/model.gptrs", "gpt_base/model_rust_saver.gptrs", "gpt_12layer/model.gptrs",
                           "gpt_micro/model.gptrs", "ministral_linear/model.gptrs", "ministral_yarn/model.gptrs"}) {
    const std::string source = test_file_path(std::string("gptrs/") + name);
    const std::string there = folder.path("there.safetensors");
    const std::string back = folder.path("back.gptrs");
    const ProgramRun to = run_ballast({"convert", source, there, "--adapt", "gptrs-to-huggingface", "--overwrite"});
    EXPECT_EQ(to.exit_code, 0) << to.err;
    const ProgramRun from = run_ballast({"convert", there, back, "--adapt", "huggingface-to-gptrs", "--overwrite"});
    EXPECT_EQ(from.exit_code, 0) << from.err;
    EXPECT_EQ(read_text_file(back), read_text_file(source)) << name;
  }
}

TEST(HuggingFaceCommand, WritesAConfigThatTheWayBackFindsBesideTheWeights) {
  const TempFolder folder;
  const std::string there = folder.path("model.safetensors");
  const ProgramRun to = run_ballast(
      {"convert", micro(), there, "--adapt", "gptrs-to-huggingface", "--write-config", folder.path("config.json")});
  EXPECT_EQ(to.exit_code, 0) << to.err;
  EXPECT_THAT(read_text_file(folder.path("config.json")), HasSubstr("\"model_type\": \"gpt2\""));
  // As another program would save it: without ballast.origin.
  const auto archive = open_archive(there);
  ASSERT_TRUE(archive) << archive.error().message;
  WritePlan plan = make_plan(*archive);
  plan.description.origin.reset();
  const std::string saved = write_plan(folder, "saved.safetensors", plan);
  const ProgramRun back = run_ballast({"convert", saved, folder.path("back.gptrs"), "--adapt", "huggingface-to-gptrs"});
  EXPECT_EQ(back.exit_code, 0) << back.err;
  EXPECT_THAT(back.out, HasSubstr("the model config is made from " + folder.path("config.json")));
  EXPECT_EQ(run_ballast({"diff", micro(), folder.path("back.gptrs")}).exit_code, 0);
  const auto config = [](const std::string& path) { return open_archive(path)->description().config->text; };
  EXPECT_EQ(config(folder.path("back.gptrs")), config(micro()));
}

TEST(HuggingFaceCommand, AGenuineFolderBecomesACheckpoint) {
  const TempFolder folder;
  const std::string model = test_file_path("huggingface/ministral3");
  const ProgramRun run = run_ballast({"convert", model, folder.path("model.gptrs"), "--adapt", "huggingface-to-gptrs"});
  EXPECT_EQ(run.exit_code, 0) << run.err;
  EXPECT_THAT(run.out, HasSubstr("recognised as ministral: 20 tensors become 17"));
  EXPECT_THAT(run.out, HasSubstr("the model config is made from " + model + "/config.json"));
  EXPECT_THAT(run_ballast({"inspect", folder.path("model.gptrs"), "--json"}).out, HasSubstr("\"num_kv_heads\":2"));
}

TEST(HuggingFaceCommand, TakesAConfigOfEitherForm) {
  const TempFolder folder;
  std::filesystem::copy_file(test_file_path("huggingface/gpt2/model.safetensors"), folder.path("model.safetensors"));
  const std::vector<std::string> convert = {"convert", folder.path("model.safetensors"), folder.path("model.gptrs"),
                                            "--adapt", "huggingface-to-gptrs",           "--overwrite"};
  const auto run_with = [&](const std::string& text) {
    std::vector<std::string> arguments = convert;
    arguments.insert(arguments.end(), {"--config", folder.write("my.json", text)});
    return run_ballast(arguments);
  };
  EXPECT_EQ(run_with(R"({"n_head": 4})").exit_code, 0);
  EXPECT_EQ(run_with(R"({"kind":"gpt","config":{"num_heads":4,"mine":1}})").exit_code, 0);
  EXPECT_THAT(run_ballast({"inspect", folder.path("model.gptrs"), "--json"}).out, HasSubstr("\"mine\":1"));
  const ProgramRun without = run_ballast(convert);
  EXPECT_EQ(without.exit_code, 2);
  EXPECT_THAT(without.err, HasSubstr("the tensors do not tell n_head, and there is no config.json"));
  const ProgramRun wrong = run_with(R"({"n_head": 4, "vocab_size": 50257})");
  EXPECT_EQ(wrong.exit_code, 2);
  EXPECT_THAT(wrong.err, HasSubstr("my.json: \"vocab_size\" is 50257, but the tensors have 128"));
}

TEST(HuggingFaceCommand, JsonSaysWhatWasMapped) {
  const TempFolder folder;
  const ProgramRun run = run_ballast(
      {"convert", micro(), folder.path("x.safetensors"), "--adapt", "gptrs-to-huggingface", "--dry-run", "--json"});
  EXPECT_EQ(run.exit_code, 0) << run.err;
  EXPECT_THAT(run.out, HasSubstr(R"("adapted":{"kind":"gpt","tied":false,"mapped":[{"gptrs":"tok_embeddings.weight",)"
                                 R"("huggingface":"transformer.wte.weight","change":"copied","tensors":1})"));
  EXPECT_THAT(run_ballast({"convert", micro(), folder.path("x.npz"), "--container-only", "--dry-run", "--json"}).out,
              HasSubstr("\"adapted\":null"));
  EXPECT_TRUE(folder.names().empty());
}

TEST(HuggingFaceCommand, RefusesAConfigFileThatExistsBeforeAnythingIsWritten) {
  const TempFolder folder;
  folder.write("config.json", "mine");
  const std::vector<std::string> arguments = {"convert",
                                              micro(),
                                              folder.path("x.safetensors"),
                                              "--adapt",
                                              "gptrs-to-huggingface",
                                              "--write-config",
                                              folder.path("config.json")};
  const ProgramRun run = run_ballast(arguments);
  EXPECT_EQ(run.exit_code, 2);
  EXPECT_EQ(read_text_file(folder.path("config.json")), "mine");
  EXPECT_THAT(folder.names(), ::testing::ElementsAre("config.json"));
  const ProgramRun alone = run_ballast({"convert", micro(), folder.path("x.npz"), "--write-config", "c.json"});
  EXPECT_EQ(alone.exit_code, 2);
  EXPECT_THAT(alone.err, HasSubstr("--write-config requires --adapt gptrs-to-huggingface"));
}

}  // namespace
}  // namespace ballast::testing
