// Model configs of other programs, as ours.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "ballast/base/result.h"
#include "ballast/formats/description.h"

namespace ballast {

// The metadata entry of a safetensors file that holds gpt.rs's config of the model: {"kind", "config", "runtime"}.
inline constexpr std::string_view kModelConfigKey = "ballast.model";

// A row of the table: whose rules a ModelConfig follows, and how its text becomes {"kind", "config"}.
struct ConfigSchema {
  std::string_view name;  // ModelConfig::schema
  // `sentence`: ModelFolder::sentence, or "null".
  std::string (*to_model_config)(const std::string& text, const std::string& sentence);
};
// Null where nobody knows how to run such a file.
const ConfigSchema* find_config_schema(std::string_view name);

// ", bert": what can be run and is no decoder, behind a list of those.
std::string other_architectures();

// The config that a file carries, if it is one of these. Of a GGUF file, whose config is its metadata: that as one
// object, without the lists of its tokenizer.
std::optional<ModelConfig> runnable_config(const Description& file);

}  // namespace ballast
