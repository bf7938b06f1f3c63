#include "ballast/training/losses/loss.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "ballast/device/host_access.h"
#include "ballast/ops/tape.h"
#include "tests/support/ops_testing.h"

namespace ballast {
namespace {

using ::testing::HasSubstr;
using testing::Lab;

// A loss of some watched rows: its value and the gradients, which differences must confirm.
using LossOf = std::function<Result<Tensor>(Context&, const std::vector<Tensor>&)>;

double value_of(Lab& lab, const LossOf& loss, const std::vector<std::vector<double>>& inputs, const Dims& dims) {
  std::vector<Tensor> tensors;
  for (const auto& input : inputs) tensors.push_back(lab.tensor(input, dims, DType::kF64));
  const auto value = loss(lab.context, tensors);
  EXPECT_TRUE(value) << (value ? "" : value.error().message);
  return value ? testing::values_of(*value)[0] : NAN;
}

void expect_gradients(const LossOf& loss, std::vector<std::vector<double>> inputs, const Dims& dims) {
  Lab lab;
  ParamGradients gradients(lab.workspace);
  Tape tape(gradients);
  std::vector<Tensor> tensors;
  for (const auto& input : inputs) {
    tensors.push_back(lab.tensor(input, dims, DType::kF64));
    tape.watch(tensors.back());
  }
  lab.context.tape = &tape;
  const auto value = loss(lab.context, tensors);
  ASSERT_TRUE(value) << value.error().message;
  const auto done = tape.backward(lab.context, *value);
  lab.context.tape = nullptr;
  ASSERT_TRUE(done) << done.error().message;
  for (size_t i = 0; i < inputs.size(); ++i) {
    const Tensor* gradient = tape.gradient(tensors[i]);
    ASSERT_NE(gradient, nullptr) << i;
    const auto computed = testing::values_of(*gradient);
    for (size_t j = 0; j < inputs[i].size(); ++j) {
      constexpr double kStep = 1e-4;
      const double middle = inputs[i][j];
      inputs[i][j] = middle + kStep;
      const double above = value_of(lab, loss, inputs, dims);
      inputs[i][j] = middle - kStep;
      const double below = value_of(lab, loss, inputs, dims);
      inputs[i][j] = middle;
      EXPECT_NEAR(computed[j], (above - below) / (2 * kStep), 1e-6) << "input " << i << ", element " << j;
    }
  }
}

double loss_of(const LossConfig& config, const std::vector<double>& predictions, const std::vector<double>& targets) {
  Lab lab;
  const Tensor p = lab.tensor(predictions, {2, 2}), t = lab.tensor(targets, {2, 2});
  const auto value = compute_loss(lab.context, config, p, {.values = &t});
  EXPECT_TRUE(value) << (value ? "" : value.error().message);
  return value ? testing::values_of(*value)[0] : NAN;
}

TEST(Loss, ReducesAsNetclDoesUnlessToldOtherwise) {
  const std::vector<double> p = {1, 2, -1, 0.5}, t = {0, 2.25, 1, 0};
  EXPECT_NEAR(loss_of({.name = "mse"}, p, t), 1 + 0.0625 + 4 + 0.25, 1e-6);
  EXPECT_NEAR(loss_of({.name = "mse", .reduction = "mean"}, p, t), (1 + 0.0625 + 4 + 0.25) / 4, 1e-6);
  EXPECT_NEAR(loss_of({.name = "l1"}, p, t), 1 + 0.25 + 2 + 0.5, 1e-6);
  EXPECT_NEAR(loss_of({.name = "l2"}, p, t), 1 + 0.0625 + 4 + 0.25, 1e-6);
  EXPECT_NEAR(loss_of({.name = "smooth_l1"}, p, t), 0.5 + 0.03125 + 1.5 + 0.125, 1e-6);
  EXPECT_NEAR(loss_of({.name = "smooth_l1", .beta = 0.5}, p, t), 0.75 + 0.0625 + 1.75 + 0.25, 1e-6);
  EXPECT_NEAR(loss_of({.name = "bce_with_logits", .reduction = "sum"}, {0, 0, 0, 0}, {1, 0, 1, 0}), 4 * std::log(2.0),
              1e-5);
  EXPECT_NEAR(loss_of({.name = "bce", .reduction = "mean"}, {0.5, 0.25, 1, 0}, {1, 1, 1, 0}),
              (std::log(2.0) + std::log(4.0) + 2e-6) / 4, 1e-5);
}

TEST(Loss, GivesOneValuePerElementWhereItIsNotReduced) {
  Lab lab;
  const Tensor p = lab.tensor({1, 2}, {1, 2}), t = lab.tensor({0, 0}, {1, 2}), w = lab.tensor({3, 0}, {1, 2});
  const auto plain = compute_loss(lab.context, {.name = "mse", .reduction = "none"}, p, {.values = &t});
  ASSERT_TRUE(plain);
  EXPECT_EQ(testing::values_of(*plain), (std::vector<double>{1, 4}));
  const auto weighted = compute_loss(lab.context, {.name = "mse"}, p, {.values = &t, .weights = &w});
  ASSERT_TRUE(weighted);
  EXPECT_EQ(testing::values_of(*weighted), (std::vector<double>{3}));
}

TEST(Loss, TakesLabelsOrDistributionsAndLeavesOutWhatIsIgnored) {
  Lab lab;
  const Tensor z = lab.tensor({1, 2, 0, 0, 3, 1}, {2, 3}), one_hot = lab.tensor({0, 1, 0, 1, 0, 0}, {2, 3});
  const std::vector<uint32_t> labels = {1, 0}, half = {1, ops::kIgnoredLabel};
  const auto value = [&](const LossTarget& target, const char* reduction) {
    const auto loss = compute_loss(lab.context, {.reduction = reduction}, z, target);
    EXPECT_TRUE(loss) << (loss ? "" : loss.error().message);
    return loss ? testing::values_of(*loss)[0] : NAN;
  };
  const double first = std::log(std::exp(1) + std::exp(2) + 1) - 2, second = std::log(1 + std::exp(3) + std::exp(1));
  EXPECT_NEAR(value({.labels = labels}, "mean"), (first + second) / 2, 1e-6);
  EXPECT_NEAR(value({.values = &one_hot}, "mean"), (first + second) / 2, 1e-6);
  EXPECT_NEAR(value({.labels = labels}, "sum"), first + second, 1e-5);
  EXPECT_NEAR(value({.labels = half}, "mean"), first, 1e-6);
  EXPECT_NEAR(value({.labels = half}, "sum"), first, 1e-6);
}

TEST(Loss, SaysWhatItDoesNotHaveOrTake) {
  Lab lab;
  const Tensor p = lab.tensor({1, 2}, {1, 2});
  const std::vector<uint32_t> labels = {0};
  const auto message = [&](const LossConfig& config) {
    const auto loss = compute_loss(lab.context, config, p, {.labels = labels});
    EXPECT_FALSE(loss) << config.name;
    return loss ? std::string() : loss.error().message;
  };
  EXPECT_THAT(message({.name = "cross_entrop"}), HasSubstr("did you mean \"cross_entropy\"?"));
  EXPECT_THAT(message({.name = "mse"}), HasSubstr("needs values"));
  EXPECT_THAT(message({.reduction = "average"}), HasSubstr("there are: mean, sum, none"));
  EXPECT_THAT(message({.name = "weighted_bce"}), HasSubstr("needs values"));
  EXPECT_THAT(message({.name = "hinge", .beta = 1}), HasSubstr("there is no \"beta\""));
}

TEST(Loss, GivesOneValuePerRowWhereRowLossesAreNotReduced) {
  const std::vector<double> z = {1, 2, 0, 0, 3, 1, 0.5, -1, 0.25};
  const std::vector<uint32_t> labels = {1, ops::kIgnoredLabel, 2};
  Lab lab;
  const auto values = [&](const LossConfig& config, const LossTarget& target) {
    const auto loss = compute_loss(lab.context, config, lab.tensor(z, {3, 3}), target);
    EXPECT_TRUE(loss) << (loss ? "" : loss.error().message);
    return loss ? testing::values_of(*loss) : std::vector<double>();
  };
  const auto entropy = values({.reduction = "none"}, {.labels = labels});
  ASSERT_EQ(entropy.size(), 3U);
  EXPECT_NEAR(entropy[0], std::log(std::exp(1) + std::exp(2) + 1) - 2, 1e-6);
  EXPECT_EQ(entropy[1], 0);
  EXPECT_NEAR(entropy[2], std::log(std::exp(0.5) + std::exp(-1) + std::exp(0.25)) - 0.25, 1e-6);
  const Tensor one_hot = lab.tensor({0, 1, 0, 1, 0, 0, 0, 0, 1}, {3, 3});
  EXPECT_NEAR(values({.reduction = "none"}, {.values = &one_hot})[2], entropy[2], 1e-6);
  EXPECT_EQ(values({.name = "hinge", .reduction = "none"}, {.labels = labels}), (std::vector<double>{0, 0, 1.25}));
  for (const LossConfig& config :
       {LossConfig{.reduction = "none"}, {.name = "hinge", .reduction = "none", .margin = 0.75}}) {
    const LossOf weighted = [&](Context& context, const std::vector<Tensor>& x) -> Result<Tensor> {
      BALLAST_TRY(const Tensor rows, compute_loss(context, config, x[0], {.labels = labels}));
      BALLAST_TRY(const Tensor squares, ops::unary(context, UnaryOp::kSquare, rows));
      return ops::sum_all(context, squares);
    };
    expect_gradients(weighted, {z}, {3, 3});
  }
}

TEST(WeightedBce, NeedsAWeightForEachElement) {
  Lab lab;
  const Tensor p = lab.tensor({0.5, 0.25}, {1, 2}), t = lab.tensor({1, 0}, {1, 2}), w = lab.tensor({3, 0.5}, {1, 2});
  const auto without = compute_loss(lab.context, {.name = "weighted_bce"}, p, {.values = &t});
  ASSERT_FALSE(without);
  EXPECT_THAT(without.error().message, HasSubstr("needs a weight for each element"));
  const auto loss = compute_loss(lab.context, {.name = "weighted_bce"}, p, {.values = &t, .weights = &w});
  ASSERT_TRUE(loss) << loss.error().message;
  EXPECT_NEAR(testing::values_of(*loss)[0], 3 * std::log(2.0) - 0.5 * std::log(0.75), 1e-6);
}

TEST(WeightedBoxLoss, HasTheSlopesOfSmoothL1TimesItsFactors) {
  Lab lab;
  const std::vector<double> boxes = {0.5, 0.4, 0.3, 0.2, 0.2, 0.7, 0.25, 0.35},
                            aims = {0.47, 0.52, 0.27, 0.3, 0.6, 0.3, 0.22, 0.2};
  const LossOf loss = [&](Context& context, const std::vector<Tensor>& x) {
    const auto targets = context.workspace().zeros({2, 4}, DType::kF64);
    EXPECT_TRUE(targets);
    Tensor filled = *targets;
    std::ranges::copy(aims, host_data<double>(filled));
    return weighted_box_smooth_l1_loss(context, x[0], filled, {.miss_gain = 0});  // through which no gradient goes
  };
  expect_gradients(loss, {boxes}, {2, 4});
  const Tensor flat = lab.tensor(boxes, {8});
  const auto refused = weighted_box_smooth_l1_loss(lab.context, flat, flat);
  ASSERT_FALSE(refused);
  EXPECT_THAT(refused.error().message, HasSubstr("needs boxes [n, 4]"));
}

const std::vector<double> kA = {0.5, -1, 2, 0.25, 1, -0.5}, kB = {1, 0.5, 1.5, -1, 0.75, 0.25},
                          kC = {-1, 0.25, 0.5, 1, -0.5, 2};

TEST(TripletLoss, IsNetclsWithItsGradients) {
  const Dims dims{2, 3};
  Lab lab;
  const auto square = [](size_t i, const std::vector<double>& a, const std::vector<double>& b) {
    double sum = 0;
    for (size_t k = 0; k < 3; ++k) sum += (a[i * 3 + k] - b[i * 3 + k]) * (a[i * 3 + k] - b[i * 3 + k]);
    return sum;
  };
  double squared = 0, euclidean = 0;
  for (size_t i = 0; i < 2; ++i) {
    squared += std::max(0.0, square(i, kA, kB) - square(i, kA, kC) + 4) / 2;
    euclidean += std::max(0.0, std::sqrt(square(i, kA, kB)) - std::sqrt(square(i, kA, kC)) + 4) / 2;
  }
  for (const bool root : {false, true}) {
    const LossOf loss = [&](Context& context, const std::vector<Tensor>& x) {
      return triplet_loss(context, x[0], x[1], x[2], {.margin = 4, .euclidean = root});
    };
    EXPECT_NEAR(value_of(lab, loss, {kA, kB, kC}, dims), root ? euclidean : squared, 1e-5);
    expect_gradients(loss, {kA, kB, kC}, dims);
  }
}

TEST(BatchHardTripletLoss, TakesTheFarthestOfItsLabelAndTheNearestOfAnother) {
  const std::vector<uint32_t> labels = {0, 0, 1, 1};
  const std::vector<double> rows = {0, 0, 1, 0, 0.5, 1, 3, 1};
  const LossOf loss = [&](Context& context, const std::vector<Tensor>& x) {
    return batch_hard_triplet_loss(context, x[0], labels, {.margin = 1});
  };
  Lab lab;
  // Anchors 0 and 1: 1 - 1.25 + 1; anchor 2: 6.25 - 1.25 + 1; anchor 3: 6.25 - 5 + 1.
  EXPECT_NEAR(value_of(lab, loss, {rows}, {4, 2}), (0.75 + 0.75 + 6 + 2.25) / 4, 1e-6);
  expect_gradients(loss, {{0, 0.1, 1, 0, 0.7, 1, 3, 1.2}}, {4, 2});
}

TEST(BatchAllTripletLoss, IsTheMeanOfTheTriplesAboveZero) {
  const std::vector<uint32_t> labels = {0, 0, 1};
  const std::vector<double> rows = {0, 0, 1, 0, 0.5, 0.25};
  // Anchor 0: 1 - 0.3125 + 0.5; anchor 1: the same; of label 1 there is no other row.
  for (const char* reduction : {"mean", "sum"}) {
    const LossOf loss = [&](Context& context, const std::vector<Tensor>& x) {
      return batch_all_triplet_loss(context, x[0], labels, {.margin = 0.5, .reduction = reduction});
    };
    Lab lab;
    EXPECT_NEAR(value_of(lab, loss, {rows}, {3, 2}), 1.1875 * (*reduction == 'm' ? 1 : 2), 1e-9);
    expect_gradients(loss, {rows}, {3, 2});
  }
  for (const bool euclidean : {false, true}) {
    const std::vector<uint32_t> more = {0, 1, 0, 1, 0};
    const LossOf loss = [&](Context& context, const std::vector<Tensor>& x) {
      return batch_all_triplet_loss(context, x[0], more, {.margin = 0.3, .euclidean = euclidean});
    };
    expect_gradients(loss, {{0.1, 0.4, -0.7, 0.2, 0.9, -0.3, 0.35, 0.8, -0.2, -0.6}}, {5, 2});
  }
}

TEST(MinedTripletLosses, AreZeroWhereABatchHasNoTriple) {
  Lab lab;
  const std::vector<uint32_t> alike = {0, 0, 0, 0};
  const Tensor rows = lab.tensor({0, 0, 1, 0, 0.5, 1, 3, 1}, {4, 2});
  for (const auto loss : {&batch_hard_triplet_loss, &batch_all_triplet_loss}) {
    const auto value = loss(lab.context, rows, alike, {});
    ASSERT_TRUE(value) << value.error().message;
    EXPECT_EQ(testing::values_of(*value)[0], 0);
    EXPECT_FALSE(loss(lab.context, rows, alike, {.reduction = "none"}));
  }
}

TEST(ContrastiveLoss, IsNetclsWithItsGradients) {
  const std::vector<uint32_t> labels = {1, 0};
  const LossOf loss = [&](Context& context, const std::vector<Tensor>& x) {
    return contrastive_loss(context, x[0], x[1], labels, {.margin = 3});
  };
  double near = 0, far = 0;
  for (size_t k = 0; k < 3; ++k) {
    near += (kA[k] - kB[k]) * (kA[k] - kB[k]);
    far += (kA[3 + k] - kB[3 + k]) * (kA[3 + k] - kB[3 + k]);
  }
  const double gap = std::max(0.0, 3 - std::sqrt(far));
  Lab lab;
  EXPECT_NEAR(value_of(lab, loss, {kA, kB}, {2, 3}), (near + gap * gap) / 2, 1e-5);
  expect_gradients(loss, {kA, kB}, {2, 3});
}

TEST(InfoNceLoss, IsNetclsWithItsGradients) {
  const auto unit = [](std::vector<double> rows) {
    for (size_t i = 0; i < 2; ++i) {
      const double length =
          std::sqrt(rows[i * 3] * rows[i * 3] + rows[i * 3 + 1] * rows[i * 3 + 1] + rows[i * 3 + 2] * rows[i * 3 + 2]);
      for (size_t k = 0; k < 3; ++k) rows[i * 3 + k] /= length;
    }
    return rows;
  };
  const auto q = unit(kA), k = unit(kB);
  const auto product = [&](size_t i, size_t j) {
    return (q[i * 3] * k[j * 3] + q[i * 3 + 1] * k[j * 3 + 1] + q[i * 3 + 2] * k[j * 3 + 2]) / 0.5;
  };
  double forth = 0, back = 0;
  for (size_t i = 0; i < 2; ++i) {
    forth += std::log(std::exp(product(i, 0)) + std::exp(product(i, 1))) - product(i, i);
    back += std::log(std::exp(product(0, i)) + std::exp(product(1, i))) - product(i, i);
  }
  Lab lab;
  for (const bool symmetric : {false, true}) {
    const LossOf loss = [&](Context& context, const std::vector<Tensor>& x) {
      return info_nce_loss(context, x[0], x[1], {.temperature = 0.5, .symmetric = symmetric});
    };
    EXPECT_NEAR(value_of(lab, loss, {kA, kB}, {2, 3}), symmetric ? (forth + back) / 4 : forth / 2, 1e-5);
    expect_gradients(loss, {kA, kB}, {2, 3});
  }
  EXPECT_FALSE(info_nce_loss(lab.context, lab.tensor(kA, {2, 3}), lab.tensor(kB, {2, 3}), {.temperature = 0}));
}

}  // namespace
}  // namespace ballast
