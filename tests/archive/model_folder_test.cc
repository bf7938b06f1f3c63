// Folders of Hugging Face: which files they are made of, and what their config becomes.
#include "ballast/archive/model_folder.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "ballast/archive/open.h"
#include "tests/support/temp_folder.h"
#include "tests/support/test_files.h"

namespace ballast {
namespace {

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

TEST(ModelFolder, AnIndexDoesNotLeadOutOfIt) {
  const TempFolder folder;
  folder.write("config.json", R"({"model_type": "llama"})");
  for (const char* outside : {"../model.safetensors", "/etc/passwd", "sub/model.safetensors", ".."}) {
    folder.write("model.safetensors.index.json",
                 std::string(R"({"weight_map": {"model.norm.weight": ")") + outside + R"("}})");
    const auto archive = open_archive(folder.path());
    ASSERT_FALSE(archive) << outside;
    EXPECT_THAT(archive.error().message, HasSubstr(outside));
  }
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
