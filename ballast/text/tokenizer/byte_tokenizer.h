// The tokenizer that needs no vocabulary: a token is a byte, and its id the byte's value.
#pragma once

#include <string>
#include <string_view>

namespace ballast {

// What configurations and --tokenizer call it.
inline constexpr std::string_view kByteTokenizerName = "bytes";

// As a tokenizer.json, so that a model trained on bytes is prompted like any other, here and elsewhere.
std::string byte_tokenizer_json();

}  // namespace ballast
