// Times of whole training steps (batch, forward, backward, update), for scripts/bench_peers, which runs the same steps
// of the peers. Prints {"times_ms": [...], "losses": [...], "allocations": N}: times of the steps
// that were measured, losses of all steps from the first, and memory asked for while measuring. Each step takes the
// same batch, so that peers that begin with the same weights have the same losses: --weights writes them
// (.safetensors), and trains nothing.
//
// usage: training_bench mlp-sgd|mlp-adam|cnn-adam|gpt-adamw|gpt-adamw-bf16 [--threads N] [--steps N] [--weights FILE]
#include <fmt/format.h>

#include <chrono>
#include <cstdlib>
#include <cstring>
#include <string>
#include <string_view>
#include <vector>

#include "ballast/base/counter_random.h"
#include "ballast/training/make_trainable.h"
#include "ballast/training/trainer.h"

namespace ballast {
namespace {

constexpr int kWarmUp = 3;
constexpr std::string_view kCnn = R"([
  {"type": "Conv2d", "args": {"in_channels": 1, "out_channels": 32, "kernel_size": 3}}, {"type": "ReLU"},
  {"type": "Conv2d", "args": {"in_channels": 32, "out_channels": 64, "kernel_size": 3}}, {"type": "ReLU"},
  {"type": "MaxPool2d", "args": {"kernel_size": 2, "stride": 2}}, {"type": "Flatten"},
  {"type": "Linear", "args": {"in_features": 9216, "out_features": 128}}, {"type": "ReLU"},
  {"type": "Linear", "args": {"in_features": 128, "out_features": 10}}])";

template <typename T>
ArrayColumn column(std::string name, DType dtype, const std::vector<T>& values, Shape shape) {
  ByteVector bytes(values.size() * sizeof(T));
  std::memcpy(bytes.data(), values.data(), bytes.size());
  return {.name = std::move(name), .dtype = dtype, .shape = std::move(shape), .bytes = BytesOrView(std::move(bytes))};
}

Result<std::shared_ptr<const Dataset>> images(const Shape& item) {
  constexpr uint64_t kExamples = 64;
  std::vector<float> x(kExamples * item.element_count().value());
  for (size_t i = 0; i < x.size(); ++i) x[i] = static_cast<float>(counter_uniform(1, i));
  std::vector<uint32_t> y(kExamples);
  for (size_t i = 0; i < y.size(); ++i) y[i] = static_cast<uint32_t>(counter_random(2, i) % 10);
  std::vector<uint64_t> dims{kExamples};
  dims.insert(dims.end(), item.dims().begin(), item.dims().end());
  ArrayOptions options;
  options.classes = 10;
  return make_array_dataset("images", column("x", DType::kF32, x, Shape(dims)),
                            column("y", DType::kU32, y, Shape{kExamples}), options);
}

// One batch of tokens without meaning; the model's vocabulary has 4,096.
class Tokens final : public Dataset {
 public:
  static constexpr uint64_t kBatch = 8;
  Tokens() {
    layout_ = {.features = FeatureKind::kTokens,
               .feature_shape = Shape{256},
               .targets = TargetKind::kTokens,
               .target_shape = Shape{256},
               .classes = 4096};
  }
  const ExampleLayout& layout() const override { return layout_; }
  uint64_t size() const override { return kBatch; }
  const std::string& name() const override { return name_; }

 private:
  Status fill_checked(std::span<const uint64_t> examples, const BatchBuffers& out) const override {
    for (size_t i = 0; i < out.feature_ids.size(); ++i) {
      out.feature_ids[i] = static_cast<uint32_t>(counter_random(examples[i / 256], i % 256) % 4096);
      out.target_ids[i] = static_cast<uint32_t>(counter_random(examples[i / 256] + 100, i % 256) % 4096);
    }
    return {};
  }
  ExampleLayout layout_;
  std::string name_ = "tokens";
};

struct Work {
  TrainConfig config;
  TrainingData data;
};

Result<Work> make_work(std::string_view name) {
  Work work;
  TrainConfig& config = work.config;
  config.train.steps = 1 << 30;
  if (name == "gpt-adamw" || name == "gpt-adamw-bf16") {
    if (name == "gpt-adamw-bf16") config.train.precision = "bf16";
    config.model.kind = "gpt";
    config.model.gpt = {.vocab_size = 4096, .context_length = 256, .embed_dim = 256, .num_layers = 4, .num_heads = 4};
    config.optimizer = {.type = "adamw", .lr = 1e-3, .weight_decay = 0.01};
    config.train.batch_size = Tokens::kBatch;
    work.data.training = std::make_shared<Tokens>();
    return work;
  }
  config.train.batch_size = 64;
  config.optimizer.type = name == "mlp-sgd" ? "sgd" : "adam";
  config.optimizer.lr = name == "mlp-sgd" ? 0.01 : 1e-3;
  if (name == "cnn-adam") {
    config.model.kind = "sequential";
    config.model.layers = kCnn;
    BALLAST_TRY(work.data.training, images(Shape{1, 28, 28}));
    return work;
  }
  if (name != "mlp-sgd" && name != "mlp-adam") {
    return make_error(ErrorCode::kInvalidArgument, fmt::format("there is no work \"{}\"", name));
  }
  config.model.kind = "mlp";
  config.model.mlp.hidden = {128};
  BALLAST_TRY(work.data.training, images(Shape{784}));
  return work;
}

Result<std::unique_ptr<Trainer>> make_trainer(std::string_view name, unsigned threads) {
  BALLAST_TRY(Work work, make_work(name));
  BALLAST_TRY(auto model, make_trainable(work.config, work.data));
  return Trainer::make(work.config, std::move(model), std::move(work.data), {.threads = threads});
}

Status measure(Trainer& trainer, int steps) {
  std::vector<double> times, losses;
  for (int i = 0; i < kWarmUp; ++i) {
    BALLAST_TRY(const StepRecord step, trainer.advance());
    losses.push_back(step.loss);
  }
  const uint64_t allocations = trainer.allocations();
  for (int i = 0; i < steps; ++i) {
    const auto begin = std::chrono::steady_clock::now();
    BALLAST_TRY(const StepRecord step, trainer.advance());
    times.push_back(std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - begin).count());
    losses.push_back(step.loss);
  }
  fmt::print("{{\"times_ms\": [{}], \"losses\": [{}], \"allocations\": {}}}\n", fmt::join(times, ", "),
             fmt::join(losses, ", "), trainer.allocations() - allocations);
  return {};
}

struct Options {
  std::string name, weights;
  unsigned threads = 0;
  int steps = 5;
};

Status run(const Options& options) {
  BALLAST_TRY(const auto trainer, make_trainer(options.name, options.threads));
  return options.weights.empty() ? measure(*trainer, options.steps) : trainer->save_model(options.weights);
}

}  // namespace
}  // namespace ballast

int main(int argc, char** argv) {
  ballast::Options options;
  if (argc > 1) options.name = argv[1];
  for (int i = 2; i + 1 < argc; i += 2) {
    const std::string_view flag = argv[i];
    if (flag == "--threads") options.threads = static_cast<unsigned>(std::atoi(argv[i + 1]));
    if (flag == "--steps") options.steps = std::atoi(argv[i + 1]);
    if (flag == "--weights") options.weights = argv[i + 1];
  }
  const ballast::Status status = ballast::run(options);
  if (!status) fmt::print(stderr, "training_bench: {}\n", status.error().message);
  return status ? 0 : 2;
}
