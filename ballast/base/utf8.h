// UTF-8: checked, taken apart, put together.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace ballast {

// True for well-formed UTF-8 (no surrogates, no overlong forms).
bool is_valid_utf8(std::string_view text);

bool is_ascii(std::string_view text);

// Length of the well-formed sequence at `at`, which must be inside `text`; 0 if there is none.
size_t utf8_sequence_length(std::string_view text, size_t at);

// The code point at `at`, which is moved behind it; nullopt, and `at` unmoved, where no well-formed sequence stands.
std::optional<uint32_t> take_code_point(std::string_view text, size_t& at);

// True for what UTF-8 can encode: at most U+10FFFF and no surrogate.
inline bool is_code_point(uint32_t value) { return value <= 0x10FFFF && !(value >= 0xD800 && value <= 0xDFFF); }

void append_utf8(std::string& out, uint32_t code_point);

}  // namespace ballast
