// What the name of a model says: "SmolLM2-135M-Instruct".
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "ballast/base/result.h"

namespace ballast {

// Empty where the name does not say.
struct GgufModelId {
  std::string name;          // "SmolLM2 135M Instruct"
  std::string organization;  // of "organization/name"
  std::string basename;      // "SmolLM2"
  std::string finetune;      // "Instruct"
  std::string version;       // "v0.2"
  std::string size_label;    // "135M"
};

// As llama.cpp's converter guesses: a number with a letter is a size where it is near `params`, the number of
// parameters, and otherwise the length of a context.
Result<GgufModelId> parse_gguf_model_id(std::string_view id, double params);

}  // namespace ballast
