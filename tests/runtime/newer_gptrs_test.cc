// Checkpoints of gpt.rs's later generations: payloads at multiples of 64 bytes, half types, Hugging Face's configs,
// names and layouts.
#include "tests/support/newer_gptrs.h"

#include <gmock/gmock.h>

#include "ballast/archive/convert.h"
#include "ballast/archive/open.h"
#include "ballast/archive/verify.h"
#include "ballast/runtime/load_model.h"
#include "tests/support/read_floats.h"
#include "tests/support/recorded_decoders.h"
#include "tests/support/temp_folder.h"
#include "tests/support/test_files.h"

namespace ballast {
namespace {

using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::Field;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using testing::newer_gptrs_of;
using testing::TempFolder;
using testing::test_file_path;

std::vector<float> newer_logits(const std::string& path) {
  const auto model = load_model(path);
  EXPECT_TRUE(model) << (model ? "" : model.error().message);
  if (!model) return {};
  const auto output = (*model)->forward(TokenInput{{1, 2, 3, 4}});
  EXPECT_TRUE(output) << (output ? "" : output.error().message);
  return output ? testing::read_floats(*output) : std::vector<float>();
}

std::string hf(const std::string& name) { return test_file_path("hf/" + name); }

TEST(NewerGptRs, AMinistralComputesWhatItsFolderComputes) {
  const TempFolder folder;
  for (const char* name : {"ministral3", "llama_bf16", "smollm2"}) {
    const std::string path = folder.write("model.gptrs", newer_gptrs_of(hf(name), "ministral"));
    const std::vector<float> logits = newer_logits(path);
    EXPECT_FALSE(logits.empty());
    EXPECT_EQ(logits, newer_logits(hf(name))) << name;
  }
}

TEST(NewerGptRs, AGptUnderTheNamesOfLlamaComputesWhatGpt2Computes) {
  const TempFolder folder;
  const std::string path = folder.write("model.gptrs", newer_gptrs_of(hf("gpt2"), "gpt"));
  const std::vector<float> logits = newer_logits(path), expected = newer_logits(hf("gpt2"));
  ASSERT_EQ(logits.size(), expected.size());
  for (size_t i = 0; i < logits.size(); ++i) EXPECT_NEAR(logits[i], expected[i], 1e-5) << i;
}

// gpt.rs's own writer keeps only the keys that its models read.
TEST(NewerGptRs, AConfigOfTheKeysThatGptRsReadsIsEnough) {
  const TempFolder folder;
  std::string bytes = newer_gptrs_of(hf("llama_plain"), "ministral");
  const std::string type = R"("model_type": "llama")";
  const size_t at = bytes.find(type);
  ASSERT_NE(at, std::string::npos);
  bytes.replace(at, type.size(), R"("model_tipe": "llama")");
  const std::string path = folder.write("model.gptrs", bytes);
  EXPECT_EQ(newer_logits(path), newer_logits(hf("llama_plain")));
}

TEST(NewerGptRs, TheConfigsEndTokensStopTheText) {
  const TempFolder folder;
  const auto model = load_model(folder.write("model.gptrs", newer_gptrs_of(hf("ministral3"), "ministral")));
  ASSERT_TRUE(model) << model.error().message;
  EXPECT_THAT((*model)->stop_tokens(), ElementsAre(2, 7));
}

TEST(NewerGptRs, IsSoundToVerify) {
  const TempFolder folder;
  const std::string path = folder.write("model.gptrs", newer_gptrs_of(hf("llama_bf16"), "ministral"));
  const auto report = verify_archive(path, {.level = VerifyLevel::kContent, .threads = 1, .progress = {}});
  ASSERT_TRUE(report) << report.error().message;
  EXPECT_TRUE(report->sound()) << (report->findings.empty() ? "" : report->findings.front().message);
}

TEST(NewerGptRs, PaddingThatIsNotZeroIsAHole) {
  const TempFolder folder;
  std::string bytes = newer_gptrs_of(hf("llama_bf16"), "ministral");
  const auto archive = open_archive(folder.write("model.gptrs", bytes));
  ASSERT_TRUE(archive);
  bytes[archive->extent(0).offset - 1] = 'x';
  const auto report = verify_archive(folder.write("changed.gptrs", bytes),
                                     {.level = VerifyLevel::kContent, .threads = 1, .progress = {}});
  ASSERT_TRUE(report);
  EXPECT_THAT(report->findings, Contains(Field(&Finding::code, "hole")));
}

TEST(NewerGptRs, WritingItAgainKeepsItsBytes) {
  const TempFolder folder;
  const std::string bytes = newer_gptrs_of(hf("llama_bf16"), "ministral");
  const std::string path = folder.write("model.gptrs", bytes);
  const auto archive = open_archive(path);
  ASSERT_TRUE(archive);
  const auto same = convert_archive(*archive, folder.path("same.gptrs"), *find_format("gptrs-checkpoint"), {});
  ASSERT_TRUE(same) << same.error().message;
  EXPECT_TRUE(testing::read_text_file(folder.path("same.gptrs")) == bytes);

  const auto there = convert_archive(*archive, folder.path("there.safetensors"), *find_format("safetensors"), {});
  ASSERT_TRUE(there) << there.error().message;
  const auto away = open_archive(folder.path("there.safetensors"));
  ASSERT_TRUE(away);
  const auto back = convert_archive(*away, folder.path("back.gptrs"), *find_format("gptrs-checkpoint"), {});
  ASSERT_TRUE(back) << back.error().message;
  EXPECT_TRUE(testing::read_text_file(folder.path("back.gptrs")) == bytes);
}

}  // namespace
}  // namespace ballast
