#include "ballast/edit/importance_file.h"

#include <gmock/gmock.h>

#include <cmath>
#include <limits>

#include "ballast/archive/open.h"
#include "tests/support/temp_folder.h"
#include "tests/support/test_files.h"

namespace ballast::testing {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

ImportanceMatrix sample() {
  ImportanceMatrix matrix;
  matrix["blk.0.ffn_up.weight"] = {.inputs = 3, .square_sums = {1, 2.5, 0}, .rows = {7}};
  matrix["blk.0.ffn_down_exps.weight"] = {.inputs = 2, .square_sums = {1, 2, 3, 4}, .rows = {5, 0}};
  return matrix;
}

TEST(ImportanceFile, ComesBackAsItWasWrittenAndIsLlamaCppsForm) {
  const TempFolder folder;
  const std::string path = folder.path("imatrix.gguf");
  ASSERT_TRUE(write_importance(path, sample(), {{"novel.txt"}, 512, 9}));
  const auto archive = open_archive(path);
  ASSERT_TRUE(archive) << archive.error().message;
  std::vector<std::string> names;
  for (const TensorInfo& tensor : archive->description().tensors)
    names.push_back(tensor.name + tensor.shape.to_string());
  EXPECT_THAT(names, ElementsAre("blk.0.ffn_down_exps.weight.in_sum2[2, 2]", "blk.0.ffn_down_exps.weight.counts[2, 1]",
                                 "blk.0.ffn_up.weight.in_sum2[1, 3]", "blk.0.ffn_up.weight.counts[1, 1]"));
  const std::vector<std::string_view> datasets = {"novel.txt"};
  EXPECT_THAT(archive->description().metadata, ElementsAre(MetaEntry{"general.type", std::string("imatrix")},
                                                           MetaEntry{"imatrix.datasets", MetaArray::of_texts(datasets)},
                                                           MetaEntry{"imatrix.chunk_count", uint64_t{9}},
                                                           MetaEntry{"imatrix.chunk_size", uint64_t{512}}));
  const auto back = read_importance(path);
  ASSERT_TRUE(back) << back.error().message;
  ASSERT_EQ(back->size(), 2U);
  const WeightImportance& experts = back->at("blk.0.ffn_down_exps.weight");
  EXPECT_EQ(experts.inputs, 2U);
  EXPECT_THAT(experts.square_sums, ElementsAre(1, 2, 3, 4));
  EXPECT_THAT(experts.rows, ElementsAre(5U, 0U));
}

std::string error_of(const std::string& path) {
  const auto read = read_importance(path);
  return read ? "" : read.error().message;
}

TEST(ImportanceFile, WhatIsNoneIsRefusedWithTheReason) {
  const TempFolder folder;
  const auto write = [&](const std::vector<std::pair<TensorInfo, std::vector<float>>>& tensors) {
    WritePlan plan;
    for (const auto& [info, values] : tensors) plan.add_tensor(info, std::as_bytes(std::span(values)));
    const std::string path = folder.path("x.gguf");
    WriteSettings settings;
    settings.commit.overwrite = true;
    EXPECT_TRUE(write_archive(path, *find_format("gguf"), plan, settings));
    return error_of(path);
  };
  const auto info = [](const std::string& name, Shape shape) { return make_info(name, DType::kF32, std::move(shape)); };
  EXPECT_THAT(write({{info("w", {2}), {1, 2}}}), HasSubstr("no tensor is called NAME.in_sum2"));
  EXPECT_THAT(write({{info("w.in_sum2", {1, 2}), {1, 2}}}), HasSubstr("it has no \"w.counts\""));
  EXPECT_THAT(write({{info("w.in_sum2", {1, 2}), {1, 2}}, {info("w.counts", {2}), {1, 2}}}), HasSubstr("has 2 counts"));
  const float nan = std::numeric_limits<float>::quiet_NaN();
  EXPECT_THAT(write({{info("w.in_sum2", {1, 2}), {1, nan}}, {info("w.counts", {1}), {1}}}),
              HasSubstr("element 1 is nan"));
  EXPECT_THAT(write({{info("w.in_sum2", {1, 2}), {1, -1}}, {info("w.counts", {1}), {1}}}),
              HasSubstr("element 1 is -1"));
}

TEST(ImportanceWeights, HaveMeanOneAndNoneVanishes) {
  const TensorInfo tensor = make_info("w", DType::kF32, {5, 4});
  const auto weights = importance_weights({.inputs = 4, .square_sums = {0, 1, 1, 2}, .rows = {1}}, tensor);
  ASSERT_TRUE(weights) << weights.error().message;
  EXPECT_THAT(*weights, ElementsAre(1e-4F, 1, 1, 2));
}

}  // namespace
}  // namespace ballast::testing
