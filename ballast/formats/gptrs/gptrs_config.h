// The JSON config of a GPTRSCHK file, and the `ballast.origin` value that may be spliced into it.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "ballast/base/result.h"

namespace ballast {

struct GptrsConfig {
  std::string text;                   // as stored, less the origin: byte for byte what it was before the splice
  std::optional<std::string> origin;  // absent too where the key is not spelled as splice_gptrs_origin spells it
  bool tagged = false;                // has a string "kind"; early files hold a bare GPT config instead
};

// Checks that `stored` is one JSON object in UTF-8 whose "kind", if any, is a string, and takes the origin out of it.
// `where` and `base_offset` are for errors.
Result<GptrsConfig> parse_gptrs_config(std::string stored, const std::string& where, uint64_t base_offset = 0);

// Adds `"ballast.origin":"..."` as the last key of the object, which gpt.rs ignores like every key it does not know.
// `text` must have passed parse_gptrs_config.
std::string splice_gptrs_origin(std::string text, std::string_view origin);

}  // namespace ballast
