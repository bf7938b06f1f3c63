// How many bytes parameters may occupy: from what users and model configs say.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string_view>

#include "ballast/params/param_source.h"

namespace ballast {

// Bytes of all parameters together. Saturates.
uint64_t total_bytes(const ParamSource& source);

// The smallest budget with which a store over this source opens.
uint64_t smallest_budget(const ParamSource& source);

struct BudgetLimits {
  std::optional<uint64_t> bytes = std::nullopt;   // gpt.rs: device_budget_bytes
  std::optional<double> fraction = std::nullopt;  // of all parameters, 0 to 1; gpt.rs: device_weights_percent
  std::optional<uint64_t> cap = std::nullopt;     // gpt.rs: cache_budget_cap_bytes
};
// The least of those that are set; nullopt where none is. A fraction of the total is rounded down. kInvalidArgument for
// a fraction outside of [0, 1].
Result<std::optional<uint64_t>> effective_budget(const BudgetLimits& limits, uint64_t total);

// True for parameters of the first blocks, "blocks.<n>.<rest>" with n < layers (gpt.rs: prefetch_layers).
bool is_in_first_layers(std::string_view name, uint64_t layers);

}  // namespace ballast
