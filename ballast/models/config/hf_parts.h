// What config.json says alike of decoders and of encoders.
#pragma once

#include <string_view>

#include "ballast/models/kind_config.h"
#include "ballast/ops/ops.h"

namespace ballast {

// What a field names; `otherwise` where it is absent.
Result<Activation> hf_activation(const JsonObject& config, std::string_view field, std::string_view otherwise);

// kInvalidArgument where the file asks for what changes every number and what no model here does, whatever its
// model_type: weights that were quantised, layers that differ from each other.
Status refuse_hf_switches(const JsonObject& config);

}  // namespace ballast
