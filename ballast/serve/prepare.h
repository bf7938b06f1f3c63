// From what is asked of a text model to requests for its engine.
#pragma once

#include <memory>
#include <optional>
#include <string_view>

#include "ballast/serve/text_answer.h"
#include "ballast/serve/text_ask.h"

namespace ballast::serve {

// Texts that cannot fit are not turned into tokens, only to find that they are too many: that may take seconds, in
// which no other request to the model is prepared.
std::optional<Refusal> check_text_bytes(std::string_view what, uint64_t bytes, uint64_t most_tokens,
                                        std::string_view param);

// The tokens of each prompt, or of the conversation. What users wrote never becomes a special token.
struct AskedPrompts {
  std::vector<std::vector<TokenId>> tokens{};
  bool begins_thinking = false;  // the template ends with the mark that begins the reasoning
};
std::optional<Refusal> encode_ask(const OpenModel& model, const TextAsk& ask, AskedPrompts& prompts);

// Log-probabilities of a whole answer stay in memory up to its end, and those of a prompt that is echoed in any case.
// In JSON each has some 70 bytes.
inline constexpr uint64_t kMostLogProbabilities = 500'000;
// `most_tokens`: of the texts that continue each prompt. Where the request does not limit them, what is too much is
// taken off; where it does, it is told.
std::optional<Refusal> fit_log_probabilities(const TextAsk& ask, const AskedPrompts& prompts,
                                             std::vector<uint64_t>& most_tokens);

// Starts the answer and puts its requests in line, or tells why not. `seed`: where the request has none.
std::optional<Refusal> prepare_text(OpenModel& model, const ServiceOptions& options, const TextAsk& ask, uint64_t seed,
                                    const std::shared_ptr<TextAnswer>& answer);

}  // namespace ballast::serve
