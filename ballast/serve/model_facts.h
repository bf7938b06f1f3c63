// What clients that list models are told of one. Known since it was opened for the first time.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "ballast/formats/archive.h"

namespace ballast::serve {

// What it can be asked for.
enum class ModelUse : uint8_t { kChat, kCompletion, kEmbedding };

struct ModelFacts {
  ModelUse use = ModelUse::kCompletion;
  std::string format;          // of its file: "gguf"
  std::string family;          // "llama"
  std::string parameter_size;  // "134.52M"
  std::string quantization;    // "Q4_K_M"
  uint64_t stored_bytes = 0;   // of its files
  uint64_t context_length = 0;
  bool is_in_host_memory = true;
};

// All but what only the running model knows: its use, its context and where it computes.
ModelFacts facts_of(const Archive& archive, std::string_view family);

// What a model can do, each by its name: of a chat model "chat" and "completion".
std::span<const std::string_view> uses_of(ModelUse use);

}  // namespace ballast::serve
