// Tokenizers from the file system.
#pragma once

#include <optional>
#include <string>

#include "ballast/text/tokenizer.h"

namespace ballast {

// `path`: a tokenizer.json, a vocab.json with a merges.txt beside it, or a folder that holds either.
Result<Tokenizer> load_tokenizer(const std::string& path);

// The tokenizer that stands beside a model file; nullopt where there is none.
std::optional<std::string> find_tokenizer_beside(const std::string& model_path);

}  // namespace ballast
