// Hugging Face folders: what stands beside the weights and makes them a model.
#pragma once

#include <optional>
#include <string>

#include "ballast/base/result.h"
#include "ballast/formats/description.h"

namespace ballast {

// ModelConfig::schema of a config.json.
inline constexpr std::string_view kHuggingFaceSchema = "huggingface";

struct ModelFolder {
  std::optional<ModelConfig> config;             // config.json, where it names a model_type
  std::optional<std::string> generation_config;  // generation_config.json
  // What sentence-transformers does with the states of the model: modules.json and what each module keeps, as
  // {"modules": ["Transformer", "Pooling", ...], "configs": {"Pooling": {...}, ...}, "settings": {...}}, the last being
  // config_sentence_transformers.json, where it is there.
  std::optional<std::string> sentence;
};

// `path`: the folder, or a file in it. Files that are not there are no error; those that are no JSON, or too large to
// be what their name says, are.
Result<ModelFolder> read_model_folder(const std::string& path);

// Whether the text is a config.json of transformers.
bool is_huggingface_config(std::string_view text);

}  // namespace ballast
