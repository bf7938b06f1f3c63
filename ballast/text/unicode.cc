#include "ballast/text/unicode.h"

#include <utf8proc.h>

#include <algorithm>
#include <array>
#include <vector>

#include "ballast/base/utf8.h"

namespace ballast {

namespace {

utf8proc_category_t category_of(uint32_t c) { return utf8proc_category(static_cast<utf8proc_int32_t>(c)); }

bool is_between(uint32_t c, uint32_t first, uint32_t last) { return c >= first && c <= last; }

bool has_category(uint32_t c, utf8proc_category_t first, utf8proc_category_t last) {
  if (c > 0x10FFFF) return false;
  const utf8proc_category_t category = category_of(c);
  return category >= first && category <= last;
}

}  // namespace

bool is_white_space(uint32_t c) {
  return is_between(c, 0x09, 0x0D) || c == 0x20 || c == 0x85 || c == 0xA0 || c == 0x1680 ||
         is_between(c, 0x2000, 0x200A) || c == 0x2028 || c == 0x2029 || c == 0x202F || c == 0x205F || c == 0x3000;
}

bool is_punctuation(uint32_t c) {
  if (c < 0x80) {
    return is_between(c, 0x21, 0x2F) || is_between(c, 0x3A, 0x40) || is_between(c, 0x5B, 0x60) ||
           is_between(c, 0x7B, 0x7E);
  }
  return has_category(c, UTF8PROC_CATEGORY_PC, UTF8PROC_CATEGORY_PO);
}

bool is_number(uint32_t c) { return has_category(c, UTF8PROC_CATEGORY_ND, UTF8PROC_CATEGORY_NO); }
bool is_mark(uint32_t c) { return has_category(c, UTF8PROC_CATEGORY_MN, UTF8PROC_CATEGORY_ME); }
bool is_spaceless_mark(uint32_t c) { return has_category(c, UTF8PROC_CATEGORY_MN, UTF8PROC_CATEGORY_MN); }

bool is_control(uint32_t c) {
  return has_category(c, UTF8PROC_CATEGORY_CC, UTF8PROC_CATEGORY_CF) ||
         has_category(c, UTF8PROC_CATEGORY_CO, UTF8PROC_CATEGORY_CO);
}

bool is_word_character(uint32_t c) {
  if (c > 0x10FFFF) return false;
  // Letters in circles and squares are symbols by category, but alphabetic.
  if (is_between(c, 0x24B6, 0x24E9) || is_between(c, 0x1F130, 0x1F149) || is_between(c, 0x1F150, 0x1F169) ||
      is_between(c, 0x1F170, 0x1F189) || c == 0x200C || c == 0x200D) {
    return true;
  }
  const utf8proc_category_t category = category_of(c);
  return is_between(category, UTF8PROC_CATEGORY_LU, UTF8PROC_CATEGORY_NL) || category == UTF8PROC_CATEGORY_PC;
}

bool is_cjk_ideograph(uint32_t c) {
  return is_between(c, 0x4E00, 0x9FFF) || is_between(c, 0x3400, 0x4DBF) || is_between(c, 0x20000, 0x2A6DF) ||
         is_between(c, 0x2A700, 0x2B81F) || is_between(c, 0x2B920, 0x2CEAF) || is_between(c, 0xF900, 0xFAFF) ||
         is_between(c, 0x2F800, 0x2FA1F);
}

void append_lower_case(std::string& out, uint32_t c) {
  // The only character whose lower case is two.
  if (c == 0x130) out += "i\u0307";
  else append_utf8(out, static_cast<uint32_t>(utf8proc_tolower(static_cast<utf8proc_int32_t>(c))));
}

CharAt char_at(std::string_view text, size_t at) {
  size_t end = at;
  const auto code_point = take_code_point(text, end);
  if (!code_point) return {kBrokenByte, at, at + 1};
  return {*code_point, at, end};
}

CharAt char_before(std::string_view text, size_t end) {
  for (size_t length = std::min<size_t>(end, 4); length > 1; --length) {
    const CharAt found = char_at(text.substr(0, end), end - length);
    if (found.end == end && found.code_point != kBrokenByte) return found;
  }
  return char_at(text.substr(0, end), end - 1);
}

size_t count_chars(std::string_view text) {
  size_t count = 0;
  for_each_char(text, [&](const CharAt&) { ++count; });
  return count;
}

// ---------------------------------------------------------------- normal forms

namespace {

using CodePoints = std::vector<utf8proc_int32_t>;

void decompose(uint32_t c, bool compatible, CodePoints& out) {
  // Nothing decomposes into more than 18.
  std::array<utf8proc_int32_t, 32> parts;
  int last_boundary_class = 0;
  const int options = UTF8PROC_DECOMPOSE | UTF8PROC_STABLE | (compatible ? UTF8PROC_COMPAT : 0);
  const utf8proc_ssize_t count = utf8proc_decompose_char(static_cast<utf8proc_int32_t>(c), parts.data(),
                                                         static_cast<utf8proc_ssize_t>(parts.size()),
                                                         static_cast<utf8proc_option_t>(options), &last_boundary_class);
  if (count < 1 || count > static_cast<utf8proc_ssize_t>(parts.size())) out.push_back(static_cast<utf8proc_int32_t>(c));
  else out.insert(out.end(), parts.begin(), parts.begin() + count);
}

int combining_class(utf8proc_int32_t c) { return utf8proc_get_property(c)->combining_class; }

// Marks in the order of their classes. The library's own way of sorting is quadratic in the number of marks.
void order_marks(CodePoints& text) {
  for (size_t at = 0; at < text.size();) {
    size_t end = at;
    while (end < text.size() && combining_class(text[end]) != 0) ++end;
    if (end - at > 1) {
      std::stable_sort(text.begin() + static_cast<ptrdiff_t>(at), text.begin() + static_cast<ptrdiff_t>(end),
                       [](auto a, auto b) { return combining_class(a) < combining_class(b); });
    }
    at = std::max(end, at + 1);
  }
}

void append_normal(CodePoints& text, bool compose, std::string& out) {
  order_marks(text);
  auto size = static_cast<utf8proc_ssize_t>(text.size());
  if (compose && size > 0) {
    size =
        utf8proc_normalize_utf32(text.data(), size, static_cast<utf8proc_option_t>(UTF8PROC_COMPOSE | UTF8PROC_STABLE));
  }
  for (utf8proc_ssize_t i = 0; i < size; ++i) append_utf8(out, static_cast<uint32_t>(text[static_cast<size_t>(i)]));
  text.clear();
}

}  // namespace

std::string to_normal_form(std::string_view text, NormalForm form) {
  std::string out;
  if (is_ascii(text)) return std::string(text);
  const bool compatible = form == NormalForm::kNfkc || form == NormalForm::kNfkd;
  const bool compose = form == NormalForm::kNfc || form == NormalForm::kNfkc;
  out.reserve(text.size());
  CodePoints run;
  for_each_char(text, [&](const CharAt& c) {
    if (c.code_point != kBrokenByte) return decompose(c.code_point, compatible, run);
    append_normal(run, compose, out);
    out += text[c.begin];
  });
  append_normal(run, compose, out);
  return out;
}

uint32_t base_character(uint32_t c) {
  CodePoints parts;
  decompose(c, false, parts);
  return static_cast<uint32_t>(parts.front());
}

size_t grapheme_end(std::string_view text, size_t at) {
  utf8proc_int32_t state = 0;
  CharAt last = char_at(text, at);
  while (last.end < text.size() && last.code_point != kBrokenByte) {
    const CharAt next = char_at(text, last.end);
    if (next.code_point == kBrokenByte ||
        utf8proc_grapheme_break_stateful(static_cast<utf8proc_int32_t>(last.code_point),
                                         static_cast<utf8proc_int32_t>(next.code_point), &state)) {
      break;
    }
    last = next;
  }
  return last.end;
}

}  // namespace ballast
