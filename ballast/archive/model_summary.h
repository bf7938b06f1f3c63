// What people ask first of a file that holds a language model, told from its metadata and its tensors alone.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "ballast/formats/description.h"

namespace ballast {

struct TypeShare {
  DType dtype;
  uint64_t tensors = 0;
  uint64_t elements = 0;
  uint64_t bytes = 0;
};

// Absent and empty: the file does not say.
struct ModelSummary {
  std::string architecture;  // "llama"
  std::string name;
  uint64_t parameters = 0;  // elements of all tensors
  std::optional<uint64_t> context;
  std::optional<uint64_t> layers;
  std::optional<uint64_t> width;
  std::optional<uint64_t> heads;
  std::optional<uint64_t> kv_heads;
  std::optional<uint64_t> experts;
  std::string file_type;  // "Q4_K_M"
  std::string tokenizer;  // "gpt2"
  std::optional<uint64_t> vocabulary;
  bool has_chat_template = false;
  std::vector<TypeShare> types;  // most bytes first
  uint64_t weight_bytes = 0;     // of all tensors, as they are stored
  // Keys and values of one token in all layers, in f32.
  std::optional<uint64_t> cache_bytes_per_token;
};

// Of descriptions with GGUF's keys, whatever format they are stored in, or with the config.json of a Hugging Face
// folder; nullopt without `general.architecture` and `model_type`. Tokenizer and template of a folder are files of
// their own, which a description knows nothing of.
std::optional<ModelSummary> summarise_model(const Description& description);

}  // namespace ballast
