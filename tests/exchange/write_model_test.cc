// Models are converted in one call: what programs use that are not the command.
#include "ballast/exchange/write_model.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>

#include "ballast/archive/open.h"
#include "tests/support/temp_folder.h"
#include "tests/support/test_files.h"

namespace ballast::testing {
namespace {

using ::testing::AllOf;
using ::testing::Contains;
using ::testing::EndsWith;
using ::testing::HasSubstr;

std::string llama() { return test_file_path("gguf/tiny/tiny_llama.f32.gguf"); }

size_t count_of(const std::string& path, DType dtype) {
  const auto archive = open_archive(path);
  EXPECT_TRUE(archive) << archive.error().message;
  if (!archive) return 0;
  return static_cast<size_t>(std::ranges::count(archive->tensors(), dtype, &TensorInfo::dtype));
}

TEST(ConvertModel, MakesAFolderWithEverythingThatBelongsToTheModel) {
  const TempFolder folder;
  const auto report = convert_model(llama(), folder.path("out/"));
  ASSERT_TRUE(report) << report.error().message;
  EXPECT_EQ(report->target_format, "safetensors");
  EXPECT_THAT(report->written.files, AllOf(Contains(EndsWith("model.safetensors")), Contains(EndsWith("config.json")),
                                           Contains(EndsWith("tokenizer.json"))));
  for (const std::string& file : report->written.files) EXPECT_TRUE(std::filesystem::exists(file)) << file;
  const auto again = convert_model(llama(), folder.path("out/"));
  ASSERT_FALSE(again);
  EXPECT_EQ(again.error().code, ErrorCode::kExists);
}

TEST(ConvertModel, QuantisesAndDequantises) {
  const TempFolder folder;
  const std::string small = folder.path("small.gguf"), large = folder.path("large.gguf");
  const auto quantized = convert_model(llama(), small, {.quantize = "q8_0"});
  ASSERT_TRUE(quantized) << quantized.error().message;
  EXPECT_GT(count_of(small, DType::kQ8_0), 0U);
  const auto back = convert_model(small, large, {.dequantize = DType::kF16});
  ASSERT_TRUE(back) << back.error().message;
  EXPECT_EQ(count_of(large, DType::kQ8_0), 0U);
  EXPECT_GT(count_of(large, DType::kF16), 0U);
  EXPECT_FALSE(convert_model(llama(), folder.path("x.gguf"), {.quantize = "q99"}));
}

TEST(ConvertModel, RefusesToSelectTensorsThatGetOtherNames) {
  const TempFolder folder;
  ConvertModelOptions options;
  options.convert.only = {"attn"};
  const auto report = convert_model(llama(), folder.path("out/"), options);
  ASSERT_FALSE(report);
  EXPECT_THAT(report.error().message, HasSubstr("renames its tensors"));
  options.container_only = true;
  EXPECT_TRUE(convert_model(llama(), folder.path("some.gguf"), options));
}

TEST(ConvertModel, WritesNothingWhereTheModelWouldNotRun) {
  const TempFolder folder;
  const auto report = convert_model(test_file_path("gptrs/gpt_micro/model.gptrs"), folder.path("out.npz"));
  ASSERT_FALSE(report);
  EXPECT_EQ(report.error().code, ErrorCode::kUnsupported);
  EXPECT_THAT(report.error().message, HasSubstr("does not run as npz"));
  EXPECT_FALSE(std::filesystem::exists(folder.path("out.npz")));
}

TEST(ConvertModel, NamesTheFormatsWhereNoneIsChosen) {
  const TempFolder folder;
  EXPECT_THAT(convert_model(llama(), folder.path("out.what")).error().message, HasSubstr("safetensors"));
  EXPECT_THAT(convert_model(llama(), folder.path("out"), {.format = "what"}).error().message,
              HasSubstr("there is no format \"what\""));
}

}  // namespace
}  // namespace ballast::testing
