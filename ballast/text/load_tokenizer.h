// Tokenizers from the file system.
#pragma once

#include <optional>
#include <string>

#include "ballast/archive/model_source.h"
#include "ballast/text/tokenizer.h"

namespace ballast {

// `path`: a tokenizer.json, a vocab.json with a merges.txt beside it, a SentencePiece model (tokenizer.model), a GGUF
// file with a vocabulary, or a folder that holds one of the first three; or "bytes", unless there is such a file: then
// a token is a byte. Content decides, not the name. A tokenizer_config.json beside the first three says what its marks
// are. kUnknownFormat says what was found instead.
Result<Tokenizer> load_tokenizer(const std::string& path);

// The tokenizer of a model: the vocabulary of a GGUF file, else what stands beside the weights, or the one GGUF file of
// a folder. kNotFound where there is none, or no model.
Result<Tokenizer> find_tokenizer(const ModelSource& model);

// Where that is; nullopt where there is none.
std::optional<std::string> find_tokenizer_beside(const std::string& model_path);

}  // namespace ballast
