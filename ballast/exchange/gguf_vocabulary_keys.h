// A tokenizer's files in the keys of llama.cpp's converter.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "ballast/exchange/gguf_source_files.h"
#include "ballast/formats/description.h"

namespace ballast {

struct GgufVocabularyRequest {
  const GgufSourceFiles& files;
  std::string_view config_json;
  std::string_view architecture;
  uint64_t vocab = 0;  // rows of the embedding: the tokens that are written
};

// tokenizer.*: the model, its tokens with types, scores or merges, the marks, the chat template. Without a tokenizer
// the model is "none", and a note says so. kUnsupported, naming the part, where llama.cpp would give other tokens.
Result<std::vector<MetaEntry>> gguf_vocabulary_keys(const GgufVocabularyRequest& request,
                                                    std::vector<std::string>& notes);

}  // namespace ballast
