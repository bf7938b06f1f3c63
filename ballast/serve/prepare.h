// From what is asked of a text model to requests for its engine.
#pragma once

#include <memory>
#include <optional>

#include "ballast/serve/text_answer.h"
#include "ballast/serve/text_ask.h"

namespace ballast::serve {

// The tokens of each prompt, or of the conversation. What users wrote never becomes a special token.
struct AskedPrompts {
  std::vector<std::vector<TokenId>> tokens{};
  bool begins_thinking = false;  // the template ends with the mark that begins the reasoning
};
std::optional<Refusal> encode_ask(const OpenModel& model, const TextAsk& ask, AskedPrompts& prompts);

// Starts the answer and puts its requests in line, or tells why not. `seed`: where the request has none.
std::optional<Refusal> prepare_text(OpenModel& model, const ServiceOptions& options, const TextAsk& ask, uint64_t seed,
                                    const std::shared_ptr<TextAnswer>& answer);

}  // namespace ballast::serve
