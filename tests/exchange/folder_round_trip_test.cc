// Hugging Face folders that become GGUF files and folders again: the same model.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "ballast/archive/open.h"
#include "ballast/device/host_access.h"
#include "tests/support/recorded_bert.h"
#include "tests/support/recorded_decoders.h"
#include "tests/support/written_folder.h"

namespace ballast::testing {
namespace {

using ::testing::HasSubstr;
using ::testing::IsEmpty;

Status write_as_gguf(const std::string& source, const std::string& path) {
  BALLAST_TRY(const Archive archive, open_archive(source));
  BALLAST_TRY(const ExchangePlan plan, plan_gguf({source, archive}));
  ConvertOptions options;
  options.edits = plan.edits;
  BALLAST_CHECK(convert_archive(archive, path, *find_format("gguf"), options));
  return {};
}

class FolderRoundTrip : public ::testing::TestWithParam<RecordedDecoder> {};

INSTANTIATE_TEST_SUITE_P(Every, FolderRoundTrip, ::testing::ValuesIn(recorded_decoders()),
                         [](const auto& decoder) { return decoder.param.name; });

TEST_P(FolderRoundTrip, ThroughGgufKeepsTheLogits) {
  const TempFolder folder;
  const Status gguf = write_as_gguf(GetParam().path, folder.path("model.gguf"));
  if (!gguf) GTEST_SKIP() << gguf.error().message;  // which tests of plan_gguf look at
  const Status written = write_as_folder(folder.path("model.gguf"), folder.path("out"));
  ASSERT_TRUE(written) << written.error().message;
  const auto model = load_or_die(folder.path("out")), original = load_or_die(GetParam().path);
  EXPECT_THAT(model->report().unused, IsEmpty());
  for (const RecordedInput& input : GetParam().inputs) {
    const auto logits = model->forward(TokenInput{input.ids}), expected = original->forward(TokenInput{input.ids});
    ASSERT_TRUE(logits && expected);
    const RecordedTensor wanted{
        {expected->dims().span().begin(), expected->dims().span().end()},
        {host_data<const float>(*expected), host_data<const float>(*expected) + expected->count()}};
    EXPECT_EQ(largest_difference(*logits, wanted), 0) << input.ids.size() << " tokens";
  }
}

TEST(FolderRoundTripOfBert, ThroughGgufKeepsTheStates) {
  const TempFolder folder;
  const Status gguf = write_as_gguf(bert_path(), folder.path("model.gguf"));
  ASSERT_TRUE(gguf) << gguf.error().message;
  const Status written = write_as_folder(folder.path("model.gguf"), folder.path("out"));
  ASSERT_TRUE(written) << written.error().message;
  const auto model = load_or_die(folder.path("out"));
  EXPECT_EQ(model->kind(), "bert");
  for (const RecordedEncoding& input : recorded_encodings()) {
    if (input.states.empty()) continue;
    const auto states = model->forward(TokenInput{input.ids});
    ASSERT_TRUE(states) << states.error().message;
    EXPECT_LE(largest_difference(*states, bert_tensor(input.states)), 1e-4);
  }
}

}  // namespace
}  // namespace ballast::testing
