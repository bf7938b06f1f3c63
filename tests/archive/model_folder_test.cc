// Folders of Hugging Face: which files they are made of, and what their config becomes.
#include "ballast/archive/model_folder.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>

#include "ballast/archive/digest.h"
#include "ballast/archive/open.h"
#include "ballast/formats/tie.h"
#include "tests/support/temp_folder.h"
#include "tests/support/test_files.h"

namespace ballast {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using testing::read_text_file;
using testing::TempFolder;
using testing::test_file_path;

std::string recorded_folder(const std::string& name) { return test_file_path("hf/" + name); }

TEST(ModelFolder, WeightsAndConfigAreOneArchive) {
  const auto archive = open_archive(recorded_folder("llama_plain"));
  ASSERT_TRUE(archive) << archive.error().message;
  EXPECT_TRUE(archive->find("model.embed_tokens.weight"));
  ASSERT_TRUE(archive->description().config);
  EXPECT_EQ(archive->description().config->schema, kHuggingFaceSchema);
  EXPECT_EQ(archive->description().config->text, read_text_file(recorded_folder("llama_plain") + "/config.json"));
}

TEST(ModelFolder, ShardsAreFollowedByTheirIndex) {
  const auto archive = open_archive(recorded_folder("llama_sharded"));
  ASSERT_TRUE(archive) << archive.error().message;
  EXPECT_EQ(archive->sources().size(), 5U);
  EXPECT_TRUE(archive->find("model.layers.2.mlp.down_proj.weight"));
  EXPECT_TRUE(archive->description().config);
}

TEST(ModelFolder, PyTorchsFilesStandInForSafetensors) {
  const auto archive = open_archive(recorded_folder("smollm2_torch"));
  ASSERT_TRUE(archive) << archive.error().message;
  EXPECT_EQ(archive->description().format, "torch");
  ASSERT_TRUE(archive->description().config);
  const auto head = archive->find("lm_head.weight"), embedding = archive->find("model.embed_tokens.weight");
  ASSERT_TRUE(head && embedding);
  EXPECT_TRUE(share_payload(archive->extent(*head), archive->extent(*embedding)));

  const auto shards = open_archive(recorded_folder("llama_torch_sharded"));
  ASSERT_TRUE(shards) << shards.error().message;
  EXPECT_EQ(shards->description().format, "torch");
  EXPECT_EQ(shards->sources().size(), 2U);
  const auto same = open_archive(recorded_folder("llama_bf16"));
  ASSERT_TRUE(same);
  const auto found = digest_tensors(*shards), expected = digest_tensors(*same);
  ASSERT_TRUE(found && expected);
  EXPECT_EQ(archive_digest(shards->tensors(), *found), archive_digest(same->tensors(), *expected));
}

TEST(ModelFolder, SafetensorsComeBeforePyTorchsFiles) {
  const TempFolder folder;
  folder.write("config.json", R"({"model_type": "llama"})");
  folder.write("pytorch_model.bin", "no such thing");
  EXPECT_FALSE(open_archive(folder.path()));
  folder.write("model.safetensors", read_text_file(recorded_folder("smollm2") + "/model.safetensors"));
  const auto archive = open_archive(folder.path());
  ASSERT_TRUE(archive) << archive.error().message;
  EXPECT_EQ(archive->description().format, "safetensors");
}

// A folder without a model's config is what it was: its only archive, or its index.
TEST(ModelFolder, WithoutAConfigOtherFilesCount) {
  const TempFolder folder;
  const std::string weights = read_text_file(recorded_folder("smollm2") + "/model.safetensors");
  folder.write("other.safetensors", weights);
  const auto archive = open_archive(folder.path());
  ASSERT_TRUE(archive) << archive.error().message;
  EXPECT_FALSE(archive->description().config);
  folder.write("config.json", R"({"image_size": 3})");
  const auto same = open_archive(folder.path());
  ASSERT_TRUE(same) << same.error().message;
  EXPECT_FALSE(same->description().config) << "a config without a model_type";
}

TEST(ModelFolder, AConfigThatIsNoJsonIsNamed) {
  const TempFolder folder;
  folder.write("model.safetensors", read_text_file(recorded_folder("smollm2") + "/model.safetensors"));
  folder.write("config.json", R"({"model_type": "llama")");
  const auto archive = open_archive(folder.path());
  ASSERT_FALSE(archive);
  EXPECT_THAT(archive.error().message, HasSubstr("config.json"));
}

// What opening a folder says whose index names this file for model.norm.weight.
std::string error_of_index(const std::string& index, const std::string& file,
                           const std::map<std::string, std::string>& beside = {}) {
  const TempFolder folder;
  folder.write("config.json", R"({"model_type": "llama"})");
  folder.write(index, R"({"weight_map": {"model.norm.weight": ")" + file + R"("}})");
  for (const auto& [name, content] : beside) folder.write(name, content);
  const auto archive = open_archive(folder.path());
  return archive ? "opened" : archive.error().message;
}

class ModelFolderIndex : public ::testing::TestWithParam<std::string> {};
INSTANTIATE_TEST_SUITE_P(Every, ModelFolderIndex,
                         ::testing::Values("model.safetensors.index.json", "pytorch_model.bin.index.json"),
                         [](const auto& name) { return name.param.substr(0, name.param.find_first_of("._")); });

TEST_P(ModelFolderIndex, DoesNotLeadOutOfItsFolder) {
  for (const char* outside : {"../model.safetensors", "/etc/passwd", "sub/pytorch_model.bin", ".."}) {
    EXPECT_THAT(error_of_index(GetParam(), outside), AllOf(HasSubstr(outside), HasSubstr("outside its folder")));
  }
}

TEST_P(ModelFolderIndex, NamesWhatIsNotThere) {
  EXPECT_THAT(error_of_index(GetParam(), "a.bin"), AllOf(HasSubstr("a.bin"), HasSubstr("model.norm.weight")));
  for (const char* other : {"torch_files/files/pair.pt", "torch_files/files/pair.safetensors"}) {
    EXPECT_THAT(error_of_index(GetParam(), "a.bin", {{"a.bin", read_text_file(test_file_path(other))}}),
                AllOf(HasSubstr("model.norm.weight"), HasSubstr("different saves")));
  }
}

TEST_P(ModelFolderIndex, TakesOnlyFilesOfTensorsForShards) {
  EXPECT_THAT(error_of_index(GetParam(), GetParam()), HasSubstr("stand beside it")) << "an index in an index";
  const std::string gguf = "GGUF" + std::string(60, '\0');
  EXPECT_THAT(error_of_index(GetParam(), "a.bin", {{"a.bin", gguf}}), HasSubstr("is gguf"));
}

TEST(ModelFolder, GenerationSettingsAreFoundFromTheFolderAndFromItsFile) {
  for (const char* path : {"", "/model.safetensors"}) {
    const auto folder = read_model_folder(recorded_folder("llama_plain") + path);
    ASSERT_TRUE(folder) << folder.error().message;
    ASSERT_TRUE(folder->generation_config);
    EXPECT_THAT(*folder->generation_config, HasSubstr("127"));
  }
}

}  // namespace
}  // namespace ballast
