#include "ballast/text/char_class.h"

#include <utf8proc.h>

#include "ballast/base/utf8.h"
#include "ballast/text/unicode.h"

namespace ballast {

namespace {

CharClass classify_code_point(uint32_t c) {
  if (is_white_space(c)) return CharClass::kSpace;
  switch (utf8proc_category(static_cast<utf8proc_int32_t>(c))) {
    case UTF8PROC_CATEGORY_LU:
    case UTF8PROC_CATEGORY_LL:
    case UTF8PROC_CATEGORY_LT:
    case UTF8PROC_CATEGORY_LM:
    case UTF8PROC_CATEGORY_LO: return CharClass::kLetter;
    case UTF8PROC_CATEGORY_ND:
    case UTF8PROC_CATEGORY_NL:
    case UTF8PROC_CATEGORY_NO: return CharClass::kNumber;
    default: return CharClass::kOther;
  }
}

}  // namespace

ClassifiedChar classify_char(std::string_view text, size_t at) {
  if (const CharClass kind = byte_class(text[at]); kind != CharClass::kNotAscii) return {kind, 1};
  size_t end = at;
  const auto code_point = take_code_point(text, end);
  if (!code_point) return {CharClass::kOther, 1};
  return {classify_code_point(*code_point), static_cast<uint8_t>(end - at)};
}

}  // namespace ballast
