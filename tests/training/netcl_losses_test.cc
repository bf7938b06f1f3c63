// Losses whose values and gradients the real netcl was asked for: tests/interop/netcl_losses.py recorded them.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <memory>
#include <optional>

#include "ballast/device/host_access.h"
#include "ballast/ops/tape.h"
#include "ballast/training/losses/loss.h"
#include "ballast/training/losses/margin_head.h"
#include "tests/support/ops_testing.h"
#include "tests/support/recorded_netcl.h"
#include "tests/support/temp_folder.h"
#include "tests/support/test_files.h"

namespace ballast {
namespace {

using ::testing::HasSubstr;
using testing::Lab;

constexpr uint64_t kCenters = 8, kFeatures = 5;

const std::string& recorded() {
  static const std::string text = testing::read_text_file(testing::netcl_path("recorded_losses.json"));
  return text;
}

std::vector<uint32_t> recorded_labels() {
  const auto numbers = testing::recorded_numbers(recorded(), "labels");
  return {numbers.begin(), numbers.end()};
}

Tensor recorded_tensor(Context& context, std::string_view name) {
  const auto array = testing::recorded_array(recorded(), name);
  auto tensor = context.workspace().from(array.values, array.dims);
  EXPECT_TRUE(tensor);
  return tensor ? *tensor : Tensor();
}

// One number of all logits, in which each has a weight of its own.
Result<Tensor> picked(Context& context, const Tensor& logits) {
  std::vector<float> factors;
  for (uint64_t i = 0; i < logits.count(); ++i) factors.push_back(static_cast<float>(i % 5 + 1) / 8);
  BALLAST_TRY(const Tensor weights, context.workspace().from(factors, logits.dims()));
  BALLAST_TRY(const Tensor products, ops::binary(context, BinaryOp::kMul, logits, weights));
  return ops::sum_all(context, products);
}

// A head with memory of its own, as a program would have it in its model's.
struct HeadLab {
  Status open(const MarginHeadConfig& config, uint64_t features, uint64_t classes, uint64_t seed = 0) {
    BALLAST_TRY([[maybe_unused]] const size_t index,
                add_margin_centers(*memory, "head.weight", config, features, classes, seed));
    BALLAST_TRY(store, ParamStore::open(memory));
    BALLAST_TRY(const Param centers, store->get("head.weight"));
    BALLAST_TRY(head, MarginHead::make(config, centers));
    return {};
  }
  std::vector<float> values() const {
    const auto span = memory->values<float>(0);
    return {span.begin(), span.end()};
  }

  std::shared_ptr<TrainedParams> memory = std::make_shared<TrainedParams>();
  std::unique_ptr<ParamStore> store{};
  std::optional<MarginHead> head{};
};

struct RecordedLoss {
  std::string name;
  std::string of;  // what the gradient is of
  std::function<Result<Tensor>(Context&, const Tensor&)> loss;
};

RecordedLoss mined(bool all, bool euclidean, const std::string& reduction) {
  const std::string name =
      std::string("batch_") + (all ? "all" : "hard") + (euclidean ? "_euclidean_" : "_squared_") + reduction;
  return {name, "rows", [=](Context& context, const Tensor& x) {
            const MetricLossConfig config{.margin = 0.5, .euclidean = euclidean, .reduction = reduction};
            return all ? batch_all_triplet_loss(context, x, recorded_labels(), config)
                       : batch_hard_triplet_loss(context, x, recorded_labels(), config);
          }};
}

RecordedLoss weighted(const std::string& name, const LossConfig& config) {
  return {name, "probabilities", [=](Context& context, const Tensor& x) {
            const Tensor targets = recorded_tensor(context, "targets"), weights = recorded_tensor(context, "weights");
            return compute_loss(context, config, x, {.values = &targets, .weights = &weights});
          }};
}

RecordedLoss boxes(const std::string& name, const BoxLossConfig& config) {
  return {name, "boxes", [=](Context& context, const Tensor& x) {
            return weighted_box_smooth_l1_loss(context, x, recorded_tensor(context, "box_targets"), config);
          }};
}

RecordedLoss margin(const std::string& name, ops::AngularMargin kind, double size = 0.5) {
  return {"margin_" + name, "cosines", [=](Context& context, const Tensor& x) -> Result<Tensor> {
            BALLAST_TRY(const Tensor logits, ops::margin_logits(context, kind, x, recorded_labels(), size, 16));
            return picked(context, logits);
          }};
}

RecordedLoss head(const std::string& name, const MarginHeadConfig& config) {
  const auto lab = std::make_shared<HeadLab>();
  return {"head_" + name, "rows", [=](Context& context, const Tensor& x) -> Result<Tensor> {
            BALLAST_CHECK(lab->open(config, kFeatures, kCenters / config.sub_centers));
            const auto centers = testing::recorded_array(recorded(), "centers");
            std::ranges::copy(centers.values, lab->memory->values<float>(0).begin());
            BALLAST_TRY(const Tensor logits, lab->head->logits(context, x, recorded_labels()));
            return picked(context, logits);
          }};
}

std::vector<RecordedLoss> recorded_losses() {
  std::vector<RecordedLoss> all;
  for (const bool every : {false, true}) {
    for (const bool euclidean : {false, true}) {
      for (const char* reduction : {"mean", "sum"}) all.push_back(mined(every, euclidean, reduction));
    }
  }
  all.push_back(weighted("weighted_bce", {.name = "weighted_bce"}));
  all.push_back(weighted("weighted_smooth_l1", {.name = "smooth_l1", .beta = 0.3}));
  all.push_back(boxes("weighted_box", {}));
  all.push_back(
      boxes("weighted_box_told",
            {.beta = 0.2, .area_ref = 0.05, .area_gain = 1, .miss_gain = 3, .center_gain = 2, .size_gain = 0.5}));
  all.push_back(margin("arcface", ops::AngularMargin::kArcFace));
  all.push_back(margin("arcface_easy", ops::AngularMargin::kEasyArcFace));
  all.push_back(margin("cosface", ops::AngularMargin::kCosFace));
  all.push_back(margin("sphereface", ops::AngularMargin::kSphereFace, 1.5));
  for (const char* kind : {"arcface", "cosface", "sphereface"}) all.push_back(head(kind, {.kind = kind}));
  all.push_back(head("sub_centers", {.sub_centers = 2}));
  return all;
}

class NetclLoss : public ::testing::TestWithParam<RecordedLoss> {};

INSTANTIATE_TEST_SUITE_P(Recorded, NetclLoss, ::testing::ValuesIn(recorded_losses()),
                         [](const auto& test) { return test.param.name; });

TEST_P(NetclLoss, HasNetclsValueAndGradient) {
  constexpr double kRelative = 2e-5;  // of f32: logits are scaled by 64, probabilities lie 1e-7 from 0
  Lab lab;
  ParamGradients gradients(lab.workspace);
  Tape tape(gradients);
  const Tensor x = recorded_tensor(lab.context, GetParam().of);
  tape.watch(x);
  lab.context.tape = &tape;
  const auto value = GetParam().loss(lab.context, x);
  ASSERT_TRUE(value) << value.error().message;
  ASSERT_TRUE(tape.backward(lab.context, *value));
  lab.context.tape = nullptr;
  const double expected = testing::recorded_numbers(recorded(), GetParam().name + "/value")[0];
  EXPECT_NEAR(testing::values_of(*value)[0], expected, kRelative * std::max(1.0, std::abs(expected)));
  const auto slopes = testing::recorded_numbers(recorded(), GetParam().name + "/gradient");
  ASSERT_NE(tape.gradient(x), nullptr);
  const auto seen = testing::values_of(*tape.gradient(x));
  ASSERT_EQ(seen.size(), slopes.size());
  for (size_t i = 0; i < seen.size(); ++i) {
    // 1 - 1e-7 rounds to another f32 than netcl's kernel has: the slope at the edge is 1e7, give or take a fifth.
    const double tolerance = std::abs(slopes[i]) > 1e6 ? 0.2 : kRelative;
    EXPECT_NEAR(seen[i], slopes[i], tolerance * std::max(1.0, std::abs(slopes[i]))) << "element " << i;
  }
}

TEST(MarginHead, TrainsItsCentersTowardsTheRowsOfTheirClass) {
  Lab lab;
  HeadLab made;
  ASSERT_TRUE(made.open({.kind = "cosface", .margin = 0.2, .scale = 8}, 2, 2, 3));
  const MarginHead& head = *made.head;
  const Tensor rows = lab.tensor({1, 0.1, 0.9, -0.1, -0.1, 1, 0.2, 0.8}, {4, 2});
  const std::vector<uint32_t> labels = {0, 0, 1, 1};
  double last = INFINITY;
  for (int step = 0; step < 20; ++step) {
    ParamGradients gradients(lab.workspace);
    gradients.train(head.centers());
    Tape tape(gradients);
    lab.context.tape = &tape;
    const auto loss = head.loss(lab.context, rows, labels);
    ASSERT_TRUE(loss) << loss.error().message;
    ASSERT_TRUE(tape.backward(lab.context, *loss));
    lab.context.tape = nullptr;
    EXPECT_LT(testing::values_of(*loss)[0], last);
    last = testing::values_of(*loss)[0];
    const Tensor* slopes = gradients.find(head.centers());
    ASSERT_NE(slopes, nullptr);
    const auto values = made.memory->values<float>(0);
    for (size_t i = 0; i < values.size(); ++i) values[i] -= 0.02F * host_data<const float>(*slopes)[i];
  }
  const auto cosines = testing::values_of(*head.cosines(lab.context, rows));
  EXPECT_GT(cosines[0], cosines[1]);
  EXPECT_LT(cosines[4], cosines[5]);
}

TEST(MarginHead, BeginsOnTheUnitSphereBySeed) {
  HeadLab one, again, other;
  ASSERT_TRUE(one.open({}, 16, 3, 1) && again.open({}, 16, 3, 1) && other.open({}, 16, 3, 2));
  EXPECT_EQ(one.values(), again.values());
  EXPECT_NE(one.values(), other.values());
  double length = 0;
  for (size_t i = 0; i < 16; ++i) length += std::pow(one.values()[i], 2);
  EXPECT_NEAR(length, 1, 1e-6);
}

TEST(MarginHead, SaysWhatItDoesNotHave) {
  const auto message = [](const MarginHeadConfig& config, uint64_t classes) {
    HeadLab lab;
    const Status made = lab.open(config, 4, classes);
    EXPECT_FALSE(made);
    return made ? std::string() : made.error().message;
  };
  EXPECT_THAT(message({.kind = "cosineface"}, 2), HasSubstr("there are: arcface, cosface, sphereface"));
  EXPECT_THAT(message({.kind = "cosface", .easy_margin = true}, 2), HasSubstr("for arcface only"));
  EXPECT_THAT(message({}, 0), HasSubstr("0 classes"));
  HeadLab five;
  ASSERT_TRUE(five.open({}, 4, 5));
  const auto odd = MarginHead::make({.sub_centers = 2}, five.head->centers());
  ASSERT_FALSE(odd);
  EXPECT_THAT(odd.error().message, HasSubstr("are not [classes * 2, features]"));
}

}  // namespace
}  // namespace ballast
