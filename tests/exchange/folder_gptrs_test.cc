// gpt.rs checkpoints as Hugging Face folders.
#include "ballast/exchange/folder_gptrs.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>

#include "ballast/device/host_access.h"
#include "ballast/text/load_tokenizer.h"
#include "ballast/text/tokenizer.h"
#include "tests/support/newer_gptrs.h"
#include "tests/support/recorded_models.h"
#include "tests/support/test_files.h"
#include "tests/support/written_folder.h"

namespace ballast::testing {
namespace {

using ::testing::HasSubstr;

// Matrices are transposed on the way, and each product sums in its own order.
constexpr double kGptrsTolerance = 1e-4;

TEST(FolderOfGptrs, GivesTheRecordedLogits) {
  size_t compared = 0;
  for (const RecordedForward& forward : recorded_forwards()) {
    if (forward.model.find("gpt") != 0 && forward.model.find("ministral") != 0) continue;
    const TempFolder folder;
    const Status written = write_as_folder(recorded_model_path(forward.model), folder.path("out"));
    ASSERT_TRUE(written) << forward.model << ": " << written.error().message;
    const auto model = load_or_die(folder.path("out"));
    const auto logits = model->forward(TokenInput{forward.tokens});
    ASSERT_TRUE(logits) << logits.error().message;
    EXPECT_LE(largest_difference(*logits, recorded_tensor(forward.model + "/" + forward.file, "logits")),
              kGptrsTolerance)
        << forward.model;
    ++compared;
  }
  EXPECT_GE(compared, 3U);
}

// Later generations keep transformers' configs and names; a GPT has names of its own.
TEST(FolderOfGptrs, OfALaterGenerationComputesWhatItsFolderComputed) {
  for (const auto& [name, kind] :
       {std::pair("ministral3", "ministral"), {"llama_bf16", "ministral"}, {"gpt2", "gpt"}}) {
    const TempFolder folder;
    const std::string original = test_file_path(std::string("hf/") + name);
    const std::string source = folder.write("model.gptrs", newer_gptrs_of(original, kind));
    const Status written = write_as_folder(source, folder.path("out"));
    ASSERT_TRUE(written) << name << ": " << written.error().message;
    const auto model = load_or_die(folder.path("out")), before = load_or_die(original);
    const auto got = model->forward(TokenInput{{1, 2, 3, 4}}), expected = before->forward(TokenInput{{1, 2, 3, 4}});
    ASSERT_TRUE(got && expected);
    const RecordedTensor wanted{
        {expected->dims().span().begin(), expected->dims().span().end()},
        {host_data<const float>(*expected), host_data<const float>(*expected) + expected->count()}};
    EXPECT_EQ(largest_difference(*got, wanted), 0) << name;
    EXPECT_THAT(read_text_file(folder.path("out/generation_config.json")), HasSubstr("[2, 7]"));
  }
}

TEST(FolderOfGptrs, OfALaterGenerationNamesAModelThatItsConfigDoesNot) {
  const TempFolder folder;
  std::string bytes = newer_gptrs_of(test_file_path("hf/llama_plain"), "ministral");
  const std::string type = R"("model_type": "llama")";
  ASSERT_NE(bytes.find(type), std::string::npos);
  bytes.replace(bytes.find(type), type.size(), R"("model_tipe": "llama")");
  ASSERT_TRUE(write_as_folder(folder.write("model.gptrs", bytes), folder.path("out")));
  EXPECT_THAT(read_text_file(folder.path("out/config.json")), HasSubstr("LlamaForCausalLM"));
  EXPECT_EQ(load_or_die(folder.path("out"))->kind(), "decoder");
}

TEST(FolderOfGptrs, TakesTheTokenizerBesideItAlong) {
  const TempFolder folder;
  const std::string source = recorded_model_path("ministral_yarn");
  ASSERT_TRUE(write_as_folder(source, folder.path("out")));
  const auto tokenizer = load_tokenizer(folder.path("out/tokenizer.json"));
  ASSERT_TRUE(tokenizer) << tokenizer.error().message;
  const auto original = load_tokenizer(*find_tokenizer_beside(source));
  ASSERT_TRUE(original);
  for (const char* text : {"", "hello world", " a  b\n", "\u00e9\u4e2d 123"}) {
    EXPECT_EQ(*tokenizer->encode(text), *original->encode(text)) << text;
  }
}

TEST(FolderOfGptrs, MakesOneDocumentOfVocabularyAndMerges) {
  const std::string vocab = R"({"a": 0, "b": 1, "ab": 2, "<|endoftext|>": 3})", merges = "#version: 0.2\na b\n";
  const auto made = gptrs_tokenizer_json(vocab, &merges, "vocab.json");
  ASSERT_TRUE(made) << made.error().message;
  const TempFolder folder;
  const auto tokenizer = load_tokenizer(folder.write("tokenizer.json", *made));
  ASSERT_TRUE(tokenizer) << tokenizer.error().message;
  EXPECT_THAT(*tokenizer->encode("abab<|endoftext|>a"), ::testing::ElementsAre(2, 2, 3, 0));
}

TEST(FolderOfGptrs, LeavesADocumentAsItIsAndRefusesWhatIsNone) {
  const std::string document = R"({"model": {"type": "BPE", "vocab": {}, "merges": []}})";
  EXPECT_EQ(*gptrs_tokenizer_json(document, nullptr, "t"), document);
  const auto refused = gptrs_tokenizer_json(R"({"vocab": {}})", nullptr, "beside/tokenizer.json");
  ASSERT_FALSE(refused);
  EXPECT_THAT(refused.error().message, HasSubstr("beside/tokenizer.json"));
}

TEST(FolderOfGptrs, IsRefusedForModelsThatTransformersHasNoClassFor) {
  const TempFolder folder;
  const std::string source = write_rule_checkpoint(folder, "resnet34", 1);
  const Status refused = write_as_folder(source, folder.path("out"));
  ASSERT_FALSE(refused);
  EXPECT_THAT(refused.error().message, HasSubstr("no config.json"));
  EXPECT_FALSE(std::filesystem::exists(folder.path("out")));
}

}  // namespace
}  // namespace ballast::testing
