// Which type each tensor of a model gets in a preset.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "ballast/archive/pattern.h"
#include "ballast/edit/quantize.h"
#include "ballast/formats/description.h"

namespace ballast {

// What a tensor is in its model, as far as mixtures ask.
enum class TensorRole : uint8_t { kOther, kEmbedding, kOutput, kKey, kValue, kAttentionOutput, kFeedDown };

// Chooses the type of each tensor of one model. Names of GGUF, of Hugging Face and of gpt.rs are understood.
class QuantizationMixture {
 public:
  // `is_calibrated`: there is an importance matrix, which some mixtures make use of.
  static Result<QuantizationMixture> make(const QuantizationPreset& preset, const Description& model,
                                          bool is_calibrated);

  Result<DType> type_of(const std::string& name) const;

 private:
  struct Place {
    TensorRole role = TensorRole::kOther;
    uint64_t layer = 0;
  };
  Result<Place> place_of(const std::string& name) const;
  Status study(const Description& model);

  const QuantizationPreset* preset_ = nullptr;
  bool is_calibrated_ = false;
  std::vector<Pattern> patterns_;  // one per row of the table of roles
  // Of the model.
  uint64_t layers_ = 0;
  uint64_t experts_ = 0;
  uint64_t heads_per_key_ = 1;  // query heads that share a key
  bool has_output_ = false;     // a matrix of its own behind the last layer
};

}  // namespace ballast
