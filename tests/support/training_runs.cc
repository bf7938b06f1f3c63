#include "tests/support/training_runs.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <cstring>

#include "ballast/base/counter_random.h"
#include "ballast/training/make_trainable.h"

namespace ballast::testing {

namespace {

constexpr std::string_view kImageLayers = R"([
  {"type": "Conv2d", "args": {"in_channels": 2, "out_channels": 5, "kernel_size": 3, "pad": 1}},
  {"type": "BatchNorm2d", "args": {"num_features": 5}}, {"type": "ReLU", "args": {}},
  {"type": "MaxPool2d", "args": {"kernel_size": 2, "stride": 2}}, {"type": "Flatten", "args": {}},
  {"type": "Dropout", "args": {"p": 0.3}}, {"type": "Linear", "args": {"in_features": 45, "out_features": 4}}])";

template <typename T>
ArrayColumn array_column(std::string name, DType dtype, const std::vector<T>& values, Shape shape) {
  ByteVector bytes(values.size() * sizeof(T));
  std::memcpy(bytes.data(), values.data(), bytes.size());
  return {.name = std::move(name), .dtype = dtype, .shape = std::move(shape), .bytes = BytesOrView(std::move(bytes))};
}

template <typename T>
T made_or_die(Result<T> made) {
  if (made) return std::move(*made);
  ADD_FAILURE() << made.error().message;
  std::abort();
}

}  // namespace

TrainingData image_data() {
  constexpr uint64_t kExamples = 37, kEach = 2 * 6 * 6;
  std::vector<float> x(kExamples * kEach);
  for (size_t i = 0; i < x.size(); ++i) x[i] = static_cast<float>(counter_uniform(1, i));
  std::vector<uint32_t> y(kExamples);
  for (size_t i = 0; i < y.size(); ++i) y[i] = static_cast<uint32_t>(counter_random(2, i) % 4);
  TrainingData data;
  data.training = *make_array_dataset("images", array_column("x", DType::kF32, x, Shape{kExamples, 2, 6, 6}),
                                      array_column("y", DType::kU32, y, Shape{kExamples}));
  return data;
}

TrainConfig image_config(const std::string& optimizer, uint64_t steps) {
  TrainConfig config;
  config.model.kind = "sequential";
  config.model.layers = kImageLayers;
  config.optimizer.type = optimizer;
  config.optimizer.lr = 0.01;
  config.optimizer.momentum = optimizer == "adam" || optimizer == "adamw" ? 0 : 0.9;
  config.optimizer.weight_decay = 0.01;
  config.schedule.type = "warmup_cosine";
  config.schedule.warmup = 3;
  config.train.steps = steps;
  config.train.batch_size = 8;
  config.train.accumulation = 2;
  config.train.clip_grad_norm = 1;
  config.train.ema = 0.9;
  config.train.seed = 7;
  return config;
}

TrainConfig letters_config(const TempFolder& folder) {
  std::string text;
  for (uint64_t i = 0; i < 4000; ++i) text += static_cast<char>('a' + counter_random(3, i / 3) % 26);
  folder.write("text.txt", text);
  TrainConfig config;
  config.data.kind = "text";
  config.data.paths = {folder.path("text.txt")};
  config.data.tokenizer = "bytes";
  config.optimizer = {.type = "adamw", .lr = 1e-2, .weight_decay = 0.1};
  return config;
}

TrainingData open_letters(const TrainConfig& config, uint64_t context) {
  OpenDataSettings settings;
  settings.context = context;
  return made_or_die(open_training_data(config.data, config.eval, settings));
}

std::unique_ptr<Trainer> trainer_of(const TrainConfig& config, TrainingData data, const TrainerSettings& settings) {
  auto model = made_or_die(make_trainable(config, data));
  return made_or_die(Trainer::make(config, std::move(model), std::move(data), settings));
}

void advance(Trainer& trainer, uint64_t steps) {
  for (uint64_t i = 0; i < steps; ++i) {
    const auto record = trainer.advance();
    ASSERT_TRUE(record) << record.error().message;
  }
}

std::string bits_of(const Trainer& trainer) {
  const TrainingSnapshot snapshot = made_or_die(trainer.snapshot());
  std::string bits = snapshot.state_json;
  for (const auto* list : {&snapshot.weights, &snapshot.state}) {
    for (const SnapshotTensor& tensor : *list) {
      bits += tensor.info.name;
      bits.append(reinterpret_cast<const char*>(tensor.bytes.data()), tensor.bytes.size());
    }
  }
  return bits;
}

}  // namespace ballast::testing
