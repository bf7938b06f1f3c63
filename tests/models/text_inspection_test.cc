// What is seen inside of models is what they compute with.
#include "ballast/models/text_inspection.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cmath>
#include <map>

#include "ballast/device/host_values.h"
#include "tests/support/recorded_decoders.h"
#include "tests/support/recorded_models.h"
#include "tests/support/test_files.h"

namespace ballast::testing {
namespace {

class ContextSink final : public TraceSink {
 public:
  Status on_output(std::string_view name, std::string_view, const Tensor& output) override {
    outputs_.insert_or_assign(std::string(name), output);
    return {};
  }
  std::vector<float> at(const std::string& name) const { return *floats_of(outputs_.at(name)); }

 private:
  std::map<std::string, Tensor> outputs_;
};

// Weights of all heads times the values of theirs: what the attention of the layer gave, [t, heads * head size].
double distance_from(const std::vector<float>& given, const std::vector<float>& weights, const std::vector<float>& qkv,
                     const ops::AttentionConfig& config, size_t length) {
  const size_t width = qkv.size() / length, shared = config.q_heads / config.kv_heads;
  double largest = 0;
  for (size_t head = 0; head < config.q_heads; ++head) {
    const size_t values_at = (config.q_heads + config.kv_heads + head / shared) * config.head_dim;
    for (size_t row = 0; row < length; ++row) {
      for (size_t channel = 0; channel < config.head_dim; ++channel) {
        double sum = 0;
        for (size_t seen = 0; seen < length; ++seen) {
          sum +=
              double{weights[(head * length + row) * length + seen]} * double{qkv[seen * width + values_at + channel]};
        }
        const size_t at = (row * config.q_heads + head) * config.head_dim + channel;
        largest = std::max(largest, std::abs(sum - double{given[at]}));
      }
    }
  }
  return largest;
}

std::vector<std::string> inspected_names() {
  std::vector<std::string> names;
  for (const RecordedDecoder& decoder : recorded_decoders()) names.push_back(decoder.name);
  return names;
}

class TextInspectionOf : public ::testing::TestWithParam<std::string> {};
INSTANTIATE_TEST_SUITE_P(Every, TextInspectionOf, ::testing::ValuesIn(inspected_names()),
                         [](const auto& name) { return name.param; });

TEST_P(TextInspectionOf, WeightsOfHeadsAndStatesOfLayersGiveWhatTheModelGives) {
  const RecordedDecoder& recorded = recorded_decoder(GetParam());
  const auto model = load_or_die(recorded.path, {.backend = "cpu"});
  const CausalLm& writer = *model->as_causal_lm();
  const LayerViews* const views = writer.layer_views();
  ASSERT_NE(views, nullptr);
  const std::vector<TokenId>& ids = recorded.inputs.back().ids;
  ContextSink steps;
  model->context().trace = &steps;
  const auto logits = writer.forward_tokens(model->context(), ids, LogitRows::kAll);
  model->context().trace = nullptr;
  ASSERT_TRUE(logits) << logits.error().message;
  const auto found = inspect_text(writer, model->context(), ids);
  ASSERT_TRUE(found) << found.error().message;
  EXPECT_EQ(model->context().trace, nullptr);
  EXPECT_EQ(*floats_of(found->logits), *floats_of(*logits));
  ASSERT_EQ(found->layers.size(), views->layers());
  for (size_t i = 0; i < found->layers.size(); ++i) {
    const ops::AttentionConfig config = views->attention_of(i);
    const auto weights = attention_weights(config, found->layers[i].qkv);
    ASSERT_TRUE(weights) << weights.error().message;
    const auto given = steps.at(fmt::format("blocks.{}.attention.context", i));
    EXPECT_LE(distance_from(given, *weights, *floats_of(found->layers[i].qkv), config, ids.size()), 1e-5) << i;
  }
  const auto last = views->predict_from(model->context(), found->layers.back().states);
  ASSERT_TRUE(last) << last.error().message;
  EXPECT_EQ(*floats_of(*last), *floats_of(*logits));
}

TEST(LayeredModels, ShowWhatEachLayerGives) {
  const auto model = load_or_die(test_file_path("../../models/digits/digits.bpk"), {.backend = "cpu"});
  const LayeredModel* const layered = model->as_layered();
  ASSERT_NE(layered, nullptr);
  EXPECT_EQ(layered->input_shape(), (std::vector<uint64_t>{1, 8, 8}));
  std::vector<float> pixels(64);
  for (size_t i = 0; i < pixels.size(); ++i) pixels[i] = static_cast<float>(i % 7) / 7;
  const Tensor x = *model->workspace().from(pixels, {1, 1, 8, 8});
  std::vector<Tensor> shown;
  const auto y = layered->forward_watched(model->context(), x, [&](size_t layer, const Tensor& output) -> Status {
    EXPECT_EQ(layer, shown.size());
    shown.push_back(output);
    return {};
  });
  ASSERT_TRUE(y) << y.error().message;
  ASSERT_EQ(shown.size(), layered->layers().size());
  EXPECT_EQ(shown.front().dims(), (Dims{1, 16, 8, 8}));
  EXPECT_EQ(*floats_of(shown.back()), *floats_of(*y));
  EXPECT_EQ(*floats_of(*y), *floats_of(*model->forward(ValuesInput{x})));
  const auto stopped = layered->forward_watched(
      model->context(), x, [](size_t, const Tensor&) -> Status { return make_error(ErrorCode::kCancelled, "enough"); });
  ASSERT_FALSE(stopped);
  EXPECT_EQ(stopped.error().code, ErrorCode::kCancelled);
}

TEST(LayeredModels, TextModelsAreNone) {
  const auto model = load_or_die(recorded_decoders().front().path);
  EXPECT_EQ(model->as_layered(), nullptr);
}

}  // namespace
}  // namespace ballast::testing
