// A run that was stopped and resumed makes the same bits as one that was not: for every optimizer, with shuffling,
// dropout, averaged weights and a schedule, and with another number of threads behind the break.
#include <gtest/gtest.h>

#include <cstring>

#include "ballast/base/counter_random.h"
#include "ballast/training/make_trainable.h"
#include "ballast/training/run.h"
#include "tests/support/temp_folder.h"

namespace ballast {
namespace {

using testing::TempFolder;

constexpr uint64_t kSteps = 12;
constexpr std::string_view kLayers = R"([
  {"type": "Conv2d", "args": {"in_channels": 2, "out_channels": 5, "kernel_size": 3, "pad": 1}},
  {"type": "BatchNorm2d", "args": {"num_features": 5}}, {"type": "ReLU", "args": {}},
  {"type": "MaxPool2d", "args": {"kernel_size": 2, "stride": 2}}, {"type": "Flatten", "args": {}},
  {"type": "Dropout", "args": {"p": 0.3}}, {"type": "Linear", "args": {"in_features": 45, "out_features": 4}}])";

template <typename T>
ArrayColumn column(std::string name, DType dtype, const std::vector<T>& values, Shape shape) {
  ByteVector bytes(values.size() * sizeof(T));
  std::memcpy(bytes.data(), values.data(), bytes.size());
  return {.name = std::move(name), .dtype = dtype, .shape = std::move(shape), .bytes = BytesOrView(std::move(bytes))};
}

TrainingData image_data() {
  constexpr uint64_t kExamples = 37, kEach = 2 * 6 * 6;
  std::vector<float> x(kExamples * kEach);
  for (size_t i = 0; i < x.size(); ++i) x[i] = static_cast<float>(counter_uniform(1, i));
  std::vector<uint32_t> y(kExamples);
  for (size_t i = 0; i < y.size(); ++i) y[i] = static_cast<uint32_t>(counter_random(2, i) % 4);
  TrainingData data;
  data.training = *make_array_dataset("images", column("x", DType::kF32, x, Shape{kExamples, 2, 6, 6}),
                                      column("y", DType::kU32, y, Shape{kExamples}));
  return data;
}

TrainConfig image_config(const std::string& optimizer) {
  TrainConfig config;
  config.model.kind = "sequential";
  config.model.layers = kLayers;
  config.optimizer.type = optimizer;
  config.optimizer.lr = 0.01;
  config.optimizer.momentum = optimizer == "adam" || optimizer == "adamw" ? 0 : 0.9;
  config.optimizer.weight_decay = 0.01;
  config.schedule.type = "warmup_cosine";
  config.schedule.warmup = 3;
  config.train.steps = kSteps;
  config.train.batch_size = 8;
  config.train.accumulation = 2;
  config.train.clip_grad_norm = 1;
  config.train.ema = 0.9;
  config.train.seed = 7;
  return config;
}

std::unique_ptr<Trainer> trainer_of(const TrainConfig& config, TrainingData data, unsigned threads) {
  auto model = make_trainable(config, data);
  EXPECT_TRUE(model) << (model ? "" : model.error().message);
  auto trainer = Trainer::make(config, std::move(*model), std::move(data), {.threads = threads});
  EXPECT_TRUE(trainer) << (trainer ? "" : trainer.error().message);
  return std::move(*trainer);
}

// Every byte that the next step depends on.
std::string bits_of(const Trainer& trainer) {
  const TrainingSnapshot snapshot = trainer.snapshot();
  std::string bits = snapshot.state_json;
  for (const auto* list : {&snapshot.weights, &snapshot.state}) {
    for (const SnapshotTensor& tensor : *list) {
      bits += tensor.info.name;
      bits.append(reinterpret_cast<const char*>(tensor.bytes.data()), tensor.bytes.size());
    }
  }
  return bits;
}

void advance(Trainer& trainer, uint64_t steps) {
  for (uint64_t i = 0; i < steps; ++i) {
    const auto record = trainer.advance();
    ASSERT_TRUE(record) << record.error().message;
  }
}

// Saves at `at`, forgets everything, goes on from the folder with other threads, and compares with `whole`.
void expect_same_bits_after(const TrainConfig& config, const TrainingData& data, uint64_t at, unsigned threads,
                            const std::string& whole) {
  const TempFolder folder;
  {
    const auto first = trainer_of(config, data, 1);
    advance(*first, at);
    const auto manager = CheckpointManager::open(folder.path("run"), {});
    ASSERT_TRUE(manager) << manager.error().message;
    ASSERT_TRUE((*manager)->save(first->snapshot()));
    ASSERT_TRUE((*manager)->finish());
  }
  const auto second = trainer_of(config, data, threads);
  advance(*second, 2);  // what was there before must not matter
  const auto manager = CheckpointManager::open(folder.path("run"), {});
  ASSERT_TRUE(manager) << manager.error().message;
  const auto found = (*manager)->resume();
  ASSERT_TRUE(found && found->checkpoint);
  const Status restored = second->restore(*found->checkpoint);
  ASSERT_TRUE(restored) << restored.error().message;
  EXPECT_EQ(second->step(), at);
  advance(*second, config.train.steps - at);
  EXPECT_TRUE(bits_of(*second) == whole) << "resumed at " << at << " with " << threads << " threads";
}

class ExactResume : public ::testing::TestWithParam<const char*> {};
INSTANTIATE_TEST_SUITE_P(Optimizers, ExactResume, ::testing::Values("sgd", "momentum", "adam", "adamw", "rmsprop"),
                         [](const auto& test) { return std::string(test.param); });

TEST_P(ExactResume, GivesTheSameBitsWithAnyNumberOfThreads) {
  const TrainConfig config = image_config(GetParam());
  const TrainingData data = image_data();
  const auto whole = trainer_of(config, data, 2);
  advance(*whole, kSteps);
  const std::string bits = bits_of(*whole);
  for (const unsigned threads : {1U, 2U, 7U}) expect_same_bits_after(config, data, 5, threads, bits);
  expect_same_bits_after(config, data, 1, 3, bits);
}

TEST(ExactResumeOfText, GivesTheSameBitsWithMixedPrecisionAndDropout) {
  const TempFolder folder;
  std::string text;
  for (uint64_t i = 0; i < 4000; ++i) text += static_cast<char>('a' + counter_random(3, i / 3) % 26);
  folder.write("text.txt", text);
  TrainConfig config;
  config.model.kind = "gpt";
  config.model.gpt = {.context_length = 16, .embed_dim = 24, .num_layers = 2, .num_heads = 3, .dropout = 0.1};
  config.data.kind = "text";
  config.data.paths = {folder.path("text.txt")};
  config.data.tokenizer = "bytes";
  config.optimizer = {.type = "adamw", .lr = 1e-2, .weight_decay = 0.1};
  config.train.steps = 6;
  config.train.batch_size = 4;
  config.train.precision = "bf16";
  OpenDataSettings settings;
  settings.context = 16;
  const auto data = open_training_data(config.data, config.eval, settings);
  ASSERT_TRUE(data) << data.error().message;
  const auto whole = trainer_of(config, *data, 2);
  const auto first = whole->advance();
  ASSERT_TRUE(first) << first.error().message;
  advance(*whole, 5);
  for (const unsigned threads : {1U, 7U}) expect_same_bits_after(config, *data, 3, threads, bits_of(*whole));
}

TEST(Trainer, AsksForNoMemoryFromTheSecondStepOn) {
  const auto trainer = trainer_of(image_config("adam"), image_data(), 2);
  advance(*trainer, 3);
  const uint64_t before = trainer->allocations();
  advance(*trainer, 8);
  EXPECT_EQ(trainer->allocations(), before);
}

TEST(Trainer, RefusesACheckpointOfAnotherModelAndStaysAsItWas) {
  const TempFolder folder;
  const TrainingData data = image_data();
  const auto one = trainer_of(image_config("adam"), data, 1);
  const auto manager = CheckpointManager::open(folder.path("run"), {});
  ASSERT_TRUE(manager);
  ASSERT_TRUE((*manager)->save(one->snapshot()));
  ASSERT_TRUE((*manager)->finish());
  auto found = (*manager)->resume();
  ASSERT_TRUE(found && found->checkpoint);

  TrainConfig other = image_config("adam");
  other.model.kind = "mlp";
  other.model.mlp.hidden = {3};
  const auto two = trainer_of(other, data, 1);
  const std::string before = bits_of(*two);
  const Status restored = two->restore(*found->checkpoint);
  ASSERT_FALSE(restored);
  EXPECT_NE(restored.error().message.find("\"1.weight\" is missing"), std::string::npos) << restored.error().message;
  EXPECT_NE(restored.error().message.find("\"0.weight\" is not expected"), std::string::npos);
  EXPECT_TRUE(bits_of(*two) == before);

  const auto three = trainer_of(image_config("sgd"), data, 1);
  const Status moments = three->restore(*found->checkpoint);
  ASSERT_FALSE(moments);
  EXPECT_NE(moments.error().message.find("another optimizer"), std::string::npos) << moments.error().message;
}

TEST(Trainer, StopsAtALossThatIsNotFinite) {
  TrainConfig config = image_config("sgd");
  config.optimizer.lr = 1e30;
  config.schedule.type = "constant";
  config.train.clip_grad_norm = 0;
  const auto trainer = trainer_of(config, image_data(), 1);
  Status status;
  for (uint64_t i = 0; i < kSteps && status; ++i) {
    const auto record = trainer->advance();
    if (!record) status = record.error();
  }
  ASSERT_FALSE(status);
  EXPECT_NE(status.error().message.find("a smaller learning rate"), std::string::npos) << status.error().message;
}

}  // namespace
}  // namespace ballast
