#include <gtest/gtest.h>

#include "ballast/nn/sequential.h"
#include "ballast/training/model_ema.h"
#include "tests/support/recorded_netcl.h"
#include "tests/support/temp_folder.h"

namespace ballast {
namespace {

const std::string kTrace = "ModelEMA(decay=0.9), every parameter += 0.125 before each update";

std::unique_ptr<nn::Sequential> recorded_model(const std::string& traces) {
  auto model =
      std::move(*nn::build_sequential(R"([{"type": "Linear", "args": {"in_features": 2, "out_features": 2}}])"));
  for (size_t i = 0; i < 2; ++i) {
    const auto start = testing::recorded_array(traces, kTrace + "/start/" + std::to_string(i));
    std::ranges::copy(start.values, model->memory().values<float>(i).begin());
  }
  return model;
}

std::unique_ptr<ModelEma> average_of(nn::Sequential& model, const ModelEmaConfig& config) {
  return std::move(*ModelEma::make(config, model.memory(), {model.parameters().begin(), model.parameters().end()}));
}

void shift(nn::Sequential& model) {
  for (size_t i = 0; i < 2; ++i) {
    for (float& value : model.memory().values<float>(i)) value += 0.125F;
  }
}

TEST(ModelEma, FollowsNetclStepByStep) {
  const std::string traces = testing::read_text_file(testing::netcl_path("traces.json"));
  const auto model = recorded_model(traces);
  const auto average = average_of(*model, {.decay = 0.9});
  for (int step = 0; step < 15; ++step) {
    shift(*model);
    ASSERT_TRUE(average->update());
    for (size_t i = 0; i < 2; ++i) {
      const auto expected =
          testing::recorded_array(traces, kTrace + "/trace/" + std::to_string(step) + "/shadow/" + std::to_string(i));
      for (size_t j = 0; j < expected.values.size(); ++j) {
        EXPECT_NEAR(average->shadow(i)[j], expected.values[j], 2.5e-7) << step;
      }
    }
  }
}

TEST(ModelEma, GoesOnFromItsJsonAndFromItsTensors) {
  const std::string traces = testing::read_text_file(testing::netcl_path("traces.json"));
  const auto model = recorded_model(traces);
  const auto whole = average_of(*model, {.decay = 0.9}), from_json = average_of(*model, {}),
             from_tensors = average_of(*model, {});
  for (int i = 0; i < 3; ++i) {
    shift(*model);
    ASSERT_TRUE(whole->update());
  }
  const auto loaded = from_json->load_state_dict(whole->state_dict());
  ASSERT_TRUE(loaded) << loaded.error().message;
  ASSERT_TRUE(from_tensors->load_scalars(whole->scalars_json()));
  const auto source = whole->state_tensors(), target = from_tensors->state_tensors();
  EXPECT_EQ(source[0].info.name, "ema.0.weight");
  for (size_t i = 0; i < source.size(); ++i) std::ranges::copy(source[i].bytes, target[i].bytes.begin());
  shift(*model);
  for (ModelEma* average : {whole.get(), from_json.get(), from_tensors.get()}) ASSERT_TRUE(average->update());
  EXPECT_EQ(from_json->state_dict(), whole->state_dict());
  EXPECT_EQ(from_tensors->state_dict(), whole->state_dict());
  EXPECT_FALSE(from_json->load_state_dict(R"({"decay": 0.9, "warmup": true, "step_count": 1, "shadow": [[1]]})"));
}

TEST(ModelEma, ChangesPlacesWithTheParametersAndBack) {
  const std::string traces = testing::read_text_file(testing::netcl_path("traces.json"));
  const auto model = recorded_model(traces);
  const auto average = average_of(*model, {.decay = 0.5, .warmup = false});
  const float before = model->memory().values<float>(0)[0];
  model->memory().values<float>(0)[0] = before + 1;
  ASSERT_TRUE(average->update());
  ASSERT_TRUE(average->swap());
  EXPECT_NEAR(model->memory().values<float>(0)[0], before + 0.5, 1e-6);
  ASSERT_TRUE(average->swap());
  EXPECT_EQ(model->memory().values<float>(0)[0], before + 1);
}

}  // namespace
}  // namespace ballast
