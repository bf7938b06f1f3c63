// Every functional that has a gradient, on shapes that are hard on loops.
#pragma once

#include <memory>
#include <string_view>
#include <vector>

#include "ballast/ops/tape.h"
#include "ballast/params/trained_params.h"
#include "tests/support/conformance_cases.h"

namespace ballast::testing {

// `tolerance` of a case: largest difference of a gradient computed in f32 from the exact one, for values of about 1.
std::vector<ConformanceCase> gradient_cases();

// Functionals that have no gradient.
std::span<const std::string_view> functionals_without_gradient();

// Distinct values between -1 and 1 that keep their distance from 0 and from those of other seeds, exact in f32 also
// after a small step: no kink of a function is near.
std::vector<double> spread_values(uint64_t seed, size_t count);

// A case with its tape: inputs are watched, parameters are trained.
class GradientLab {
 public:
  // Fails the test where a store or a tensor refuses.
  GradientLab(const ConformanceCase& test, const Backend& backend, DType dtype, unsigned threads = 1);

  // The sum over the output of each element times a weight of its own, as a tensor of one element.
  Result<Tensor> loss();
  // The gradients of all inputs, then of all parameters, of `seed` times the loss: flat, zeros where nothing came.
  Result<std::vector<std::vector<double>>> gradients(double seed = 1);

  size_t variable_count() const { return trial_.x.size() + trained_; }
  size_t size(size_t variable) const;
  // Changes one element of an input or of a parameter.
  void move(size_t variable, size_t element, double by);

  Lab lab;
  ParamGradients param_gradients;
  Tape tape;
  RandomStream random;
  const Trial& trial() const { return trial_; }

 private:
  const ConformanceCase& test_;
  std::shared_ptr<TrainedParams> values_;
  std::unique_ptr<ParamStore> store_;
  Trial trial_;
  size_t trained_;  // parameters, the first ones
  Tensor weights_;  // of the output
};

}  // namespace ballast::testing
