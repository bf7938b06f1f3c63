// Importance matrices: how much each input of each weight matters, as a text showed that went through the model.
//
// An output moves by the error of a weight times its input, so an error counts with the mean square of that input.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "ballast/base/result.h"
#include "ballast/formats/description.h"

namespace ballast {

// Of one weight [.., outputs, inputs]: sums over the rows that were multiplied with it.
struct WeightImportance {
  uint64_t inputs = 0;
  std::vector<double> square_sums;  // [matrices, inputs]: one matrix, or one for each expert
  std::vector<uint64_t> rows;       // per matrix: how many were summed up

  uint64_t matrices() const { return rows.size(); }
};

// By the name of the weight.
using ImportanceMatrix = std::map<std::string, WeightImportance, std::less<>>;

// What encoders are given: per input of each matrix a weight above zero, of mean 1. Experts that the text never reached
// have 1 throughout. kInvalidArgument where the importance is of a weight with another shape.
Result<std::vector<float>> importance_weights(const WeightImportance& importance, const TensorInfo& tensor);

}  // namespace ballast
