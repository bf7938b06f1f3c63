// What lists of cases share: shapes and tolerances.
#pragma once

#include <fmt/format.h>

#include "tests/support/conformance_cases.h"

namespace ballast::testing {

using Cases = std::vector<ConformanceCase>;

// Tolerances. A unit in the last place of 1 is 1.2e-7.
inline constexpr double kExact = 0;           // elements are moved, not computed with
inline constexpr double kElementwise = 4e-7;  // a few roundings
inline constexpr double kFunction = 2e-6;     // exp, erf and tanh as vectors have them
// A sum of k products of values below 1: each step rounds a partial sum of about sqrt(k) / 3.
inline double sum_of(uint64_t k) { return 1e-6 + 1e-7 * static_cast<double>(k); }

inline const std::vector<Dims>& vectors() {
  static const std::vector<Dims> dims = {{0},    {1},     {7},        {31},     {65},      {3, 5},
                                         {2, 0}, {5, 33}, {2, 3, 17}, {1, 257}, {67, 129}, {2, 2, 2, 2, 2, 3}};
  return dims;
}

inline void add_one_input(Cases& cases, std::string_view functional, std::string_view variant, double tolerance,
                          const std::function<Result<Tensor>(Trial&)>& run) {
  for (const Dims& dims : vectors()) {
    cases.push_back(
        {std::string(functional), fmt::format("{} {}", variant, dims.to_string()), {dims, dims}, {}, run, tolerance});
  }
}

struct CaseShapes {
  std::vector<Dims> inputs;
  std::vector<Shape> params = {};
};

inline void add_case(Cases& cases, std::string_view functional, const std::string& name, CaseShapes shapes,
                     std::function<Result<Tensor>(Trial&)> run, double tolerance) {
  cases.push_back(
      {std::string(functional), name, std::move(shapes.inputs), std::move(shapes.params), std::move(run), tolerance});
}

// Functionals that training adds.
void add_training_cases(Cases& cases);

}  // namespace ballast::testing
