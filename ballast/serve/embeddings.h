// Texts become vectors: OpenAI's /v1/embeddings and Ollama's /api/embed.
#pragma once

#include <atomic>
#include <chrono>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <variant>
#include <vector>

#include "ballast/runtime/embedder.h"
#include "ballast/serve/fields.h"
#include "ballast/serve/model_host.h"

namespace ballast::serve {

struct EmbeddingAsk {
  std::string model{};
  std::vector<std::string> texts{};
  std::optional<uint64_t> width{};  // that the vectors must have
  bool is_base64 = false;           // little-endian f32, as OpenAI's clients ask for it
  std::optional<std::chrono::steady_clock::time_point> deadline{};
};

void read_openai_embeddings(Fields& fields, EmbeddingAsk& ask);
std::string openai_embeddings(const EmbeddingAsk& ask, std::span<const Embedding> embeddings);

// The answer that `write` makes of the vectors, or why there is none. A text that would have to be cut is refused.
std::variant<HttpAnswer, Refusal> embed_for(OpenModel& model, const EmbeddingAsk& ask, const std::atomic<bool>& left,
                                            const std::function<std::string(std::span<const Embedding>)>& write);

std::string to_base64(std::span<const unsigned char> bytes);

}  // namespace ballast::serve
