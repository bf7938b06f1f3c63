// netcl's files, and ours that hold the same, as models that run.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "ballast/archive/write.h"
#include "ballast/models/model.h"
#include "ballast/nn/netcl_io.h"
#include "ballast/runtime/load_model.h"
#include "tests/support/read_floats.h"
#include "tests/support/recorded_netcl.h"
#include "tests/support/temp_folder.h"
#include "tests/support/test_files.h"

namespace ballast {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using testing::netcl_path;

std::vector<float> output_of(LoadedModel& model, const testing::RecordedArray& x) {
  const auto y = model.forward(ValuesInput{*model.workspace().from(x.values, x.dims)});
  EXPECT_TRUE(y) << (y ? "" : y.error().message);
  return y ? testing::read_floats(*y) : std::vector<float>();
}

TEST(SequentialModel, RunsNetclsFilesAndPairs) {
  for (const char* name : {"mlp_basic", "cnn_all_layers", "old_0_1_3", "old_0_2_7"}) {
    const bool pair = std::string_view(name) == "old_0_1_3";
    const auto model = load_model(netcl_path(pair ? name : std::string(name) + ".netcl"), {.threads = 2});
    ASSERT_TRUE(model) << model.error().message;
    EXPECT_EQ((*model)->kind(), "sequential");
    const std::string expected = testing::netcl_expectation(name);
    const auto y = output_of(**model, testing::recorded_array(expected, "input"));
    const auto recorded = testing::recorded_array(expected, "output_eval");
    ASSERT_EQ(y.size(), recorded.values.size()) << name;
    for (size_t i = 0; i < y.size(); ++i) EXPECT_NEAR(y[i], recorded.values[i], 1e-6) << name;
  }
}

TEST(SequentialModel, RunsWithinABudgetOfMemory) {
  const std::string expected = testing::netcl_expectation("cnn_all_layers");
  const auto whole = load_model(netcl_path("cnn_all_layers.netcl"), {.threads = 1});
  const auto part = load_model(netcl_path("cnn_all_layers.netcl"), {.threads = 1, .param_budget_fraction = 0.9});
  ASSERT_TRUE(whole && part);
  const auto x = testing::recorded_array(expected, "input");
  EXPECT_EQ(output_of(**whole, x), output_of(**part, x));
}

TEST(SequentialModel, KnowsTheImagesThatItTakes) {
  const auto cnn = load_model(netcl_path("train_cnn_init.netcl"));
  ASSERT_TRUE(cnn) << cnn.error().message;
  const ImageClassifier* classifier = (*cnn)->as_image_classifier();
  ASSERT_NE(classifier, nullptr);
  const auto x = testing::archive_array(netcl_path("train_cnn_data.npz"), "x");
  EXPECT_EQ(classifier->channels(), x.dims[1]);
  EXPECT_EQ(classifier->image_size(), x.dims[2]);
  const auto y = (*cnn)->forward(ImageInput{*(*cnn)->workspace().from(x.values, x.dims)});
  ASSERT_TRUE(y) << y.error().message;
  EXPECT_EQ(y->dims().back(), classifier->classes());
  const auto mlp = load_model(netcl_path("train_mlp_init.netcl"));  // of 8 values: no square image
  ASSERT_TRUE(mlp);
  EXPECT_EQ((*mlp)->as_image_classifier(), nullptr);
  EXPECT_THAT((*mlp)->capabilities(), ElementsAre("tensors of any shape"));
}

// Linear 2 -> 2 with the weights 1 2 3 4, then a LeakyReLU; written the way netcl does.
std::string write_netcl(const testing::TempFolder& folder, const std::string& slope, DType dtype) {
  WritePlan plan;
  plan.description.format = "netcl";
  plan.description.config = ModelConfig{
      "netcl", R"({"type": "Sequential", "config": [{"type": "Linear", "args": {"in_features": 2, "out_features": 2, )"
               R"("bias": false}}, {"type": "LeakyReLU", "args": {"negative_slope": )" +
                   slope + R"(}}], "version": 2, "format": "netcl.single-file"})"};
  static const std::vector<double> wide = {1, 2, 3, 4};
  static const std::vector<float> narrow = {1, 2, 3, 4};
  plan.add_tensor(testing::make_info("0:weight", dtype, {2, 2}),
                  dtype == DType::kF64 ? std::as_bytes(std::span(wide)) : std::as_bytes(std::span(narrow)));
  const std::string path = folder.path("model.netcl");
  WriteSettings settings;
  settings.commit.overwrite = true;
  EXPECT_TRUE(write_archive(path, *find_format("netcl"), plan, settings));
  return path;
}

TEST(SequentialModel, RunsAndSavesLayersWhoseArgumentsAreNotFinite) {
  const testing::TempFolder folder;
  for (const std::string slope : {"NaN", "Infinity", "-Infinity"}) {
    const std::string path = write_netcl(folder, slope, DType::kF32);
    const auto model = load_model(path);
    ASSERT_TRUE(model) << model.error().message;
    EXPECT_THAT(output_of(**model, {{1, 1}, {1, 2}}), ElementsAre(4, 6)) << slope;
    const auto layers = netcl::load_model(path);
    ASSERT_TRUE(layers) << layers.error().message;
    EXPECT_THAT(layers->model->config_json(), HasSubstr("\"negative_slope\": " + slope + "}"));
    ASSERT_TRUE(netcl::save_model(*layers->model, folder.path("again.netcl")));
    EXPECT_EQ(testing::read_text_file(folder.path("again.netcl")), testing::read_text_file(path)) << slope;
  }
}

TEST(SequentialModel, ComputesWeightsOfDoublePrecisionInSinglePrecisionAndSaysSo) {
  const testing::TempFolder folder;
  const std::string path = write_netcl(folder, "0.5", DType::kF64);
  for (const LoadOptions& options : {LoadOptions{}, LoadOptions{.param_budget = 1 << 20}}) {
    const auto model = load_model(path, options);
    ASSERT_TRUE(model) << model.error().message;
    EXPECT_EQ((*model)->report().narrowed, 1U);
    EXPECT_THAT(output_of(**model, {{1, -1}, {1, 2}}), ElementsAre(-1, -1));
  }
  const auto layers = netcl::load_model(path);
  ASSERT_TRUE(layers) << layers.error().message;
  EXPECT_THAT(layers->report.warnings, ElementsAre(HasSubstr("is f64")));
  const auto y = layers->model->run(*layers->model->execution()->from_host(std::vector<float>{1, -1}, {1, 2}));
  ASSERT_TRUE(y) << y.error().message;
  EXPECT_THAT(*Execution::to_host(*y), ElementsAre(-1, -1));
}

TEST(SequentialModel, RunsLayersThatOnlySafetensorsHold) {
  const testing::TempFolder folder;
  const auto made = nn::build_sequential(R"([{"type": "Embedding", "args": {"num_embeddings": 7, "embedding_dim": 8}},
    {"type": "TransformerBlock", "args": {"d_model": 8, "num_heads": 2}},
    {"type": "Sequential", "args": {"layers": [{"type": "RMSNorm", "args": {"dim": 8}}, {"type": "GELU"}]}}])",
                                         {.seed = 4});
  ASSERT_TRUE(made) << made.error().message;
  ASSERT_TRUE(nn::save_safetensors(**made, folder.path("m.safetensors")));
  const auto model = load_model(folder.path("m.safetensors"));
  ASSERT_TRUE(model) << model.error().message;
  const auto y = (*model)->forward(TokenInput{{1, 2, 3}});
  ASSERT_TRUE(y) << y.error().message;
  EXPECT_EQ(y->dims(), (Dims{1, 3, 8}));
  const auto device = *Execution::open();
  (*made)->to(device);
  const auto direct = (*made)->run(*device->from_host(std::vector<uint32_t>{1, 2, 3}, {1, 3}));
  ASSERT_TRUE(direct);
  EXPECT_EQ(*Execution::to_host(*direct), *Execution::to_host(*y));
}

TEST(SequentialModel, NeverRunsWithTensorsThatAreNotThere) {
  const testing::TempFolder folder;
  const auto loaded = netcl::load_model(netcl_path("mlp_basic.netcl"));
  ASSERT_TRUE(loaded);
  const auto broken = load_model(netcl_path("mlp_basic.netcl"),
                                 {.config_text = R"({"kind": "sequential", "config": {"separator": ":", "layers": [
    {"type": "Linear", "args": {"in_features": 3, "out_features": 3}}]}})"});
  ASSERT_FALSE(broken);
  EXPECT_THAT(broken.error().message, HasSubstr("0:weight"));
}

}  // namespace
}  // namespace ballast
