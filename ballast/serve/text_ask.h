// What is asked of a text model, whatever the client's interface calls it.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "ballast/base/token_id.h"

namespace ballast::serve {

// Absent: what the model's own files say.
struct SamplingAsk {
  std::optional<double> temperature, top_p, min_p, repetition_penalty;
  std::optional<uint64_t> top_k, repetition_window, seed;
  double presence_penalty = 0, frequency_penalty = 0;
  std::vector<std::pair<TokenId, float>> bias{};
};

struct ChatTurn {
  std::string role;
  std::string content{};
  std::string reasoning{};
  std::string tool_calls{};    // JSON, as templates know them; empty: none
  std::string tool_call_id{};  // of a tool's answer
  std::string name{};
};

// What form the answer must have.
struct FormAsk {
  enum class Kind : uint8_t { kJsonObject, kSchema, kGrammar, kRegex };
  Kind kind = Kind::kJsonObject;
  std::string text{};   // the schema, grammar or expression
  std::string param{};  // the member of the request that it came from
};

struct ToolAsk {
  std::string name;
  std::string description{};
  std::string parameters{};  // JSON Schema of an object; empty: nothing is said
};

struct ToolsAsk {
  std::vector<ToolAsk> offered{};  // none where nothing may be called
  bool must_call = false;          // at least one
  std::string named{};             // the one that must be called; empty: any
  bool may_call_several = true;
};

// What answers of /v1/responses repeat of the request, as JSON of one line; empty: it said nothing.
struct ResponseEcho {
  std::string instructions{}, tools{}, tool_choice{}, text_format{};
};

using PromptAsk = std::variant<std::string, std::vector<TokenId>>;

struct TextAsk {
  std::string model{};  // empty: the first one
  // One of these two.
  std::vector<ChatTurn> turns{};
  std::vector<PromptAsk> prompts{};
  bool is_chat = false;
  bool may_be_plain = false;  // a conversation of one turn, which a model without a chat template continues as a text
  std::vector<std::pair<std::string, std::string>>
      template_values{};  // name and JSON: more that the template may ask for

  std::optional<FormAsk> form{};
  ToolsAsk tools{};
  ResponseEcho echo_of_response{};

  SamplingAsk sampling{};
  std::optional<uint64_t> max_tokens{};
  uint64_t min_tokens = 0;
  std::vector<std::string> stop{};
  std::vector<TokenId> stop_tokens{};
  bool ignore_end = false;                      // go on behind the tokens that end a text
  uint64_t choices = 1;                         // for each prompt
  std::optional<uint64_t> log_probabilities{};  // of so many tokens beside the chosen one
  bool echo = false;                            // the answer begins with the prompt

  bool stream = false;
  bool usage_in_stream = false;
};

}  // namespace ballast::serve
