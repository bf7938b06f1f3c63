#include "ballast/text/template/jinja_strings.h"

#include <utf8proc.h>

#include <cstring>

#include "ballast/base/utf8.h"
#include "ballast/text/unicode.h"

namespace ballast::jinja {

bool is_python_space(uint32_t c) { return is_white_space(c) || (c >= 0x1C && c <= 0x1F); }

std::string_view strip_left(std::string_view text) {
  for (size_t at = 0; at < text.size();) {
    const size_t begin = at;
    const auto c = take_code_point(text, at);
    if (!c || !is_python_space(*c)) return text.substr(begin);
  }
  return text.substr(text.size());
}

std::string_view strip_right(std::string_view text) {
  while (!text.empty()) {
    size_t begin = text.size() - 1;
    while (begin > 0 && (static_cast<unsigned char>(text[begin]) & 0xC0U) == 0x80U) --begin;
    size_t at = begin;
    const auto c = take_code_point(text, at);
    if (!c || !is_python_space(*c)) break;
    text = text.substr(0, begin);
  }
  return text;
}

size_t find_text(std::string_view text, std::string_view needle, size_t from) {
  if (from > text.size()) return std::string_view::npos;
  if (needle.empty()) return from;
  // std::string::find takes quadratic time for some needles; this never does.
  const void* found = memmem(text.data() + from, text.size() - from, needle.data(), needle.size());
  if (found == nullptr) return std::string_view::npos;
  return static_cast<size_t>(static_cast<const char*>(found) - text.data());
}

size_t byte_of_character(std::string_view text, size_t index) {
  if (index >= text.size()) return text.size();
  if (is_ascii(text.substr(0, index + 1))) return index;
  size_t at = 0;
  for (; index > 0 && at < text.size(); --index) {
    const size_t length = utf8_sequence_length(text, at);
    at += length == 0 ? 1 : length;
  }
  return at;
}

std::string change_case(uint32_t c, CaseChange change) {
  std::string out;
  const auto point = static_cast<utf8proc_int32_t>(c);
  if (c == 0xDF && change != CaseChange::kLower) return change == CaseChange::kUpper ? "SS" : "Ss";
  if (c == 0x130 && change == CaseChange::kLower) return "i\u0307";
  utf8proc_int32_t changed = point;
  if (change == CaseChange::kUpper) changed = utf8proc_toupper(point);
  else if (change == CaseChange::kLower) changed = utf8proc_tolower(point);
  else changed = utf8proc_totitle(point);
  append_utf8(out, static_cast<uint32_t>(changed));
  return out;
}

bool has_case(uint32_t c) {
  const auto point = static_cast<utf8proc_int32_t>(c);
  return utf8proc_tolower(point) != point || utf8proc_toupper(point) != point;
}

bool is_printable(uint32_t c) {
  if (c == ' ') return true;
  switch (utf8proc_category(static_cast<utf8proc_int32_t>(c))) {
    case UTF8PROC_CATEGORY_CN:
    case UTF8PROC_CATEGORY_ZS:
    case UTF8PROC_CATEGORY_ZL:
    case UTF8PROC_CATEGORY_ZP:
    case UTF8PROC_CATEGORY_CC:
    case UTF8PROC_CATEGORY_CF:
    case UTF8PROC_CATEGORY_CS:
    case UTF8PROC_CATEGORY_CO: return false;
    default: return true;
  }
}

}  // namespace ballast::jinja
