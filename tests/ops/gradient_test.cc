// Every gradient rule against finite differences, in f64 on the reference backend.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <set>

#include "ballast/device/host_access.h"
#include "tests/support/gradient_cases.h"
#include "tests/support/memory_meter.h"

namespace ballast {
namespace {

using testing::ConformanceCase;
using testing::GradientLab;
using ::testing::HasSubstr;

const Backend& reference() { return *find_backend("reference"); }

const std::vector<ConformanceCase>& all_cases() {
  static const std::vector<ConformanceCase> cases = testing::gradient_cases();
  return cases;
}

double loss_after(GradientLab& lab, size_t variable, size_t element, double by) {
  lab.move(variable, element, by);
  const auto loss = lab.loss();
  lab.move(variable, element, -by);
  EXPECT_TRUE(loss) << loss.error().message;
  return loss ? *host_data<const double>(*loss) : 0;
}

// Central differences with two steps, of which the fourth power of the larger is what is left of the error. Steps are
// powers of two, so that f32 holds what was moved.
double slope(GradientLab& lab, size_t variable, size_t element) {
  constexpr double kStep = 0x1p-11;
  const auto difference = [&](double step) {
    return (loss_after(lab, variable, element, step) - loss_after(lab, variable, element, -step)) / (2 * step);
  };
  return (4 * difference(kStep / 2) - difference(kStep)) / 3;
}

std::vector<std::string> functionals() {
  std::set<std::string> names;
  for (const ConformanceCase& test : all_cases()) names.insert(test.functional);
  return {names.begin(), names.end()};
}

class Gradient : public ::testing::TestWithParam<std::string> {};

INSTANTIATE_TEST_SUITE_P(Functionals, Gradient, ::testing::ValuesIn(functionals()),
                         [](const auto& test) { return test.param; });

TEST_P(Gradient, IsWhatFiniteDifferencesSay) {
  constexpr double kSeed = -0.75;
  constexpr double kRelative = 1e-7;  // to 1 where the slope is smaller
  constexpr size_t kMost = 40;        // elements of each variable
  for (const ConformanceCase& test : all_cases()) {
    if (test.functional != GetParam()) continue;
    SCOPED_TRACE(test.name);
    GradientLab lab(test, reference(), DType::kF64);
    const auto gradients = lab.gradients(kSeed);
    ASSERT_TRUE(gradients) << gradients.error().message;
    for (size_t variable = 0; variable < lab.variable_count(); ++variable) {
      ASSERT_EQ((*gradients)[variable].size(), lab.size(variable));
      const size_t every = lab.size(variable) / kMost + 1;
      for (size_t element = 0; element < lab.size(variable); element += every) {
        const double expected = kSeed * slope(lab, variable, element);
        ASSERT_NEAR((*gradients)[variable][element], expected, kRelative * std::max(1.0, std::abs(expected)))
            << "variable " << variable << " element " << element;
      }
    }
  }
}

TEST_P(Gradient, AllocatesNothingAfterTheFirstPass) {
  for (const ConformanceCase& test : all_cases()) {
    if (test.functional != GetParam()) continue;
    SCOPED_TRACE(test.name);
    GradientLab lab(test, reference(), DType::kF32);
    const auto pass = [&] {
      lab.tape.reset();
      lab.lab.context.tape = &lab.tape;
      for (const Tensor& x : lab.trial().x) lab.tape.watch(x);
      const auto loss = lab.loss();
      return loss && lab.tape.backward(lab.lab.context, *loss);
    };
    ASSERT_TRUE(pass());
    ASSERT_TRUE(pass());
    const uint64_t blocks = lab.lab.workspace.allocations();
    const testing::MemoryMeter meter;
    ASSERT_TRUE(pass());
    EXPECT_EQ(meter.peak(), 0U);
    EXPECT_EQ(lab.lab.workspace.allocations(), blocks);
  }
}

TEST(Gradients, AreThereForEveryFunctionalButAFew) {
  const auto names = functionals();
  const std::set<std::string_view> tested(names.begin(), names.end());
  const auto without = testing::functionals_without_gradient();
  for (const FunctionalInfo& info : all_functionals()) {
    const bool excused = std::ranges::find(without, info.name) != without.end();
    EXPECT_NE(tested.contains(info.name), excused)
        << "add cases for " << info.name << " to tests/support/gradient_cases.cc";
  }
}

struct GradientsOfOne : ::testing::Test {
  ConformanceCase test{"linear", "", {{4, 3}}, {{3, 5}, {5}}, [](testing::Trial& t) {
                         return ops::linear(t.context, t.x[0], t.params[0], {.bias = &t.params[1]});
                       }};
  GradientLab lab{test, reference(), DType::kF64};
  Context& context = lab.lab.context;
};

TEST_F(GradientsOfOne, AreNotMadeForWhatIsFrozen) {
  lab.param_gradients.freeze(lab.trial().params[0]);
  ASSERT_TRUE(lab.gradients());
  EXPECT_EQ(lab.param_gradients.find(lab.trial().params[0]), nullptr);
  EXPECT_NE(lab.param_gradients.find(lab.trial().params[1]), nullptr);
}

TEST_F(GradientsOfOne, AddUpUntilTheyAreCleared) {
  const auto once = lab.gradients();
  ASSERT_TRUE(once);
  context.tape = &lab.tape;
  const auto loss = lab.loss();
  ASSERT_TRUE(loss);
  ASSERT_TRUE(lab.tape.backward(context, *loss, 2));
  const auto sums = testing::values_of(*lab.param_gradients.find(lab.trial().params[0]));
  for (size_t i = 0; i < sums.size(); ++i) EXPECT_NEAR(sums[i], 3 * (*once)[1][i], 1e-12);
  lab.param_gradients.clear();
  EXPECT_EQ(lab.param_gradients.find(lab.trial().params[0]), nullptr);
}

TEST_F(GradientsOfOne, AreNoneWhereNothingIsFollowed) {
  for (const Param& param : lab.trial().params) lab.param_gradients.freeze(param);
  context.tape = &lab.tape;
  const auto loss = lab.loss();
  ASSERT_TRUE(loss);
  EXPECT_TRUE(lab.tape.backward(context, *loss));
  EXPECT_EQ(lab.tape.gradient(lab.trial().x[0]), nullptr);
}

TEST_F(GradientsOfOne, GoOutFromOneElement) {
  const Status status = lab.tape.backward(context, lab.trial().x[0]);
  ASSERT_FALSE(status);
  EXPECT_THAT(status.error().message, HasSubstr("a loss of one element, not from [4, 3]"));
}

TEST(Gradients, NameAFunctionalThatHasNone) {
  const ConformanceCase test{
      "batch_statistics", "", {{4, 3}}, {}, [](testing::Trial& t) { return ops::batch_statistics(t.context, t.x[0]); }};
  GradientLab lab(test, reference(), DType::kF64);
  const auto gradients = lab.gradients();
  ASSERT_FALSE(gradients);
  EXPECT_EQ(gradients.error().code, ErrorCode::kUnsupported);
  EXPECT_THAT(gradients.error().message, HasSubstr("batch_statistics has no gradient"));
}

// A frozen parameter of 16 bits is read like any other; its gradient would have nowhere to go.
TEST(Gradients, OfParametersOfHalfPrecisionAreF32) {
  testing::Lab lab;
  const auto store = testing::make_store({testing::make_param("w", DType::kF16, {2, 2}, {1, 2, 3, 4})});
  const Param w = testing::param_of(*store, "w");
  ParamGradients gradients(lab.workspace);
  Tape tape(gradients);
  const Tensor x = lab.tensor({1, 2}, {1, 2});
  const auto run = [&]() -> Status {
    lab.context.tape = &tape;
    tape.watch(x);
    BALLAST_TRY(const Tensor y, ops::linear(lab.context, x, w));
    BALLAST_TRY(const Tensor loss, ops::sum_all(lab.context, y));
    return tape.backward(lab.context, loss);
  };
  ASSERT_TRUE(run());
  EXPECT_EQ(testing::values_of(*tape.gradient(x)), (std::vector<double>{3, 7}));
  tape.reset();
  gradients.train(w);
  ASSERT_TRUE(run());
  const Tensor* gradient = gradients.find(w);
  ASSERT_NE(gradient, nullptr);
  EXPECT_EQ(gradient->dtype(), DType::kF32);
  EXPECT_EQ(testing::values_of(*gradient), (std::vector<double>{1, 1, 2, 2}));
}

// Rounding operands to bf16 moves a sum by at most the rounding of its terms; and the operands really are rounded.
TEST(Gradients, RoundOperandsOfProductsWhereTheContextSaysSo) {
  for (const std::string_view functional : {"linear", "matmul", "conv2d", "attention"}) {
    for (const ConformanceCase& test : all_cases()) {
      const bool bends = test.name.find("relu") != std::string::npos;  // and rounding may cross the bend
      if (test.functional != functional || bends) continue;
      SCOPED_TRACE(test.functional + " " + test.name);
      GradientLab exact(test, reference(), DType::kF64);
      GradientLab rounded(test, reference(), DType::kF32);
      rounded.lab.context.product_dtype = DType::kBF16;
      const auto a = exact.gradients();
      const auto b = rounded.gradients();
      ASSERT_TRUE(a) << a.error().message;
      ASSERT_TRUE(b) << b.error().message;
      EXPECT_EQ(rounded.lab.context.product_dtype, DType::kBF16);
      for (size_t variable = 0; variable < a->size(); ++variable) {
        double largest = 1, distance = 0;
        for (size_t i = 0; i < (*a)[variable].size(); ++i) {
          largest = std::max(largest, std::abs((*a)[variable][i]));
          distance = std::max(distance, std::abs((*a)[variable][i] - (*b)[variable][i]));
        }
        EXPECT_LE(distance, 0.05 * largest) << "variable " << variable;
      }
    }
  }
  // 1 + 2^-9 is 1 in bf16.
  testing::Lab lab;
  const auto store = testing::make_store({testing::make_param("w", DType::kF32, {1, 1}, {1 + 0x1p-9})});
  const Tensor x = lab.tensor({1 + 0x1p-9}, {1, 1});
  lab.context.product_dtype = DType::kBF16;
  const auto y = ops::linear(lab.context, x, testing::param_of(*store, "w"));
  ASSERT_TRUE(y);
  EXPECT_EQ(testing::values_of(*y), std::vector<double>{1});
  lab.context.product_dtype = DType::kF16;
  EXPECT_FALSE(ops::linear(lab.context, x, testing::param_of(*store, "w")));
}

}  // namespace
}  // namespace ballast
