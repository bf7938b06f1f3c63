// The files of a Hugging Face folder that say how text becomes tokens, written from a vocabulary of GGUF.
#pragma once

#include <string>
#include <vector>

#include "ballast/formats/description.h"
#include "ballast/text/tokenizer/gguf_vocabulary.h"

namespace ballast {

struct FolderTokenizer {
  const GgufVocabulary& vocabulary;
  const TokenizerDescription& description;  // what describe_gguf_vocabulary makes of it
  const Description& file;                  // whose metadata holds the chat template
  const std::string& where;                 // names it in errors
};

// tokenizer.json: the same tokens as the file's own, by Hugging Face's tokenizers. kUnsupported where those cannot.
Result<std::string> folder_tokenizer_json(const FolderTokenizer& tokenizer);
// tokenizer_config.json, with the chat template.
std::string folder_tokenizer_config(const FolderTokenizer& tokenizer, uint64_t context);
// generation_config.json: what begins and ends a text, and how the file says to sample.
std::string folder_generation_config(const TokenMarks& marks, const Description& file);

// The "model" of tokenizer.json: see folder_token_model.cc.
Result<std::string> folder_token_model(const FolderTokenizer& tokenizer);

}  // namespace ballast
