// Folders of Hugging Face through `ballast convert`: what stands beside the weights comes along, or is named.
#include <gmock/gmock.h>

#include <filesystem>

#include "tests/apps/ballast_program.h"
#include "tests/support/gguf_builder.h"
#include "tests/support/json_path.h"

namespace ballast::testing {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;

namespace fs = std::filesystem;

// A folder with all that a model may have beside its weights.
std::string make_source(const TempFolder& folder, const std::string& model) {
  const std::string path = folder.path("source");
  fs::copy(test_file_path("hf/" + model), path);
  for (const char* name : {"expected.json", "expected.safetensors"}) fs::remove(fs::path(path) / name);
  fs::copy_file(test_file_path("tokenizers/bpe_gpt2.json"), path + "/tokenizer.json");
  folder.write("source/tokenizer_config.json", R"({"eos_token": "x"})");
  folder.write("source/chat_template.jinja", "{{ messages[0].content }}");
  folder.write("source/notes.txt", "mine");
  return path;
}

std::vector<std::string> files_of(const std::string& path) {
  std::vector<std::string> names;
  for (const auto& entry : fs::directory_iterator(path)) names.push_back(entry.path().filename().string());
  std::ranges::sort(names);
  return names;
}

std::string text_of(const std::string& model) {
  const ProgramRun run = run_ballast({"generate", model, "--tokens", "1,2,3", "--greedy", "--max-tokens", "8"});
  EXPECT_EQ(run.exit_code, 0) << run.err;
  return run.out;
}

TEST(ConvertFolder, ToAFolderTakesWhatTheModelNeeds) {
  const TempFolder folder;
  const std::string source = make_source(folder, "llama_plain");
  const ProgramRun run = run_ballast({"convert", source, folder.path("out/")});
  EXPECT_EQ(run.exit_code, 0) << run.err;
  EXPECT_THAT(files_of(folder.path("out")),
              ElementsAre("chat_template.jinja", "config.json", "generation_config.json", "model.safetensors",
                          "tokenizer.json", "tokenizer_config.json"));
  EXPECT_THAT(run.out, AllOf(HasSubstr("out/config.json"), Not(HasSubstr("ballast-tmp")), Not(HasSubstr("origin"))));
  for (const char* name : {"config.json", "tokenizer.json", "model.safetensors"}) {
    EXPECT_EQ(read_text_file(folder.path("out/") + name), read_text_file(source + "/" + name)) << name;
  }
  EXPECT_EQ(text_of(folder.path("out")), text_of(source));
  EXPECT_THAT(folder.names(), ElementsAre("out", "source"));
}

TEST(ConvertFolder, OverwriteReplacesTheModelOfAFolderAndNothingElse) {
  const TempFolder folder;
  const std::string source = make_source(folder, "llama_plain");
  const std::string out = folder.path("out");
  EXPECT_EQ(run_ballast({"convert", source, out + "/", "--shard-size", "20000"}).exit_code, 0);
  folder.write("out/notes.txt", "mine");
  folder.write("out/special_tokens_map.json", "{}");
  const ProgramRun refused = run_ballast({"convert", source, out + "/"});
  EXPECT_EQ(refused.exit_code, 2);
  EXPECT_THAT(refused.err, HasSubstr("the folder is not empty"));
  const ProgramRun run = run_ballast({"convert", source, out + "/", "--overwrite"});
  EXPECT_EQ(run.exit_code, 0) << run.err;
  EXPECT_THAT(files_of(out), ElementsAre("chat_template.jinja", "config.json", "generation_config.json",
                                         "model.safetensors", "notes.txt", "tokenizer.json", "tokenizer_config.json"));
  EXPECT_EQ(read_text_file(out + "/notes.txt"), "mine");
  EXPECT_EQ(text_of(out), text_of(source));
  EXPECT_THAT(folder.names(), ElementsAre("out", "source"));
}

TEST(ConvertFolder, ShardsAndOtherTypesRunToo) {
  const TempFolder folder;
  const std::string source = make_source(folder, "smollm2_torch");
  const ProgramRun run = run_ballast({"convert", source, folder.path("out/"), "--shard-size", "100kB", "--json"});
  EXPECT_EQ(run.exit_code, 0) << run.err;
  EXPECT_EQ(json_at(run.out, "files/0"), "\"" + folder.path("out/model-00001-of-00002.safetensors") + "\"");
  EXPECT_THAT(run.out, HasSubstr("out/tokenizer_config.json"));
  EXPECT_EQ(text_of(folder.path("out")), text_of(source));
}

TEST(ConvertFolder, WhatAnEncoderNeedsIsAFolderDeeper) {
  const TempFolder folder;
  const std::string source = make_source(folder, "bert");
  folder.write("source/modules.json",
               R"([{"path": "", "type": "a.Transformer"}, {"path": "1_Pooling", "type": "a.Pooling"}])");
  fs::create_directory(source + "/1_Pooling");
  folder.write("source/1_Pooling/config.json",
               R"({"pooling_mode_cls_token": true, "pooling_mode_mean_tokens": false})");
  ASSERT_EQ(run_ballast({"convert", source, folder.path("out/")}).exit_code, 0);
  EXPECT_EQ(read_text_file(folder.path("out/1_Pooling/config.json")),
            read_text_file(source + "/1_Pooling/config.json"));
}

TEST(ConvertFolder, ToAFileThatCannotRunIsRefusedWithWhatWouldWork) {
  const TempFolder folder;
  const std::string source = make_source(folder, "llama_plain");
  for (const char* name : {"out.safetensors", "out.npz", "out.netcl", "out.bpk"}) {
    const ProgramRun run = run_ballast({"convert", source, folder.path(name)});
    EXPECT_EQ(run.exit_code, 2) << name;
    EXPECT_THAT(run.err, AllOf(HasSubstr("name a folder (ending in /)"), HasSubstr("--container-only")));
  }
  EXPECT_THAT(folder.names(), ElementsAre("source"));
}

TEST(ConvertFolder, ChoosingTensorsWhileNamesChangeIsRefused) {
  const TempFolder folder;
  const std::string source = make_source(folder, "llama_plain");
  const ProgramRun run = run_ballast({"convert", source, folder.path("out.gptrs"), "--only", "layers"});
  EXPECT_EQ(run.exit_code, 2);
  EXPECT_THAT(run.err, HasSubstr("cannot be selected or renamed in the same step"));
}

TEST(ConvertFolder, TheContainerAloneSaysWhatStaysBehind) {
  const TempFolder folder;
  const std::string source = make_source(folder, "llama_plain");
  for (const char* name : {"out.safetensors", "out.gguf"}) {
    const ProgramRun run = run_ballast({"convert", source, folder.path(name), "--container-only"});
    EXPECT_EQ(run.exit_code, 0) << run.err;
    EXPECT_THAT(run.out, HasSubstr("config.json, generation_config.json, tokenizer.json, tokenizer_config.json, "
                                   "chat_template.jinja stay in " +
                                   source));
  }
  const ProgramRun beside = run_ballast({"convert", source, source + "/half.safetensors", "--dtype", "bf16"});
  EXPECT_THAT(beside.out, Not(HasSubstr("stay in"))) << "they stand beside it";
}

TEST(ConvertFolder, AModelOfAnotherFormNeitherKeepsNorMentionsAnOrigin) {
  const TempFolder folder;
  const ProgramRun there =
      run_ballast({"convert", test_file_path("gguf/tiny/tiny_llama.f32.gguf"), folder.path("out/")});
  ASSERT_EQ(there.exit_code, 0) << there.err;
  const ProgramRun back = run_ballast({"convert", folder.path("out"), folder.path("back.gguf")});
  ASSERT_EQ(back.exit_code, 0) << back.err;
  for (const ProgramRun& run : {there, back}) EXPECT_THAT(run.out, Not(HasSubstr("origin")));
  for (const char* name : {"out/model.safetensors", "back.gguf"}) {
    EXPECT_EQ(read_text_file(folder.path(name)).find("ballast.origin"), std::string::npos) << name;
  }
}

TEST(ConvertFolder, ARefusalNamesTheSourceOnce) {
  const TempFolder folder;
  GgufBuilder file;
  file.pair("general.architecture", MetaType::kText, GgufBuilder::text("llama"));
  file.pair("tokenizer.ggml.model", MetaType::kText, GgufBuilder::text("rwkv"));
  file.pair("tokenizer.ggml.tokens", MetaType::kArray,
            GgufBuilder::number(static_cast<uint32_t>(MetaType::kText)) + GgufBuilder::number(uint64_t{1}) +
                GgufBuilder::text("a"));
  file.tensor("token_embd.weight", {2}, 0, std::string(8, '\0'));
  const std::string source = folder.write("model.gguf", file.build());
  const ProgramRun run = run_ballast({"convert", source, folder.path("out/")});
  EXPECT_EQ(run.exit_code, 2);
  EXPECT_THAT(run.err, HasSubstr(source));
  EXPECT_EQ(run.err.find(source), run.err.rfind(source)) << run.err;
}

TEST(ConvertFolder, ADryRunAndAFailureLeaveNothing) {
  const TempFolder folder;
  const std::string source = make_source(folder, "llama_plain");
  EXPECT_EQ(run_ballast({"convert", source, folder.path("out/"), "--dry-run"}).exit_code, 0);
  EXPECT_EQ(run_ballast({"convert", source, folder.path("out/"), "--only", "^nothing$"}).exit_code, 2);
  EXPECT_THAT(folder.names(), ElementsAre("source"));
}

}  // namespace
}  // namespace ballast::testing
