#include "apps/ballast/output/text.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <optional>

#include "ballast/base/utf8.h"

namespace ballast::cli {

namespace {

struct Range {
  uint32_t first;
  uint32_t last;
};

// Two columns wide: East Asian wide and full-width characters, and pictographs.
constexpr std::array kWide = {
    Range{0x1100, 0x115F},   Range{0x2E80, 0x303E},   Range{0x3041, 0xA4CF},   Range{0xAC00, 0xD7A3},
    Range{0xF900, 0xFAFF},   Range{0xFE30, 0xFE6F},   Range{0xFF00, 0xFF60},   Range{0xFFE0, 0xFFE6},
    Range{0x1F300, 0x1F64F}, Range{0x1F900, 0x1F9FF}, Range{0x20000, 0x3FFFD},
};
// No column of their own: combining marks and variation selectors.
constexpr std::array kCombining = {Range{0x0300, 0x036F}, Range{0x1AB0, 0x1AFF}, Range{0x20D0, 0x20FF},
                                   Range{0xFE00, 0xFE0F}, Range{0xFE20, 0xFE2F}};
// Shown by their number: C1 controls, and characters that hide or reorder the text around them.
constexpr std::array kUnseen = {Range{0x80, 0x9F},     Range{0xAD, 0xAD},     Range{0x061C, 0x061C},
                                Range{0x200B, 0x200F}, Range{0x2028, 0x202E}, Range{0x2060, 0x2069},
                                Range{0xFEFF, 0xFEFF}, Range{0xFFF9, 0xFFFB}, Range{0xE0000, 0xE0FFF}};

// Marks of Unicode's bidirectional algorithm: a text that holds them can show something else than it says.
constexpr std::array kReordering = {Range{0x061C, 0x061C}, Range{0x200E, 0x200F}, Range{0x202A, 0x202E},
                                    Range{0x2066, 0x2069}};

template <size_t N>
bool within(uint32_t code_point, const std::array<Range, N>& ranges) {
  return std::ranges::any_of(ranges, [=](Range r) { return code_point >= r.first && code_point <= r.last; });
}

bool is_plain_ascii(std::string_view text) {
  return std::ranges::all_of(text, [](unsigned char c) { return c >= 0x20 && c < 0x7F; });
}

void append_control(std::string& out, unsigned char c) {
  switch (c) {
    case '\n': out += "\\n"; return;
    case '\r': out += "\\r"; return;
    case '\t': out += "\\t"; return;
    default: fmt::format_to(std::back_inserter(out), "\\x{:02x}", c);
  }
}

size_t width_of(uint32_t code_point) {
  if (within(code_point, kCombining)) return 0;
  return within(code_point, kWide) ? 2 : 1;
}

// Columns of the character at `at`, which is stepped over.
size_t take_width(std::string_view text, size_t& at) {
  const std::optional<uint32_t> code_point = take_code_point(text, at);
  if (code_point) return width_of(*code_point);
  ++at;
  return 1;
}

// Bytes of the longest beginning of `text` that takes at most `width` columns.
size_t prefix_length(std::string_view text, size_t width) {
  for (size_t at = 0; at < text.size();) {
    const size_t begin = at;
    const size_t columns = take_width(text, at);
    if (columns > width) return begin;
    width -= columns;
  }
  return text.size();
}

}  // namespace

std::string printable(std::string_view text, bool keep_newlines) {
  if (is_plain_ascii(text)) return std::string(text);
  std::string out;
  for (size_t at = 0; at < text.size();) {
    const size_t begin = at;
    const auto c = static_cast<unsigned char>(text[at]);
    const std::optional<uint32_t> code_point = take_code_point(text, at);
    if (!code_point) ++at;
    if (c == '\n' && keep_newlines) out += '\n';
    else if (!code_point || c < 0x20 || c == 0x7F) append_control(out, c);
    else if (within(*code_point, kUnseen)) fmt::format_to(std::back_inserter(out), "\\u{:04x}", *code_point);
    else out += text.substr(begin, at - begin);
  }
  return out;
}

std::string without_controls(std::string_view text) {
  std::string out;
  for (size_t at = 0; at < text.size();) {
    const size_t begin = at;
    const std::optional<uint32_t> code_point = take_code_point(text, at);
    if (!code_point) ++at;
    const std::string_view piece = text.substr(begin, at - begin);
    const bool control = !code_point || *code_point < 0x20 || (*code_point >= 0x7F && *code_point < 0xA0) ||
                         within(*code_point, kReordering);
    if (control && piece != "\n" && piece != "\t") out += printable(piece);
    else out += piece;
  }
  return out;
}

std::string json_text(std::string_view text) {
  if (is_valid_utf8(text)) return std::string(text);
  std::string out;
  for (size_t at = 0; at < text.size();) {
    const size_t length = utf8_sequence_length(text, at);
    out += length == 0 ? "\xEF\xBF\xBD" : text.substr(at, length);
    at += std::max<size_t>(length, 1);
  }
  return out;
}

size_t display_width(std::string_view text) {
  if (is_plain_ascii(text)) return text.size();
  size_t width = 0;
  for (size_t at = 0; at < text.size();) width += take_width(text, at);
  return width;
}

std::string shorten(std::string_view text, size_t width) {
  constexpr std::string_view kGap = "...";
  const size_t full = display_width(text);
  if (full <= width) return std::string(text);
  if (width <= kGap.size()) return std::string(text.substr(0, prefix_length(text, width)));
  const size_t front = (width - kGap.size() + 1) / 2;
  const size_t back = width - kGap.size() - front;
  size_t tail = prefix_length(text, full - back);
  // A wide character may straddle the cut: leave it out.
  while (display_width(text.substr(tail)) > back) take_width(text, tail);
  return fmt::format("{}{}{}", text.substr(0, prefix_length(text, front)), kGap, text.substr(tail));
}

std::vector<std::string_view> lines_of(std::string_view text) {
  std::vector<std::string_view> lines;
  while (!text.empty()) {
    const size_t end = std::min(text.find('\n'), text.size());
    lines.push_back(text.substr(0, end));
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  return lines;
}

std::string grouped(uint64_t number) {
  std::string digits = std::to_string(number);
  for (size_t at = digits.size(); at > 3;) digits.insert(at -= 3, ",");
  return digits;
}

std::string counted(uint64_t number, std::string_view noun) {
  return fmt::format("{} {}{}", grouped(number), noun, number == 1 ? "" : "s");
}

std::string clock_time(double seconds) {
  const auto whole = static_cast<uint64_t>(seconds + 0.5);
  if (whole >= 3600) return fmt::format("{}:{:02}:{:02}", whole / 3600, whole / 60 % 60, whole % 60);
  return fmt::format("{}:{:02}", whole / 60, whole % 60);
}

std::string wrapped(std::string_view text, size_t width, size_t indent) {
  if (width == 0 || display_width(text) <= width) return std::string(text);
  std::string out;
  size_t column = 0;
  while (!text.empty()) {
    // A word with the spaces before it, which go where a line is broken.
    const size_t begin = std::min(text.find_first_not_of(' '), text.size());
    const size_t end = std::min(text.find(' ', begin), text.size());
    const std::string_view word = text.substr(begin, end - begin);
    if (!out.empty() && column + begin + display_width(word) > width) {
      out += '\n';
      out.append(indent, ' ');
      column = indent;
    } else {
      out.append(begin, ' ');
      column += begin;
    }
    out += word;
    column += display_width(word);
    text.remove_prefix(end);
  }
  return out;
}

}  // namespace ballast::cli
