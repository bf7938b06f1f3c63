#include "ballast/text/template/jinja_text_tools.h"

#include <fmt/format.h>

#include <algorithm>

#include "ballast/base/checked.h"
#include "ballast/base/utf8.h"
#include "ballast/text/template/jinja_print.h"

namespace ballast::jinja {

namespace {

// Each character as `map(code point)` spells it, with its mark.
template <typename Map>
Text mapped_characters(const Text& text, Map map) {
  const std::string& bytes = text.bytes();
  Text out;
  for (size_t at = 0; at < bytes.size();) {
    const size_t begin = at;
    const auto c = take_code_point(bytes, at);
    if (!c) out.append(text, begin, ++at);
    else out.append(map(*c), text.from_message(begin));
  }
  return out;
}

}  // namespace

Text cased(const Text& text, CaseChange change) {
  return mapped_characters(text, [change](uint32_t c) { return change_case(c, change); });
}

Text capitalized(const Text& text) {
  bool first = true;
  return mapped_characters(text, [&first](uint32_t c) {
    return change_case(c, std::exchange(first, false) ? CaseChange::kTitle : CaseChange::kLower);
  });
}

Text titled(const Text& text) {
  bool inside = false;
  return mapped_characters(text, [&inside](uint32_t c) {
    const CaseChange change = inside ? CaseChange::kLower : CaseChange::kTitle;
    inside = has_case(c);
    return change_case(c, change);
  });
}

namespace {

Result<bool> in_set(Meter& meter, std::string_view character, const Text* chars) {
  if (chars != nullptr) {
    BALLAST_CHECK(meter.step(1 + chars->size() / 256));
    return find_text(chars->bytes(), character) != std::string::npos;
  }
  size_t at = 0;
  const auto c = take_code_point(character, at);
  return c && is_python_space(*c);
}

}  // namespace

Result<Text> stripped(Meter& meter, const Text& text, StripSide side, const Text* chars) {
  const std::string_view bytes = text.bytes();
  size_t begin = 0;
  size_t end = bytes.size();
  while (side != StripSide::kRight && begin < end) {
    const size_t length = std::max<size_t>(1, utf8_sequence_length(bytes, begin));
    BALLAST_TRY(const bool found, in_set(meter, bytes.substr(begin, length), chars));
    if (!found) break;
    begin += length;
  }
  while (side != StripSide::kLeft && begin < end) {
    size_t last = end - 1;
    while (last > begin && (static_cast<unsigned char>(bytes[last]) & 0xC0U) == 0x80U) --last;
    BALLAST_TRY(const bool found, in_set(meter, bytes.substr(last, end - last), chars));
    if (!found) break;
    end = last;
  }
  return text.slice(begin, end);
}

Result<Text> replaced(Meter& meter, const Text& text, const Text& old, const Text& replacement, int64_t most) {
  const std::string& bytes = text.bytes();
  Text out;
  size_t copied = 0;
  size_t at = 0;
  for (int64_t count = 0; most < 0 || count < most; ++count) {
    const size_t found = find_text(bytes, old.bytes(), at);
    if (found == std::string::npos) break;
    BALLAST_CHECK(meter.step());
    BALLAST_CHECK(meter.check_room(out.size() + (found - copied) + replacement.size()));
    out.append(text, copied, found);
    out.append(replacement);
    copied = found + old.size();
    at = copied;
    // An empty text is found before each character and at the end.
    if (old.empty()) at += found < bytes.size() ? std::max<size_t>(1, utf8_sequence_length(bytes, found)) : 1;
  }
  out.append(text, copied, bytes.size());
  return out;
}

// ---------------------------------------------------------------- splitting

namespace {

class Pieces {
 public:
  Pieces(Meter& meter, const Text& text) : meter_(meter), text_(text) {}

  Status add(size_t begin, size_t end) {
    BALLAST_CHECK(meter_.step());
    BALLAST_TRY(Value piece, make_text(meter_, text_.slice(begin, end)));
    values_.push_back(std::move(piece));
    return {};
  }
  size_t count() const { return values_.size(); }
  std::vector<Value> take() { return std::move(values_); }

 private:
  Meter& meter_;
  const Text& text_;
  std::vector<Value> values_;
};

size_t skip_space(std::string_view bytes, size_t at, bool space) {
  while (at < bytes.size()) {
    size_t next = at;
    const auto c = take_code_point(bytes, next);
    if ((c && is_python_space(*c)) != space) break;
    at = next > at ? next : at + 1;
  }
  return at;
}

Result<std::vector<Value>> split_at_space(Meter& meter, const Text& text, int64_t most) {
  const std::string& bytes = text.bytes();
  Pieces pieces(meter, text);
  size_t at = skip_space(bytes, 0, true);
  while (at < bytes.size()) {
    if (most >= 0 && pieces.count() == static_cast<size_t>(most)) {
      BALLAST_CHECK(pieces.add(at, bytes.size()));
      break;
    }
    const size_t end = skip_space(bytes, at, false);
    BALLAST_CHECK(pieces.add(at, end));
    at = skip_space(bytes, end, true);
  }
  return pieces.take();
}

}  // namespace

Result<std::vector<Value>> split_text(Meter& meter, const Text& text, const Text* separator, int64_t most) {
  if (separator == nullptr) return split_at_space(meter, text, most);
  if (separator->empty()) return type_error("empty separator");
  Pieces pieces(meter, text);
  size_t at = 0;
  while (most < 0 || pieces.count() < static_cast<size_t>(most)) {
    const size_t found = find_text(text.bytes(), separator->bytes(), at);
    if (found == std::string::npos) break;
    BALLAST_CHECK(pieces.add(at, found));
    at = found + separator->size();
  }
  BALLAST_CHECK(pieces.add(at, text.size()));
  return pieces.take();
}

Result<std::vector<Value>> split_text_from_right(Meter& meter, const Text& text, const Text* separator, int64_t most) {
  if (separator == nullptr) {
    if (most < 0) return split_at_space(meter, text, most);
    return make_error(ErrorCode::kUnsupported, "rsplit with a limit and without a separator is not supported");
  }
  if (separator->empty()) return type_error("empty separator");
  // From the left first: only separators that overlap each other would be found elsewhere from the right.
  std::vector<size_t> found;
  for (size_t at = 0; (at = find_text(text.bytes(), separator->bytes(), at)) != std::string::npos;) {
    BALLAST_CHECK(meter.step());
    found.push_back(at);
    at += separator->size();
  }
  const size_t skipped =
      most < 0 || found.size() <= static_cast<size_t>(most) ? 0 : found.size() - static_cast<size_t>(most);
  Pieces pieces(meter, text);
  size_t at = 0;
  for (size_t i = skipped; i < found.size(); ++i) {
    BALLAST_CHECK(pieces.add(at, found[i]));
    at = found[i] + separator->size();
  }
  BALLAST_CHECK(pieces.add(at, text.size()));
  return pieces.take();
}

Result<std::vector<Text>> lines_of(Meter& meter, const Text& text, bool keep_ends) {
  const std::string& bytes = text.bytes();
  const auto is_line_end = [](uint32_t c) {
    return (c >= 0x0A && c <= 0x0D) || (c >= 0x1C && c <= 0x1E) || c == 0x85 || c == 0x2028 || c == 0x2029;
  };
  std::vector<Text> lines;
  size_t start = 0;
  for (size_t at = 0; at < bytes.size();) {
    const size_t begin = at;
    const auto c = take_code_point(bytes, at);
    if (!c) ++at;
    if (!c || !is_line_end(*c)) continue;
    if (*c == '\r' && at < bytes.size() && bytes[at] == '\n') ++at;
    BALLAST_CHECK(meter.step());
    BALLAST_CHECK(meter.check_room((lines.size() + 1) * sizeof(Text)));
    lines.push_back(text.slice(start, keep_ends ? at : begin));
    start = at;
  }
  if (start < bytes.size()) lines.push_back(text.slice(start, bytes.size()));
  return lines;
}

Result<Text> joined_values(Meter& meter, const std::vector<Value>& items, const Text& separator) {
  Text out;
  for (size_t i = 0; i < items.size(); ++i) {
    if (i > 0) out.append(separator);
    BALLAST_CHECK(append_printed(meter, out, items[i]));
  }
  return out;
}

Text escaped_html(const Text& text) {
  Text out;
  for (size_t at = 0; at < text.size(); ++at) {
    std::string_view escape;
    switch (text.bytes()[at]) {
      case '&': escape = "&amp;"; break;
      case '<': escape = "&lt;"; break;
      case '>': escape = "&gt;"; break;
      case '\'': escape = "&#39;"; break;
      case '"': escape = "&#34;"; break;
      default: out.append(text, at, at + 1); continue;
    }
    out.append(escape, text.from_message(at));
  }
  return out;
}

Result<Text> padded(Meter& meter, const Text& text, int64_t width, TextPlace place, char fill) {
  const auto length = static_cast<int64_t>(count_characters(text.bytes()));
  if (width <= length) return text;
  const auto missing = static_cast<uint64_t>(width - length);
  BALLAST_CHECK(meter.check_room(checked_add(missing, text.size()).value_or(UINT64_MAX)));
  size_t left = place == TextPlace::kLeft ? 0 : missing;
  // As in Python, where what is over goes to the left if the width is odd.
  if (place == TextPlace::kMiddle) left = missing / 2 + (missing & static_cast<uint64_t>(width) & 1U);
  Text out(std::string(left, fill));
  out.append(text);
  out.append(std::string(missing - left, fill));
  return out;
}

}  // namespace ballast::jinja
