// What `generate` has written, of one prompt or of many.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "ballast/base/json.h"
#include "ballast/engine/engine.h"

namespace ballast::cli {

struct GeneratedText {
  std::vector<TokenId> prompt;
  std::vector<SampledToken> tokens;
  std::string text;
  std::string_view stop;         // why it ended: "max_tokens"
  std::optional<bool> complete;  // of a text that follows a constraint
  std::optional<uint64_t> seed;  // where anything was drawn
  double prefill = 0;            // seconds until the first token
  double decode = 0;             // seconds
  size_t decoded = 0;            // tokens that `decode` is the time of
};

double tokens_per_second(size_t tokens, double seconds);

// The members of the object that --json prints, from "prompt_tokens" on.
void add_generated(JsonWriter& json, const GeneratedText& written, double load_seconds);

}  // namespace ballast::cli
