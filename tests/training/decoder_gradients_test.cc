// All decoders train the same way: the gradient of every parameter, over a batch of two texts, is the slope of the
// loss.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <numeric>

#include "ballast/archive/model_folder.h"
#include "ballast/archive/open.h"
#include "ballast/backends/execution.h"
#include "ballast/device/host_access.h"
#include "ballast/models/config/config_schema.h"
#include "ballast/models/config/model_config.h"
#include "ballast/models/model.h"
#include "ballast/ops/tape.h"
#include "ballast/params/trained_params.h"
#include "ballast/tensor/cast.h"
#include "tests/support/recorded_decoders.h"
#include "tests/support/test_files.h"

namespace ballast::testing {
namespace {

template <typename T>
T trained_or_die(Result<T> result) {
  if (result) return std::move(*result);
  ADD_FAILURE() << result.error().message;
  std::abort();
}

ModelDescription describe_file(const Archive& archive, const std::string& path) {
  auto config = runnable_config(archive.description());
  if (!config) config = trained_or_die(read_model_folder(path)).config;
  return trained_or_die(describe_model(*config, std::nullopt, path));
}

// A recorded model whose parameters are f32 values in memory.
class TrainedModel {
 public:
  explicit TrainedModel(const std::string& path) {
    const Archive archive = trained_or_die(open_archive(path));
    for (size_t i = 0; i < archive.tensors().size(); ++i) add(archive, i);
    store_ = trained_or_die(ParamStore::open(values_));
    const ModelDescription description = describe_file(archive, path);
    ParamLoader loader(*store_);
    for (const ModelKind& kind : all_model_kinds()) {
      if (kind.name == description.kind) model_ = trained_or_die(kind.build(description.config, loader));
    }
    for (const std::string& name : loader.taken()) {
      if (name.find("rope_f") == std::string::npos) params_.push_back(*store_->get(name));  // read once: no parameters
    }
    for (const Param& param : params_) gradients_.train(param);
  }

  const std::vector<Param>& params() const { return params_; }
  std::span<float> values(const Param& param) { return values_->values<float>(*values_->find(param.name())); }
  std::vector<float> gradient(const Param& param) const {
    const Tensor* found = gradients_.find(param);
    return found == nullptr
               ? std::vector<float>()
               : std::vector<float>(host_data<const float>(*found), host_data<const float>(*found) + found->count());
  }

  Result<double> loss(bool with_gradients) {
    Context& context = device_->context();
    tape_.reset();
    context.tape = with_gradients ? &tape_ : nullptr;
    const std::vector<uint32_t> ids{1, 7, 3, 12, 5, 9, 2, 11, 4, 1, 8, 6}, next{7, 3, 12, 5, 9, 2, 11, 4, 1, 8, 6, 3};
    BALLAST_TRY(const Tensor logits, model_->as_causal_lm()->forward_sequences(context, ids, 2));
    BALLAST_TRY(const Tensor loss, ops::cross_entropy(context, logits, next));
    if (with_gradients) BALLAST_CHECK(tape_.backward(context, loss));
    return static_cast<double>(host_data<const float>(loss)[0]);
  }

 private:
  void add(const Archive& archive, size_t index) {
    TensorInfo info;
    info.name = archive.tensors()[index].name;
    info.shape = archive.tensors()[index].shape;
    info.requires_grad = true;
    const size_t at = trained_or_die(values_->add(std::move(info)));
    const Payload payload = trained_or_die(archive.payload(index));
    const auto cast = cast_elements(archive.tensors()[index].dtype, payload.bytes(), DType::kF32, values_->bytes(at));
    ASSERT_TRUE(cast) << cast.error().message;
  }

  std::shared_ptr<Execution> device_ = *Execution::open("reference", 1);
  std::shared_ptr<TrainedParams> values_ = std::make_shared<TrainedParams>();
  std::unique_ptr<ParamStore> store_;
  std::unique_ptr<Model> model_;
  std::vector<Param> params_;
  ParamGradients gradients_{device_->workspace()};
  Tape tape_{gradients_};
};

double length_of(std::span<const float> values) {
  return std::sqrt(std::inner_product(values.begin(), values.end(), values.begin(), 0.0));
}

// The loss after a step of this length along the gradient.
double loss_after(TrainedModel& model, const Param& param, const std::vector<float>& gradient, double step) {
  const auto values = model.values(param);
  const std::vector<float> before(values.begin(), values.end());
  const double scale = step / length_of(gradient);
  for (size_t i = 0; i < values.size(); ++i) values[i] += static_cast<float>(scale * gradient[i]);
  const double loss = trained_or_die(model.loss(false));
  std::ranges::copy(before, values.begin());
  return loss;
}

// Along a gradient the loss rises by its length. Steps are so small that it is nearly a straight line there, and so
// large that the rise is far above the rounding of a loss in f32, some 1e-6.
void expect_slope(TrainedModel& model, const Param& param) {
  constexpr double kRise = 0.01;
  const std::vector<float> gradient = model.gradient(param);
  ASSERT_FALSE(gradient.empty()) << param.name() << " has no gradient";
  const double expected = length_of(gradient);
  const double step = std::min(kRise * std::max(1.0, length_of(model.values(param))), kRise / expected);
  const double rise = loss_after(model, param, gradient, step) - loss_after(model, param, gradient, -step);
  EXPECT_NEAR(rise / (2 * step), expected, 0.02 * expected + 2e-6 / step) << param.name();
}

using TrainedFile = std::pair<std::string, std::string>;  // name of the test, path

bool has_experts(const std::string& name) {
  return name.find("mixtral") != std::string::npos || name.find("moe") != std::string::npos;
}

std::vector<TrainedFile> trained_files() {
  std::vector<TrainedFile> files = {{"gptrs_gpt", recorded_model_path("gpt_base")},
                                    {"gptrs_ministral", recorded_model_path("ministral_yarn")}};
  for (const RecordedDecoder& decoder : recorded_decoders()) {
    if (!has_experts(decoder.name)) files.push_back({"hf_" + decoder.name, decoder.path});
  }
  for (const RecordedGguf& gguf : recorded_ggufs()) {
    if (!has_experts(gguf.name)) files.push_back({"gguf_" + gguf.name, gguf.path});
  }
  return files;
}

class DecoderGradients : public ::testing::TestWithParam<TrainedFile> {};
INSTANTIATE_TEST_SUITE_P(Every, DecoderGradients, ::testing::ValuesIn(trained_files()),
                         [](const auto& test) { return test_name(test.param.first); });

TEST_P(DecoderGradients, OfEveryParameterAreTheSlopeOfTheLoss) {
  TrainedModel model(GetParam().second);
  const auto loss = model.loss(true);
  ASSERT_TRUE(loss) << loss.error().message;
  ASSERT_FALSE(model.params().empty());
  for (const Param& param : model.params()) expect_slope(model, param);
}

TEST(DecoderGradients, OfMixturesOfExpertsAreRefusedByName) {
  TrainedModel model(recorded_decoder("mixtral").path);
  const auto loss = model.loss(true);
  ASSERT_FALSE(loss);
  EXPECT_THAT(loss.error().message, ::testing::HasSubstr("expert_mlp"));
}

}  // namespace
}  // namespace ballast::testing
