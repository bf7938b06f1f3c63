// The members of a request that say how tokens are chosen and when a text ends.
#pragma once

#include <array>
#include <string>
#include <string_view>
#include <vector>

#include "ballast/serve/fields.h"
#include "ballast/serve/text_ask.h"

namespace ballast::serve {

struct AskLimits {
  uint64_t most_choices = 8;
};

// temperature, top_p, top_k, min_p, penalties, seed, logit_bias: by the names of OpenAI, llama-server and vLLM.
// Ollama's options have the same ones.
void read_sampling(Fields& fields, SamplingAsk& sampling);

// Besides: what OpenAI's two interfaces for texts have in common.
void read_openai_common(Fields& fields, const AskLimits& limits, TextAsk& ask);

// "logprobs" and "top_logprobs" of chat completions and of Ollama.
void read_log_probabilities(Fields& fields, TextAsk& ask);

// The texts that end an answer, in number and length as they are allowed.
void read_stops(Fields& fields, std::string_view key, std::vector<std::string>& stops);

// A member that would change the answer and is not there. One that says nothing, or what happens anyway, is no reason
// to refuse.
struct UnsupportedField {
  std::string_view name;
  std::array<std::string_view, 4> harmless;  // raw values
  std::string_view instead;
};
void refuse_unsupported(Fields& fields, const UnsupportedField& field);
// Those that any interface may have.
void refuse_unsupported(Fields& fields);

}  // namespace ballast::serve
