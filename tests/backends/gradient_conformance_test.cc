// The gradient of every functional on every backend of the table, in f32, against the reference in f64; and the same
// bits for any number of threads.
#include <gtest/gtest.h>

#include <cmath>
#include <set>

#include "tests/support/gradient_cases.h"

namespace ballast {
namespace {

using testing::ConformanceCase;
using testing::GradientLab;

const std::vector<ConformanceCase>& all_gradient_cases() {
  static const std::vector<ConformanceCase> cases = testing::gradient_cases();
  return cases;
}

struct GradientSubject {
  const Backend* backend;
  std::string functional;
};

std::vector<GradientSubject> gradient_subjects() {
  std::set<std::string> names;
  for (const ConformanceCase& test : all_gradient_cases()) names.insert(test.functional);
  std::vector<GradientSubject> all;
  for (const Backend* backend : testing::tested_backends()) {
    for (const std::string& name : names) all.push_back({backend, name});
  }
  return all;
}

class GradientConformance : public ::testing::TestWithParam<GradientSubject> {
 protected:
  template <typename Body>
  void for_each_case(const Body& body) {
    for (const ConformanceCase& test : all_gradient_cases()) {
      if (test.functional != GetParam().functional) continue;
      SCOPED_TRACE(test.name);
      ASSERT_NO_FATAL_FAILURE(body(test));
    }
  }
  const Backend& backend() const { return *GetParam().backend; }
};

INSTANTIATE_TEST_SUITE_P(Backends, GradientConformance, ::testing::ValuesIn(gradient_subjects()), [](const auto& test) {
  return std::string(test.param.backend->name) + "_" + test.param.functional;
});

TEST_P(GradientConformance, ComesWithinTheToleranceOfTheReferenceInF64) {
  for_each_case([&](const ConformanceCase& test) {
    GradientLab exact_lab(test, *find_backend("reference"), DType::kF64);
    GradientLab lab(test, backend(), DType::kF32);
    const auto exact = exact_lab.gradients();
    const auto result = lab.gradients();
    ASSERT_TRUE(exact) << exact.error().message;
    ASSERT_TRUE(result) << result.error().message;
    for (size_t variable = 0; variable < exact->size(); ++variable) {
      for (size_t i = 0; i < (*exact)[variable].size(); ++i) {
        const double expected = (*exact)[variable][i];
        const double value = (*result)[variable][i];
        // Not EXPECT_NEAR: a NaN must fail too.
        ASSERT_TRUE(std::abs(value - expected) <= test.tolerance * std::max(1.0, std::abs(expected)))
            << "variable " << variable << " element " << i << " is " << value << ", not " << expected;
      }
    }
  });
}

TEST_P(GradientConformance, HasTheSameBitsForAnyNumberOfThreads) {
  for_each_case([&](const ConformanceCase& test) {
    GradientLab one(test, backend(), DType::kF32, 1);
    const auto alone = one.gradients();
    ASSERT_TRUE(alone) << alone.error().message;
    for (const unsigned threads : {2U, 7U}) {
      GradientLab many(test, backend(), DType::kF32, threads);
      const auto together = many.gradients();
      ASSERT_TRUE(together) << together.error().message;
      EXPECT_EQ(*alone, *together) << threads << " threads";
    }
  });
}

}  // namespace
}  // namespace ballast
