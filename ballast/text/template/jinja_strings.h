// Python's operations on strings, on plain bytes: what filters and methods share.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace ballast::jinja {

// White space as Python's str.strip sees it.
bool is_python_space(uint32_t code_point);
std::string_view strip_left(std::string_view text);
std::string_view strip_right(std::string_view text);

// Where `needle` begins at or after `from`; npos if nowhere. Linear time for any needle.
size_t find_text(std::string_view text, std::string_view needle, size_t from = 0);

// The byte at which the character with this index begins; the size of the text behind the last.
size_t byte_of_character(std::string_view text, size_t index);

enum class CaseChange : uint8_t { kUpper, kLower, kTitle };
// One character in another case, which may be several.
std::string change_case(uint32_t code_point, CaseChange change);
bool has_case(uint32_t code_point);
// False for what Python's repr() spells as an escape.
bool is_printable(uint32_t code_point);

}  // namespace ballast::jinja
