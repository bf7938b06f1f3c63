#include "ballast/edit/importance.h"

#include <fmt/format.h>

#include <algorithm>

namespace ballast {

namespace {

// Of the mean: inputs that a short text leaves still may carry something in another.
constexpr double kLeastWeight = 1e-4;

// Mean 1, none at zero.
void scale_to_mean_one(std::span<const double> sums, std::span<float> weights) {
  double total = 0;
  for (const double sum : sums) total += sum;
  const double mean = total / static_cast<double>(sums.size());
  for (size_t i = 0; i < sums.size(); ++i) {
    weights[i] = mean > 0 ? static_cast<float>(std::max(sums[i] / mean, kLeastWeight)) : 1.0F;
  }
}

}  // namespace

Result<std::vector<float>> importance_weights(const WeightImportance& importance, const TensorInfo& tensor) {
  const Shape& shape = tensor.shape;
  const bool is_matrix = shape.rank() == 2 || shape.rank() == 3;
  const uint64_t inputs = is_matrix ? shape[shape.rank() - 1] : 0;
  const uint64_t matrices = shape.rank() == 3 ? shape[0] : 1;
  if (importance.inputs != inputs || importance.matrices() != matrices || inputs == 0) {
    return make_error(ErrorCode::kInvalidArgument,
                      fmt::format("tensor \"{}\" {}: the importance matrix has {} x {} inputs for it, so it was made "
                                  "with another model",
                                  tensor.name, shape.to_string(), importance.matrices(), importance.inputs));
  }
  std::vector<float> weights(importance.square_sums.size());
  for (uint64_t matrix = 0; matrix < matrices; ++matrix) {
    scale_to_mean_one(std::span(importance.square_sums).subspan(matrix * inputs, inputs),
                      std::span(weights).subspan(matrix * inputs, inputs));
  }
  return weights;
}

}  // namespace ballast
