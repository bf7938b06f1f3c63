// The alphabet in which GPT-2's files spell bytes as printable characters.
#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace ballast {

// Printable bytes stand for themselves; the other 68, in ascending order, become U+0100 and up.
std::string to_byte_alphabet(std::string_view bytes);

// nullopt for a text with characters outside of the alphabet.
std::optional<std::string> from_byte_alphabet(std::string_view text);

}  // namespace ballast
