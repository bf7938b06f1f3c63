// What Unicode says about characters, and its normal forms.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace ballast {

bool is_white_space(uint32_t code_point);     // Unicode's White_Space
bool is_punctuation(uint32_t code_point);     // category P, and ASCII's signs such as $ and +
bool is_number(uint32_t code_point);          // category N
bool is_mark(uint32_t code_point);            // category M
bool is_spaceless_mark(uint32_t code_point);  // category Mn
// Controls, formats and private use, but no unassigned characters.
bool is_control(uint32_t code_point);
bool is_word_character(uint32_t code_point);  // \w: letters, marks, decimal numbers, connectors, joiners
bool is_cjk_ideograph(uint32_t code_point);   // as BERT's own code draws the line

// Full case mapping of one character, without regard to its neighbours.
void append_lower_case(std::string& out, uint32_t code_point);

// The characters of `text` one after the other. A byte that is no UTF-8 comes as kBrokenByte.
constexpr uint32_t kBrokenByte = UINT32_MAX;
struct CharAt {
  uint32_t code_point;
  size_t begin;
  size_t end;
};
CharAt char_at(std::string_view text, size_t at);       // `at` inside `text`
CharAt char_before(std::string_view text, size_t end);  // `end` not 0
size_t count_chars(std::string_view text);

template <typename Visit>
void for_each_char(std::string_view text, Visit&& visit) {
  for (size_t at = 0; at < text.size();) {
    const CharAt found = char_at(text, at);
    visit(found);
    at = found.end;
  }
}

enum class NormalForm : uint8_t { kNfc, kNfd, kNfkc, kNfkd };
// n log n for any text; bytes that are no UTF-8 stay, and nothing composes across them.
std::string to_normal_form(std::string_view text, NormalForm form);

// The first character of the canonical decomposition.
uint32_t base_character(uint32_t code_point);

// End of the grapheme cluster that begins at `at`.
size_t grapheme_end(std::string_view text, size_t at);

}  // namespace ballast
