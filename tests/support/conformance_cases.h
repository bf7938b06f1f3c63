// Every functional on shapes that are hard on vector loops: nothing, one, primes, multiples of vectors plus or minus
// one.
#pragma once

#include <functional>
#include <span>
#include <string>
#include <vector>

#include "tests/support/ops_testing.h"

namespace ballast::testing {

// A case while it runs: its inputs as activations of one type, its parameters in some store.
struct Trial {
  Context& context;
  DType dtype;  // of activations
  std::vector<Tensor> x;
  std::vector<Param> params;
};

struct ConformanceCase {
  std::string functional;
  std::string name;           // the shapes
  std::vector<Dims> inputs;   // random values
  std::vector<Shape> params;  // random values
  std::function<Result<Tensor>(Trial&)> run;
  // Largest difference from the exact result, for values of about 1. Every case states how it comes about.
  double tolerance = 0;
  size_t constants = 0;  // of the parameters, the last ones: nobody trains them
};

std::span<const UnaryOp> all_unary();

std::vector<ConformanceCase> conformance_cases();

}  // namespace ballast::testing
