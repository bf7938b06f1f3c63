#include "ballast/text/template/jinja_lexer.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <optional>

#include "ballast/base/utf8.h"
#include "ballast/text/template/jinja_strings.h"

namespace ballast::jinja {

namespace {

constexpr size_t kMostTemplateBytes = size_t{4} << 20U;

bool is_digit_char(char c) { return c >= '0' && c <= '9'; }
bool starts_name(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_' || static_cast<unsigned char>(c) >= 0x80;
}

// 0x1f, 0o17, 0b11: their decimal digits, and the length that they have here.
std::optional<std::pair<std::string, size_t>> based_number(std::string_view text) {
  constexpr std::pair<char, int> kBases[] = {{'x', 16}, {'o', 8}, {'b', 2}};
  if (text.size() < 3 || text[0] != '0') return std::nullopt;
  const auto* base = std::ranges::find(kBases, static_cast<char>(text[1] | 0x20), &std::pair<char, int>::first);
  uint64_t value = 0;
  if (base == std::end(kBases)) return std::nullopt;
  const auto [end, failure] = std::from_chars(text.data() + 2, text.data() + text.size(), value, base->second);
  const auto length = static_cast<size_t>(end - text.data());
  if (failure != std::errc() || (length < text.size() && (starts_name(*end) || is_digit_char(*end))))
    return std::nullopt;
  return std::pair(fmt::format("{}", value), length);
}

// Every kind of line break becomes \n, and one at the very end goes.
std::string normal_lines(std::string_view source) {
  std::string text;
  text.reserve(source.size());
  for (size_t i = 0; i < source.size(); ++i) {
    if (source[i] != '\r') text.push_back(source[i]);
    else if (i + 1 >= source.size() || source[i + 1] != '\n') text.push_back('\n');
  }
  if (text.ends_with('\n')) text.pop_back();
  return text;
}

// Undoes the escapes of a Python string.
class Unescape {
 public:
  Unescape(std::string_view text, uint32_t line) : text_(text), line_(line) {}

  Result<std::string> run() {
    while (at_ < text_.size()) {
      if (text_[at_] != '\\' || at_ + 1 >= text_.size()) {
        out_.push_back(text_[at_++]);
        continue;
      }
      const char c = text_[at_ + 1];
      at_ += 2;
      if (!simple(c)) BALLAST_CHECK(numeric(c));
    }
    return std::move(out_);
  }

 private:
  bool simple(char c) {
    static constexpr std::string_view kEscapes = "n\nt\tr\r\\\\'\'\"\"a\ab\bf\fv\v";
    if (c == '\n') return true;
    for (size_t i = 0; i < kEscapes.size(); i += 2) {
      if (kEscapes[i] != c) continue;
      out_.push_back(kEscapes[i + 1]);
      return true;
    }
    return false;
  }
  Status numeric(char c) {
    size_t digits = 0;
    int base = 16;
    if (c == 'x') digits = 2;
    else if (c == 'u') digits = 4;
    else if (c == 'U') digits = 8;
    else if (c >= '0' && c <= '7') {
      base = 8;
      --at_;
      while (digits < 3 && at_ + digits < text_.size() && text_[at_ + digits] >= '0' && text_[at_ + digits] <= '7') {
        ++digits;
      }
    } else {
      out_.push_back('\\');
      out_.push_back(c);
      return {};
    }
    const std::string_view number = text_.substr(at_, digits);
    uint32_t value = 0;
    const auto [end, failure] = std::from_chars(number.data(), number.data() + number.size(), value, base);
    if (number.size() != digits || failure != std::errc() || end != number.data() + number.size() ||
        !is_code_point(value)) {
      return syntax_error(line_, fmt::format("a string with the broken escape \\{}", c));
    }
    append_utf8(out_, value);
    at_ += digits;
    return {};
  }

  std::string_view text_;
  uint32_t line_;
  size_t at_ = 0;
  std::string out_;
};

class Lexer {
 public:
  explicit Lexer(std::string source) : source_(std::move(source)) {}

  Result<std::vector<Token>> run() {
    while (at_ < source_.size()) BALLAST_CHECK(outside());
    add(TokenKind::kEnd, "");
    return std::move(tokens_);
  }

 private:
  std::string_view rest() const { return std::string_view(source_).substr(at_); }
  void add(TokenKind kind, std::string text) { tokens_.push_back({kind, std::move(text), line_}); }
  void move_to(size_t at) {
    line_ += static_cast<uint32_t>(std::count(source_.begin() + static_cast<std::ptrdiff_t>(at_),
                                              source_.begin() + static_cast<std::ptrdiff_t>(at), '\n'));
    at_line_start_ = at > at_ ? source_[at - 1] == '\n' : at_line_start_;
    at_ = at;
  }
  void skip_white() { move_to(source_.size() - strip_left(rest()).size()); }

  // Text up to the next tag, then that tag.
  Status outside() {
    const size_t begin = at_;
    const size_t tag = find_tag(begin);
    if (tag == std::string::npos) {
      add(TokenKind::kData, source_.substr(begin));
      move_to(source_.size());
      return {};
    }
    const char kind = source_[tag + 1];
    const char sign = tag + 2 < source_.size() ? source_[tag + 2] : '\0';
    std::string_view text = std::string_view(source_).substr(begin, tag - begin);
    if (sign == '-') text = strip_right(text);
    else if (sign != '+' && kind != '{') text = without_blanks_before_tag(text);
    if (!text.empty()) add(TokenKind::kData, std::string(text));
    move_to(tag + (sign == '-' || sign == '+' ? 3 : 2));
    if (kind == '#') return comment();
    if (kind == '{') return tag_words(TokenKind::kVariableBegin);
    if (const auto end = raw_begin()) return raw(*end);
    return tag_words(TokenKind::kBlockBegin);
  }

  size_t find_tag(size_t from) const {
    for (size_t at = source_.find('{', from); at != std::string::npos; at = source_.find('{', at + 1)) {
      if (at + 1 < source_.size() && std::string_view("{%#").find(source_[at + 1]) != std::string_view::npos) return at;
    }
    return std::string::npos;
  }

  // lstrip_blocks
  std::string_view without_blanks_before_tag(std::string_view text) const {
    const size_t line_break = text.rfind('\n');
    if (line_break == std::string_view::npos && !at_line_start_) return text;
    const size_t begin = line_break == std::string_view::npos ? 0 : line_break + 1;
    return strip_left(text.substr(begin)).empty() ? text.substr(0, begin) : text;
  }

  // Behind a tag that ended with `sign` before its closing: a block tag and a comment take a line break with them.
  void after_tag(char sign, bool takes_line_break) {
    if (sign == '-') skip_white();
    else if (sign != '+' && takes_line_break && rest().starts_with('\n')) move_to(at_ + 1);
  }

  Status comment() {
    const size_t end = source_.find("#}", at_);
    if (end == std::string::npos) return syntax_error(line_, "a comment that is not closed: #} is missing");
    const char sign = end > at_ ? source_[end - 1] : '\0';
    move_to(end + 2);
    after_tag(sign, true);
    return {};
  }

  // The end of the tag, if this is {% raw %}.
  std::optional<size_t> raw_begin() const {
    std::string_view text = strip_left(rest());
    if (!text.starts_with("raw")) return std::nullopt;
    text = strip_left(text.substr(3));
    if (text.starts_with("-%}")) return source_.size() - strip_left(text.substr(3)).size();
    if (!text.starts_with("%}")) return std::nullopt;
    return source_.size() - text.size() + 2;
  }

  Status raw(size_t begin) {
    for (size_t at = source_.find("{%", begin); at != std::string::npos; at = source_.find("{%", at + 1)) {
      std::string_view tag = std::string_view(source_).substr(at + 2);
      const char sign = tag.empty() ? '\0' : tag[0];
      if (sign == '-' || sign == '+') tag.remove_prefix(1);
      tag = strip_left(tag);
      if (!tag.starts_with("endraw")) continue;
      tag = strip_left(tag.substr(6));
      const char closing = tag.empty() ? '\0' : tag[0];
      if (closing == '-' || closing == '+') tag.remove_prefix(1);
      if (!tag.starts_with("%}")) continue;
      move_to(begin);
      std::string_view text = std::string_view(source_).substr(begin, at - begin);
      if (sign == '-') text = strip_right(text);
      else if (sign != '+') text = without_blanks_before_tag(text);
      if (!text.empty()) add(TokenKind::kData, std::string(text));
      move_to(source_.size() - tag.size() + 2);
      after_tag(closing, true);
      return {};
    }
    return syntax_error(line_, "{% raw %} without {% endraw %}");
  }

  Status tag_words(TokenKind kind) {
    const bool block = kind == TokenKind::kBlockBegin;
    const std::string_view closing = block ? "%}" : "}}";
    const uint32_t begin = line_;
    add(kind, "");
    std::string brackets;  // that are open
    for (;;) {
      skip_white();
      if (at_ >= source_.size())
        return syntax_error(begin, fmt::format("a tag that is not closed: {} is missing", closing));
      if (brackets.empty()) {
        const char sign = rest()[0];
        const bool signed_end = (sign == '-' || (sign == '+' && block)) && rest().substr(1).starts_with(closing);
        if (signed_end || rest().starts_with(closing)) {
          add(block ? TokenKind::kBlockEnd : TokenKind::kVariableEnd, "");
          move_to(at_ + (signed_end ? 3 : 2));
          after_tag(signed_end ? sign : '\0', block);
          return {};
        }
      }
      BALLAST_CHECK(word(brackets));
    }
  }

  Status word(std::string& brackets) {
    const char c = rest()[0];
    if (starts_name(c)) return name();
    if (is_digit_char(c)) return number();
    if (c == '\'' || c == '"') return string(c);
    return symbol(brackets);
  }

  Status name() {
    size_t length = 0;
    while (length < rest().size() && (starts_name(rest()[length]) || is_digit_char(rest()[length]))) ++length;
    add(TokenKind::kName, std::string(rest().substr(0, length)));
    move_to(at_ + length);
    return {};
  }

  Status number() {
    const bool after_dot =
        !tokens_.empty() && tokens_.back().kind == TokenKind::kOperator && tokens_.back().text == ".";
    const std::string_view text = rest();
    size_t length = 0;
    std::string digits;
    const auto take_digits = [&] {
      while (length < text.size() && (is_digit_char(text[length]) || (text[length] == '_' && length > 0))) {
        if (text[length] != '_') digits.push_back(text[length]);
        ++length;
      }
    };
    const auto digit_at = [&](size_t at) { return at < text.size() && is_digit_char(text[at]); };
    if (auto whole = based_number(text)) {
      add(TokenKind::kInteger, std::move(whole->first));
      move_to(at_ + whole->second);
      return {};
    }
    take_digits();
    bool real = false;
    if (!after_dot && length < text.size() && text[length] == '.' && digit_at(length + 1)) {
      real = true;
      digits.push_back('.');
      ++length;
      take_digits();
    }
    if (!after_dot && length < text.size() && (text[length] == 'e' || text[length] == 'E')) {
      const bool has_sign = length + 1 < text.size() && (text[length + 1] == '+' || text[length + 1] == '-');
      if (digit_at(length + (has_sign ? 2 : 1))) {
        real = true;
        digits.push_back('e');
        if (has_sign) digits.push_back(text[length + 1]);
        length += has_sign ? 2 : 1;
        take_digits();
      }
    }
    if (length < text.size() && starts_name(text[length])) {
      return syntax_error(line_, fmt::format("'{}' is no number", text.substr(0, length + 1)));
    }
    add(real ? TokenKind::kFloat : TokenKind::kInteger, std::move(digits));
    move_to(at_ + length);
    return {};
  }

  Status string(char quote) {
    size_t end = at_ + 1;
    while (end < source_.size() && source_[end] != quote) end += source_[end] == '\\' ? 2 : 1;
    if (end >= source_.size()) return syntax_error(line_, "a string that is not closed");
    Unescape unescape(std::string_view(source_).substr(at_ + 1, end - at_ - 1), line_);
    BALLAST_TRY(std::string text, unescape.run());
    add(TokenKind::kString, std::move(text));
    move_to(end + 1);
    return {};
  }

  Status symbol(std::string& brackets) {
    static constexpr std::array<std::string_view, 26> kSymbols = {"**", "//", "==", "!=", "<=", ">=", "+", "-", "*",
                                                                  "/",  "%",  "~",  "<",  ">",  "=",  ".", ",", ":",
                                                                  "|",  "(",  ")",  "[",  "]",  "{",  "}", ";"};
    const auto found = std::ranges::find_if(kSymbols, [this](std::string_view s) { return rest().starts_with(s); });
    if (found == kSymbols.end()) return syntax_error(line_, fmt::format("unexpected character '{}'", rest()[0]));
    const char c = (*found)[0];
    if (c == '(' || c == '[' || c == '{') brackets.push_back(c);
    if (c == ')' || c == ']' || c == '}') {
      const char open = c == ')' ? '(' : c == ']' ? '[' : '{';
      if (brackets.empty() || brackets.back() != open) return syntax_error(line_, fmt::format("unexpected '{}'", c));
      brackets.pop_back();
    }
    add(TokenKind::kOperator, std::string(*found));
    move_to(at_ + found->size());
    return {};
  }

  std::string source_;
  size_t at_ = 0;
  uint32_t line_ = 1;
  bool at_line_start_ = true;  // what was taken last ended with a line break
  std::vector<Token> tokens_;
};

}  // namespace

Error syntax_error(uint32_t line, std::string_view what) {
  return make_error(ErrorCode::kCorrupt, fmt::format("chat template, line {}: {}", line, what));
}

Result<std::vector<Token>> cut_template(std::string_view source) {
  if (source.size() > kMostTemplateBytes) {
    return make_error(ErrorCode::kCorrupt,
                      fmt::format("a chat template of {} bytes; the limit is {}", source.size(), kMostTemplateBytes));
  }
  if (!is_valid_utf8(source)) return make_error(ErrorCode::kCorrupt, "a chat template that is not UTF-8");
  return Lexer(normal_lines(source)).run();
}

}  // namespace ballast::jinja
