// Hugging Face folders: what stands beside the weights and makes them a model.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "ballast/base/result.h"
#include "ballast/formats/description.h"

namespace ballast {

class FileSet;

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
Result<ModelFolder> read_model_folder(const FileSet& files);

// What of the folder belongs to its model beside the weights: config.json and its like, the tokenizer, the chat
// template, with the names that they have in it. None where there is no config.json of a model.
Result<std::vector<std::string>> list_companions(const std::string& path);

// Whether a file of this name (inside its folder: "config.json", "1_Pooling/config.json") belongs to the model of a
// folder that we write: the weights, their index and manifest, and companions. What else a folder holds is the user's.
bool is_model_folder_file(std::string_view inside);

// Whether what stands beside a file of this format belongs to it; other formats carry what they need.
bool takes_config_from_folder(const Description& file);

// Whether the text is a config.json of transformers.
bool is_huggingface_config(std::string_view text);

}  // namespace ballast
