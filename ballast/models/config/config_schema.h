// Model configs of other programs, as ours.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "ballast/base/result.h"
#include "ballast/formats/description.h"
#include "ballast/models/config/model_config.h"

namespace ballast {

// The metadata entry of a safetensors file that holds gpt.rs's config of the model: {"kind", "config", "runtime"}.
inline constexpr std::string_view kModelConfigKey = "ballast.model";

// What a file whose config follows these rules (ModelConfig::schema) is: gptrs, huggingface or gguf; others are
// kUnsupported. `sentence`: ModelFolder::sentence. `where` names the file in errors.
Result<ModelDescription> describe_model(const ModelConfig& config, const std::optional<std::string>& sentence,
                                        const std::string& where);

// ", bert": what can be run and is no decoder, behind a list of those.
std::string other_architectures();

// The config that a file carries, if it is one of these. Of a GGUF file, whose config is its metadata: that as one
// object, without the lists of its tokenizer.
std::optional<ModelConfig> runnable_config(const Description& file);

}  // namespace ballast
