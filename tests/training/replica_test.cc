#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "ballast/nn/netcl_io.h"
#include "ballast/training/replicas.h"
#include "tests/support/temp_folder.h"
#include "tests/support/training_lab.h"

namespace ballast {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using testing::TrainingLab;

TEST(ShardBatch, CutsAsNumpyDoes) {
  TrainingLab lab(std::move(*nn::build_mlp(std::vector<uint64_t>{2, 1})), "reference");
  const Tensor batch = *lab.device().from_host(std::vector<float>{1, 2, 3, 4, 5, 6, 7, 8, 9, 10}, {5, 2});
  const auto parts = shard_batch(lab.context(), batch, 2);
  ASSERT_TRUE(parts) << parts.error().message;
  ASSERT_EQ(parts->size(), 2U);
  EXPECT_EQ((*parts)[0].dims(), (Dims{3, 2}));
  EXPECT_THAT(*Execution::to_host((*parts)[1]), ElementsAre(7, 8, 9, 10));
  const std::vector<uint32_t> labels = {1, 2, 3, 4, 5};
  EXPECT_EQ(shard_batch(labels, 3)[2].size(), 1U);
  EXPECT_FALSE(shard_batch(lab.context(), batch, 0));
}

TEST(AllReduce, AddsOrAveragesInEachReplica) {
  std::vector<float> a = {1, 2}, b = {3, 6};
  const std::vector<std::span<float>> both = {a, b};
  ASSERT_TRUE(all_reduce(both, Reduction::kMean));
  EXPECT_THAT(a, ElementsAre(2, 4));
  ASSERT_TRUE(all_reduce(both, Reduction::kSum));
  EXPECT_THAT(b, ElementsAre(4, 8));
  a[0] = 9;
  ASSERT_TRUE(broadcast(both));
  EXPECT_THAT(b, ElementsAre(9, 8));
  std::vector<float> shorter = {1};
  const std::vector<std::span<float>> unequal = {a, shorter};
  EXPECT_FALSE(all_reduce(unequal, Reduction::kSum));
  EXPECT_FALSE(broadcast(both, 2));
}

// The mean of the gradients of equal shards is the gradient of the whole batch.
TEST(SyncGrads, GivesEachReplicaTheStepOfTheWholeBatch) {
  const std::vector<uint64_t> sizes = {3, 4, 2};
  const auto lab = [&](uint64_t seed) {
    return std::make_unique<TrainingLab>(std::move(*nn::build_mlp(sizes, {}, {.seed = seed})), "reference");
  };
  const auto whole = lab(1), first = lab(2), second = lab(3);
  const auto replica = [](TrainingLab& of) {
    return Replica{&of.model().memory(), &of.gradients(), of.model().parameters()};
  };
  const std::vector<Replica> all = {replica(*whole), replica(*first), replica(*second)};
  ASSERT_TRUE(broadcast_params(all));
  const std::vector<float> rows = {1, 2, 3, -1, 0, 1, 0.5, 0.25, -2, 1, -1, 1};
  const std::vector<uint32_t> labels = {0, 1, 1, 0};
  const auto step = [&](TrainingLab& of, size_t begin, size_t count) {
    const Tensor x = *of.device().from_host(std::span(rows).subspan(begin * 3, count * 3), {count, 3});
    ASSERT_TRUE(of.backward({}, x, nullptr, std::span(labels).subspan(begin, count)));
  };
  step(*whole, 0, 4);
  step(*first, 0, 2);
  const std::span<const Replica> two = std::span(all).subspan(1);
  const auto early = sync_grads(two);
  ASSERT_FALSE(early);
  EXPECT_THAT(early.error().message, HasSubstr("1 of 2 replicas"));
  step(*second, 2, 2);
  ASSERT_TRUE(sync_grads(two));
  for (TrainingLab* of : {whole.get(), first.get(), second.get()}) {
    auto optimizer = std::move(*Optimizer::make({.type = "SGD", .lr = 0.1}, of->model().memory(), of->params()));
    ASSERT_TRUE(optimizer->step(of->context(), of->gradients()));
  }
  for (size_t i = 0; i < whole->params().size(); ++i) {
    const auto a = whole->model().memory().values<float>(i), b = first->model().memory().values<float>(i),
               c = second->model().memory().values<float>(i);
    for (size_t j = 0; j < a.size(); ++j) EXPECT_NEAR(b[j], a[j], 1e-7);
    EXPECT_TRUE(std::ranges::equal(b, c));
  }
}

// Two replicas that step together, each with an optimizer of its own.
struct Pair {
  Pair() {
    for (uint64_t seed : {1, 2}) {
      labs.push_back(std::make_unique<TrainingLab>(
          std::move(*nn::build_mlp(std::vector<uint64_t>{3, 4, 2}, {.dropout = 0.25}, {.seed = seed})), "reference"));
      TrainingLab& lab = *labs.back();
      optimizers.push_back(
          std::move(*Optimizer::make({.type = "SGD", .lr = 0.1, .momentum = 0.9}, lab.model().memory(), lab.params())));
      replicas.push_back({&lab.model().memory(), &lab.gradients(), lab.model().parameters()});
    }
    EXPECT_TRUE(broadcast_params(replicas));
  }
  void train(uint64_t first_step, int steps) {
    const std::vector<float> rows = {1, 2, 3, -1, 0, 1, 0.5, 0.25, -2, 1, -1, 1};
    const std::vector<uint32_t> labels = {0, 1, 1, 0};
    for (int i = 0; i < steps; ++i) {
      for (size_t r = 0; r < 2; ++r) {
        labs[r]->random().step = first_step + static_cast<uint64_t>(i);
        const Tensor x = *labs[r]->device().from_host(std::span(rows).subspan(r * 6, 6), {2, 3});
        ASSERT_TRUE(labs[r]->backward({}, x, nullptr, std::span(labels).subspan(r * 2, 2)));
      }
      ASSERT_TRUE(sync_grads(replicas));
      for (size_t r = 0; r < 2; ++r) ASSERT_TRUE(optimizers[r]->step(labs[r]->context(), labs[r]->gradients()));
    }
  }
  std::vector<float> weights(size_t r) {
    const auto values = labs[r]->model().memory().values<float>(0);
    return {values.begin(), values.end()};
  }
  std::vector<std::unique_ptr<TrainingLab>> labs;
  std::vector<std::unique_ptr<Optimizer>> optimizers;
  std::vector<Replica> replicas;
};

TEST(Replicas, SaveOneCheckpointAndResumeFromItToTheSameBits) {
  const testing::TempFolder folder;
  Pair whole, cut, resumed;
  whole.train(0, 5);
  cut.train(0, 2);
  ASSERT_TRUE(netcl::save_checkpoint(cut.labs[0]->model().parameter_tensors(), folder.path("run"),
                                     {cut.optimizers[0]->state_dict(), R"({"step": 2})"}));
  const auto loaded = netcl::load_checkpoint(resumed.labs[0]->model().parameter_tensors(), folder.path("run"));
  ASSERT_TRUE(loaded) << loaded.error().message;
  ASSERT_TRUE(broadcast_params(resumed.replicas));
  for (const auto& optimizer : resumed.optimizers) {
    ASSERT_TRUE(optimizer->load_state_dict(loaded->checkpoint.optim_state));
  }
  resumed.train(2, 3);
  EXPECT_EQ(resumed.weights(0), whole.weights(0));
  EXPECT_EQ(resumed.weights(1), whole.weights(0));
}

}  // namespace
}  // namespace ballast
