// Python's string methods on marked texts, which the tables of filters and methods share.
#pragma once

#include <optional>
#include <string_view>
#include <vector>

#include "ballast/text/template/jinja_strings.h"
#include "ballast/text/template/jinja_value.h"

namespace ballast::jinja {

Text cased(const Text& text, CaseChange change);
Text capitalized(const Text& text);
// str.title(): a capital behind everything that has no case.
Text titled(const Text& text);

enum class StripSide : uint8_t { kBoth, kLeft, kRight };
// Without `chars`: white space.
Result<Text> stripped(Meter& meter, const Text& text, StripSide side, const Text* chars);

// Every `old`, or the first `most` of them, as `replacement`.
Result<Text> replaced(Meter& meter, const Text& text, const Text& old, const Text& replacement, int64_t most);

// At most `most` cuts unless negative. Without a separator: at white space, with no empty parts.
Result<std::vector<Value>> split_text(Meter& meter, const Text& text, const Text* separator, int64_t most);
Result<std::vector<Value>> split_text_from_right(Meter& meter, const Text& text, const Text* separator, int64_t most);
Result<std::vector<Text>> lines_of(Meter& meter, const Text& text, bool keep_ends);

Result<Text> joined_values(Meter& meter, const std::vector<Value>& items, const Text& separator);

// & < > ' " as HTML spells them, with as many bytes at most.
constexpr uint64_t kLongestEscape = 5;
Text escaped_html(const Text& text);

enum class TextPlace : uint8_t { kLeft, kMiddle, kRight };
// Spaces (or `fill`) around the text, so that it has `width` characters.
Result<Text> padded(Meter& meter, const Text& text, int64_t width, TextPlace place, char fill = ' ');

}  // namespace ballast::jinja
