// What a Hugging Face folder keeps beside its weights and a GGUF file takes in.
#pragma once

#include <optional>
#include <string>

#include "ballast/base/result.h"

namespace ballast {

// The texts of files, where they are there.
struct GgufSourceFiles {
  std::string folder;                         // as it was given
  std::optional<std::string> tokenizer_json;  // vocab.json with merges.txt, and gpt.rs's own file, as such a document
  std::optional<std::string> tokenizer_config;
  std::optional<std::string> sentencepiece;  // tokenizer.model
  std::optional<std::string> generation_config;
  std::optional<std::string> sentence;  // ModelFolder::sentence

  std::string name_of(std::string_view file) const;  // for errors
};

// `path`: the folder, or a file in it; "-" or empty: nothing is there.
Result<GgufSourceFiles> read_gguf_source_files(const std::string& path);

}  // namespace ballast
