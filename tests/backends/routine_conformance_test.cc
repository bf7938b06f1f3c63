// Every routine on every backend of the table. Those of gradient rules are computed by the cases of
// gradient_conformance_test.cc; here it is shown which case reaches which. The others are computed here.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <set>

#include "ballast/ops/gradient_routines.h"
#include "ballast/ops/update_routines.h"
#include "tests/support/gradient_cases.h"

namespace ballast {
namespace {

using testing::ConformanceCase;
using testing::GradientLab;
using ::testing::HasSubstr;
using testing::Lab;

// ---------------------------------------------------------------- routines of gradient rules

struct RoutineRow {
  std::string_view routine;
  std::string_view functional;  // whose gradient needs it
  void (*drop)(Registry& registry);
};

template <typename Args>
RoutineRow reached_by(std::string_view functional) {
  return {Args::kRoutine, functional, [](Registry& registry) { registry.add_routine<Args>(nullptr); }};
}

std::vector<RoutineRow> gradient_routines() {
  return {
      reached_by<ops::UnaryGradientArgs>("unary"),
      reached_by<ops::ChoiceGradientArgs>("binary"),
      reached_by<ops::ClampGradientArgs>("clamp"),
      reached_by<ops::PreluGradientArgs>("prelu"),
      reached_by<ops::SoftmaxGradientArgs>("softmax_last_dim"),
      reached_by<ops::ColumnSumsArgs>("add_bias"),
      reached_by<ops::SpreadAllArgs>("sum_all"),
      reached_by<ops::SpreadRowsArgs>("sum_last_dim"),
      reached_by<ops::AddSliceArgs>("slice_along_axis"),
      reached_by<ops::ScatterRowsArgs>("embedding_lookup"),
      reached_by<ops::TransposedProductArgs>("linear"),
      reached_by<ops::AttentionGradientArgs>("attention"),
      reached_by<ops::HalvesToPairsArgs>("pairs_to_halves"),
      reached_by<ops::Conv2dGradientArgs>("conv2d"),
      reached_by<ops::NormGradientArgs>("layer_norm"),
      reached_by<ops::BatchNormGradientArgs>("batch_norm"),
      reached_by<ops::GroupNormGradientArgs>("group_norm"),
      reached_by<ops::MaxPool2dGradientArgs>("max_pool2d_nhwc"),
      reached_by<ops::AvgPool2dGradientArgs>("avg_pool2d_nhwc"),
      reached_by<ops::GlobalMeanPoolGradientArgs>("global_mean_pool_nhwc"),
      reached_by<ops::Upsample2dGradientArgs>("upsample2d"),
      reached_by<ops::CrossEntropyGradientArgs>("cross_entropy"),
      reached_by<ops::HingeLossGradientArgs>("hinge_loss"),
      reached_by<ops::ElementLossGradientArgs>("element_loss"),
      reached_by<ops::SquareDistancesGradientArgs>("square_distances"),
      reached_by<ops::MarginLogitsGradientArgs>("margin_logits"),
  };
}

class GradientRoutine : public ::testing::TestWithParam<RoutineRow> {};

INSTANTIATE_TEST_SUITE_P(Routines, GradientRoutine, ::testing::ValuesIn(gradient_routines()),
                         [](const auto& test) { return std::string(test.param.routine); });

// Which shows that the cases of the functional compute it.
TEST_P(GradientRoutine, IsMissedByNameWhereABackendHasNone) {
  const auto& [routine, functional, drop] = GetParam();
  size_t missed = 0;
  for (const ConformanceCase& test : testing::gradient_cases()) {
    if (test.functional != functional) continue;
    GradientLab lab(test, *find_backend("reference"), DType::kF32);
    drop(lab.lab.registry);
    EXPECT_FALSE(lab.lab.registry.has_routine(routine));
    const auto gradients = lab.gradients();
    if (gradients) continue;
    ++missed;
    EXPECT_EQ(gradients.error().code, ErrorCode::kUnsupported);
    EXPECT_THAT(gradients.error().message, HasSubstr("the backend \"reference\" cannot train: it has no routine " +
                                                     std::string(routine) + ", for "));
  }
  EXPECT_GT(missed, 0U) << "no case of " << functional << " computes " << routine;
}

// ---------------------------------------------------------------- the others

class Routine : public ::testing::TestWithParam<const Backend*> {
 protected:
  std::vector<float> floats(uint64_t seed, size_t count) {
    const auto values = testing::random_values(seed, count);
    return {values.begin(), values.end()};
  }
  void expect_near(std::span<const float> values, std::span<const float> expected) {
    ASSERT_EQ(values.size(), expected.size());
    for (size_t i = 0; i < values.size(); ++i) {
      // Not EXPECT_NEAR: a NaN must fail too.
      ASSERT_TRUE(std::abs(values[i] - expected[i]) <= 2e-6F * std::max(1.0F, std::abs(expected[i])))
          << "element " << i << " is " << values[i] << ", not " << expected[i];
    }
  }
  void expect_near(const Tensor& values, const Tensor& expected) {
    const auto a = testing::values_of(values), b = testing::values_of(expected);
    expect_near(std::vector<float>(a.begin(), a.end()), std::vector<float>(b.begin(), b.end()));
  }
  Tensor random_tensor(Lab& place, uint64_t seed, uint64_t count) {
    return place.tensor(testing::random_values(seed, count), {count});
  }

  Lab lab{*GetParam(), 2};
  Lab reference;
  Context& context = lab.context;
  static constexpr uint64_t kCounts[] = {0, 1, 5, 67, 5000};
};

INSTANTIATE_TEST_SUITE_P(Backends, Routine, ::testing::ValuesIn(testing::tested_backends()),
                         [](const auto& test) { return std::string(test.param->name); });

TEST_P(Routine, IsThereForEveryRowOfTheTable) {
  std::set<std::string_view> tested = {"accumulate", "scale",   "square_sum", "sgd",
                                       "adam",       "rmsprop", "fill",       "rope_tables"};
  for (const RoutineRow& row : gradient_routines()) tested.insert(row.routine);
  for (const RoutineInfo& info : all_routines()) {
    EXPECT_TRUE(lab.registry.has_routine(info.name)) << info.name;
    EXPECT_TRUE(tested.contains(info.name)) << "add a test of " << info.name << " here";
    EXPECT_EQ(find_routine(info.name), &info);
    EXPECT_FALSE(info.summary.empty());
  }
  EXPECT_EQ(find_routine("nothing"), nullptr);
}

TEST_P(Routine, FillsAddsAndScalesInPlace) {
  for (const uint64_t count : kCounts) {
    Tensor x = random_tensor(lab, 1, count);
    const Tensor more = random_tensor(lab, 2, count);
    const auto before = testing::values_of(x), added = testing::values_of(more);
    ASSERT_TRUE(lab.registry.run(context, ops::AccumulateArgs{more, x}));
    ASSERT_TRUE(lab.registry.run(context, ops::ScaleArgs{-0.5, x}));
    const auto values = testing::values_of(x);
    for (size_t i = 0; i < count; ++i) {
      const float sum = static_cast<float>(before[i]) + static_cast<float>(added[i]);
      EXPECT_EQ(values[i], -0.5F * sum) << i;
    }
    ASSERT_TRUE(lab.registry.run(context, ops::FillArgs{x, 0.25}));
    EXPECT_EQ(testing::values_of(x), std::vector<double>(count, 0.25));
  }
}

TEST_P(Routine, AddsUpSquares) {
  for (const uint64_t count : kCounts) {
    double sum = -1, expected = 0;
    const Tensor x = random_tensor(lab, 3, count);
    for (const double value : testing::values_of(x)) expected += value * value;
    ASSERT_TRUE(lab.registry.run(context, ops::SquareSumArgs{x, sum}));
    EXPECT_NEAR(sum, expected, 1e-12 * (1 + expected));
  }
}

TEST_P(Routine, UpdatesAsTheReferenceDoes) {
  for (const uint64_t count : kCounts) {
    for (const bool other : {false, true}) {
      const auto updated = [&](Lab& place) {
        const Tensor gradient = random_tensor(place, 4, count);
        std::vector<float> all;
        const auto keep = [&](const std::vector<float>& values) {
          all.insert(all.end(), values.begin(), values.end());
        };
        std::vector<float> p = floats(5, count), velocity = floats(6, other ? count : 0);
        EXPECT_TRUE(place.registry.run(place.context, ops::SgdArgs{p, gradient, velocity, 0.1, 0.9, 0.01, other}));
        keep(p), keep(velocity);
        std::vector<float> m = floats(7, count), v(count, 0.5F);
        EXPECT_TRUE(place.registry.run(
            place.context, ops::AdamArgs{p, gradient, m, v, 0.1, 0.9, 0.999, 1e-8, 0.01, 0.19, 0.002, other}));
        keep(p), keep(m), keep(v);
        std::vector<float> mean(count, 0.25F), buffer = floats(8, other ? count : 0);
        EXPECT_TRUE(
            place.registry.run(place.context, ops::RmsPropArgs{p, gradient, mean, buffer, 0.1, 0.99, 1e-8, 0.01, 0.9}));
        keep(p), keep(mean), keep(buffer);
        return all;
      };
      expect_near(updated(lab), updated(reference));
    }
  }
}

TEST_P(Routine, TurnsPositionsAsTheReferenceDoes) {
  ops::RopeConfig config{.rotary_dim = 10, .theta = 10000};
  for (const auto kind : {ops::RopeScaling::Kind::kNone, ops::RopeScaling::Kind::kLinear}) {
    config.scaling = {.kind = kind, .factor = 2};
    const auto tables = ops::rope_tables(context, config, {1000, 7});
    const auto expected = ops::rope_tables(reference.context, config, {1000, 7});
    ASSERT_TRUE(tables && expected);
    expect_near(tables->cosines, expected->cosines);
    expect_near(tables->sines, expected->sines);
  }
}

TEST(Backends, HaveABuiltInImplementationOfEveryFunctional) {
  for (const Backend* backend : testing::tested_backends()) {
    const Lab lab(*backend);
    for (const FunctionalInfo& info : all_functionals()) {
      EXPECT_EQ(lab.registry.implementations(info.name), std::vector<std::string>{std::string(info.builtin)})
          << backend->name;
    }
  }
}

}  // namespace
}  // namespace ballast
