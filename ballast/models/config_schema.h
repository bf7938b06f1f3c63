// Model configs of other programs, as ours.
#pragma once

#include <span>
#include <string>
#include <string_view>

#include "ballast/base/result.h"
#include "ballast/formats/description.h"

namespace ballast {

// A row of the table: whose rules a ModelConfig follows, and how it becomes {"kind", "config"}.
struct ConfigSchema {
  std::string_view name;  // ModelConfig::schema
  Result<std::string> (*to_model_config)(const ModelConfig& config, const Description& file);
};
// Null where nobody knows how to run such a file.
const ConfigSchema* find_config_schema(std::string_view name);

}  // namespace ballast
