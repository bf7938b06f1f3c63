// A GGUF file of each family, made by llama.cpp's converter, against what transformers computed with the same weights.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "ballast/archive/convert.h"
#include "ballast/archive/open.h"
#include "ballast/archive/write.h"
#include "ballast/backends/backends.h"
#include "ballast/edit/quantize.h"
#include "tests/support/backends_to_test.h"
#include "tests/support/read_floats.h"
#include "tests/support/recorded_decoders.h"
#include "tests/support/test_files.h"

namespace ballast::testing {
namespace {

// As for the files that these were made from; a wrong epsilon shows from 6e-4 on.
constexpr double kFamilyTolerance = 1e-4;

class GgufFamilies : public ::testing::TestWithParam<RecordedGguf> {
 protected:
  RecordedDecoder recorded() const { return read_recorded_decoder(GetParam().recording); }
  std::unique_ptr<LoadedModel> load(const LoadOptions& options = {}) const {
    return load_or_die(GetParam().path, options);
  }
};

INSTANTIATE_TEST_SUITE_P(Every, GgufFamilies, ::testing::ValuesIn(recorded_ggufs()),
                         [](const auto& file) { return file.param.name; });

TEST_P(GgufFamilies, LogitsAreThoseOfTransformersOnEveryBackend) {
  const RecordedDecoder decoder = recorded();
  for (const Backend* backend : backends_to_test()) {
    const auto model = load({.backend = std::string(backend->name), .numerics = Numerics::kExact});
    EXPECT_THAT(model->report().unused, ::testing::IsEmpty());
    double largest = 0;
    for (const RecordedInput& input : decoder.inputs) {
      const auto logits = model->forward(TokenInput{input.ids});
      ASSERT_TRUE(logits) << logits.error().message;
      const double here = decoder.logit_distance(*logits, input);
      EXPECT_LE(here, kFamilyTolerance) << backend->name << ", " << input.ids.size() << " tokens";
      largest = std::max(largest, here);
    }
    RecordProperty("largest_" + std::string(backend->name), std::to_string(largest));
  }
}

TEST_P(GgufFamilies, GreedyTextsAreThoseOfTransformersWithAndWithoutACache) {
  expect_recorded_texts(*load(), recorded());
}

std::string convert_or_die(const std::string& path, const std::string& to, PlanEdit edit) {
  ConvertOptions options;
  options.edits.push_back(std::move(edit));
  const auto archive = open_archive(path);
  EXPECT_TRUE(archive) << path;
  if (!archive) return "";
  const auto report = convert_archive(*archive, to, *find_format("gguf"), options);
  EXPECT_TRUE(report) << (report ? "" : report.error().message);
  return to;
}

// Rows of stacked experts and of fused projections are found in blocks as they are in plain numbers.
TEST_P(GgufFamilies, QuantisedFilesSayWhatTheirUnpackedWeightsSay) {
  const TempFolder folder;
  const auto log = std::make_shared<QuantizationLog>();
  const std::string packed = convert_or_die(GetParam().path, folder.path("packed.gguf"),
                                            quantize_tensors({.type = DType::kQ8_0, .rules = {}}, log));
  if (std::ranges::all_of(log->tensors(), [](const TensorQuantization& tensor) { return tensor.from == tensor.to; })) {
    GTEST_SKIP() << "no row is a whole number of blocks";
  }
  const std::string plain = convert_or_die(packed, folder.path("plain.gguf"), dequantize_tensors(DType::kF32));
  const auto of_packed = load_or_die(packed, {.numerics = Numerics::kExact}), of_plain = load_or_die(plain);
  for (const RecordedInput& input : recorded().inputs) {
    const auto got = of_packed->forward(TokenInput{input.ids}), expected = of_plain->forward(TokenInput{input.ids});
    ASSERT_TRUE(got && expected);
    const RecordedTensor values{{expected->dims().span().begin(), expected->dims().span().end()},
                                read_floats(*expected)};
    EXPECT_LE(largest_difference(*got, values), kFamilyTolerance) << input.ids.size() << " tokens";
  }
}

// ---------------------------------------------------------------- the same models as other writers lay them out

std::string family_path(const std::string& name) { return test_file_path("gguf_models/" + name + "/model.gguf"); }

std::unique_ptr<LoadedModel> load_written(const TempFolder& folder, const WritePlan& plan) {
  const auto report = write_archive(folder.path("model.gguf"), *find_format("gguf"), plan, {});
  EXPECT_TRUE(report) << (report ? "" : report.error().message);
  return load_or_die(folder.path("model.gguf"), {.numerics = Numerics::kExact});
}

void expect_recorded_logits(LoadedModel& model, const RecordedDecoder& decoder) {
  EXPECT_THAT(model.report().unused, ::testing::IsEmpty());
  for (const RecordedInput& input : decoder.inputs) {
    const auto logits = model.forward(TokenInput{input.ids});
    ASSERT_TRUE(logits) << logits.error().message;
    EXPECT_LE(decoder.logit_distance(*logits, input), kFamilyTolerance);
  }
}

// "blk.0.ffn_up_exps.weight" becomes "blk.0.ffn_up.3.weight" and so on, as in the first files of Mixtral.
TEST(GgufLayouts, ExpertsMayHaveATensorEach) {
  const auto archive = open_archive(family_path("mixtral"));
  ASSERT_TRUE(archive);
  WritePlan plan;
  plan.description.metadata = archive->description().metadata;
  std::vector<Payload> payloads;
  for (size_t i = 0; i < archive->tensors().size(); ++i) {
    const TensorInfo& tensor = archive->tensors()[i];
    auto payload = archive->payload(i);
    ASSERT_TRUE(payload);
    payloads.push_back(std::move(*payload));
    const ByteSpan bytes = payloads.back().bytes();
    const size_t at = tensor.name.find("_exps.");
    if (at == std::string::npos) {
      plan.add_tensor(make_info(tensor.name, tensor.dtype, tensor.shape), bytes);
      continue;
    }
    const auto dims = tensor.shape.dims();
    const size_t each = bytes.size() / dims[0];
    for (size_t expert = 0; expert < dims[0]; ++expert) {
      const std::string name = tensor.name.substr(0, at) + "." + std::to_string(expert) + ".weight";
      plan.add_tensor(make_info(name, tensor.dtype, Shape({dims[1], dims[2]})), bytes.subspan(expert * each, each));
    }
  }
  const TempFolder folder;
  expect_recorded_logits(*load_written(folder, plan), read_recorded_decoder("hf/mixtral"));
}

// Stretched by 4: by 2 in the metadata and by 2 in the tensor that llama 3 has.
TEST(GgufLayouts, DivisorsOfRopeComeOnTopOfItsScale) {
  const auto archive = open_archive(family_path("llama_linear"));
  ASSERT_TRUE(archive);
  WritePlan plan = make_plan(*archive);
  const auto factor = std::ranges::find(plan.description.metadata, "llama.rope.scaling.factor", &MetaEntry::key);
  ASSERT_NE(factor, plan.description.metadata.end());
  factor->value = 2.0;
  const std::vector<float> divisors(4, 2.0F);
  plan.add_tensor(make_info("rope_freqs.weight", DType::kF32, Shape({divisors.size()})),
                  std::as_bytes(std::span(divisors)));
  const TempFolder folder;
  expect_recorded_logits(*load_written(folder, plan), read_recorded_decoder("gguf_models/llama_linear"));
}

}  // namespace
}  // namespace ballast::testing
