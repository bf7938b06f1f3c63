// The JSON that makes a file a model: {"kind", "config", "runtime"}.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "ballast/base/result.h"
#include "ballast/models/kind_config.h"

namespace ballast {

struct WeightStreaming {
  bool enabled = false;
  std::optional<uint64_t> device_budget_bytes;
  std::optional<double> device_weights_fraction;  // "device_weights_percent", which is a fraction despite its name
  std::optional<uint64_t> cache_budget_cap_bytes;
  std::optional<uint64_t> prefetch_layers;
  std::optional<uint64_t> small_param_persist_threshold;
};

struct ModelDescription {
  std::string kind;
  KindConfig config;
  std::vector<std::pair<std::string, std::string>> functional_overrides;
  WeightStreaming streaming;
};

// Also takes what gpt.rs wrote before there were kinds: a flat GPT config. Unknown keys are ignored. `where` names the
// file in errors.
Result<ModelDescription> parse_model_config(std::string_view json, const std::string& where);

}  // namespace ballast
