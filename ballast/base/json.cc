#include "ballast/base/json.h"

#include <algorithm>
#include <bit>
#include <charconv>
#include <cmath>
#include <cstring>
#include <utility>

#include "ballast/base/bytes.h"
#include "ballast/base/real.h"
#include "ballast/base/utf8.h"

namespace ballast {

namespace {

bool is_digit(char c) { return c >= '0' && c <= '9'; }

// The first byte at or behind `at` that a string cannot simply hold: a quote, a backslash, a control character, or one
// of a longer UTF-8 sequence. Eight bytes at a time, because headers are mostly strings.
size_t plain_run_end(std::string_view text, size_t at) {
  constexpr uint64_t kOnes = 0x0101010101010101;
  constexpr uint64_t kHighs = kOnes << 7;
  const std::byte* bytes = as_bytes(text).data();
  for (; text.size() - at >= sizeof(uint64_t); at += sizeof(uint64_t)) {
    const auto word = load_le<uint64_t>(bytes + at);
    // A byte's high bit is set where a subtraction borrowed. Borrows spoil only bytes behind the first that is found.
    const auto equal_to = [word](char c) {
      const uint64_t difference = word ^ (kOnes * static_cast<unsigned char>(c));
      return (difference - kOnes) & ~difference;
    };
    const uint64_t control = (word - kOnes * 0x20) & ~word;
    const uint64_t found = (equal_to('"') | equal_to('\\') | control | word) & kHighs;
    if (found != 0) return at + static_cast<size_t>(std::countr_zero(found)) / 8;
  }
  for (; at < text.size(); ++at) {
    const auto c = static_cast<unsigned char>(text[at]);
    if (c == '"' || c == '\\' || c < 0x20 || c >= 0x80) break;
  }
  return at;
}

}  // namespace

JsonReader::JsonReader(std::string_view text, std::string where, uint64_t base_offset, Dialect dialect)
    : text_(text), where_(std::move(where)), base_offset_(base_offset), dialect_(dialect) {}

Error JsonReader::error_here(std::string_view what) const {
  return make_error(ErrorCode::kCorrupt, where_ + ": byte " + std::to_string(offset()) + ": " + std::string(what));
}

Result<JsonType> JsonReader::peek() {
  skip_space();
  if (position_ >= text_.size()) return error_here("the JSON text ends where a value was expected");
  const char c = text_[position_];
  switch (c) {
    case '{': return JsonType::kObject;
    case '[': return JsonType::kArray;
    case '"': return JsonType::kString;
    case 't': return JsonType::kTrue;
    case 'f': return JsonType::kFalse;
    case 'n': return JsonType::kNull;
    default: break;
  }
  if (is_digit(c) || c == '-') return JsonType::kNumber;
  if (dialect_ == Dialect::kPython && (c == 'N' || c == 'I')) return JsonType::kNumber;
  return error_here("not a JSON value");
}

Status JsonReader::enter(char bracket, std::string_view what) {
  if (!take(bracket)) return error_here(what);
  if (depth_ >= kMaxDepth) return error_here("JSON is nested too deeply");
  fresh_[depth_++] = true;
  return {};
}

Status JsonReader::enter_object() { return enter('{', "expected a JSON object"); }

Status JsonReader::enter_array() { return enter('[', "expected a JSON array"); }

// What nearly every string is: a run of plain characters up to a quote. False, and nothing is consumed, for others.
inline bool JsonReader::take_plain_string(std::string_view& out) {
  skip_space();
  if (position_ >= text_.size() || text_[position_] != '"') return false;
  const size_t end = plain_run_end(text_, position_ + 1);
  if (end >= text_.size() || text_[end] != '"') return false;
  out = text_.substr(position_ + 1, end - position_ - 1);
  position_ = end + 1;
  return true;
}

// A whole number that cannot overflow. False, and nothing but white space is consumed, for anything else.
inline bool JsonReader::take_short_u64(uint64_t& value) {
  constexpr size_t kMostDigits = 19;
  skip_space();
  const size_t start = position_;
  const size_t limit = std::min(text_.size(), start + kMostDigits);
  size_t at = start;
  value = 0;
  for (; at < limit && is_digit(text_[at]); ++at) value = value * 10 + static_cast<uint64_t>(text_[at] - '0');
  const auto may_follow = [](char c) { return !is_digit(c) && c != '.' && c != 'e' && c != 'E'; };
  if (at == start || (text_[start] == '0' && at != start + 1)) return false;
  if (at != text_.size() && !may_follow(text_[at])) return false;
  position_ = at;
  return true;
}

Result<bool> JsonReader::next_key(std::string_view& key) {
  if (depth_ == 0) return error_here("a key was asked for where no JSON object is open");
  if (take('}')) {
    --depth_;
    return false;
  }
  if (!std::exchange(fresh_[depth_ - 1], false) && !take(',')) {
    return error_here("expected ',' or '}' in a JSON object");
  }
  if (!take_plain_string(key)) BALLAST_CHECK(assign(key, read_long_string()));
  if (!take(':')) return error_here("expected ':' after a key");
  return true;
}

Result<bool> JsonReader::next_key(std::string& key) {
  std::string_view view;
  BALLAST_TRY(const bool more, next_key(view));
  if (more) key = view;
  return more;
}

Result<bool> JsonReader::next_element() {
  if (depth_ == 0) return error_here("an element was asked for where no JSON array is open");
  if (take(']')) {
    --depth_;
    return false;
  }
  if (std::exchange(fresh_[depth_ - 1], false)) return true;
  if (!take(',')) return error_here("expected ',' or ']' in a JSON array");
  skip_space();
  if (position_ < text_.size() && text_[position_] == ']') return error_here("a comma before ']'");
  return true;
}

Result<uint32_t> JsonReader::read_hex4() {
  if (text_.size() - position_ < 4) return error_here("a \\u escape is cut short");
  uint32_t value = 0;
  const char* begin = text_.data() + position_;
  const auto [end, failure] = std::from_chars(begin, begin + 4, value, 16);
  if (failure != std::errc() || end != begin + 4) return error_here("a \\u escape without four hexadecimal digits");
  position_ += 4;
  return value;
}

Status JsonReader::read_escape(std::string& out) {
  if (position_ >= text_.size()) return error_here("the JSON text ends inside a string");
  const char c = text_[position_++];
  switch (c) {
    case '"':
    case '\\':
    case '/': out.push_back(c); return {};
    case 'b': out.push_back('\b'); return {};
    case 'f': out.push_back('\f'); return {};
    case 'n': out.push_back('\n'); return {};
    case 'r': out.push_back('\r'); return {};
    case 't': out.push_back('\t'); return {};
    case 'u': break;
    default: --position_; return error_here("an unknown escape in a string");
  }
  BALLAST_TRY(uint32_t code_point, read_hex4());
  if (code_point >= 0xD800 && code_point < 0xDC00) {
    if (text_.substr(position_, 2) != "\\u") return error_here("half of a surrogate pair");
    position_ += 2;
    BALLAST_TRY(const uint32_t low, read_hex4());
    if (low < 0xDC00 || low > 0xDFFF) return error_here("half of a surrogate pair");
    code_point = 0x10000 + ((code_point - 0xD800) << 10) + (low - 0xDC00);
  } else if (code_point >= 0xDC00 && code_point <= 0xDFFF) {
    return error_here("half of a surrogate pair");
  }
  append_utf8(out, code_point);
  return {};
}

Result<std::string_view> JsonReader::read_string_view() {
  std::string_view plain;
  if (take_plain_string(plain)) return plain;
  return read_long_string();
}

// Strings with escapes or beyond ASCII, and everything that is an error.
Result<std::string_view> JsonReader::read_long_string() {
  if (!take('"')) return error_here("expected a JSON string");
  size_t run_start = position_;
  bool escaped = false;
  for (;;) {
    position_ = plain_run_end(text_, position_);
    if (position_ >= text_.size()) return error_here("the JSON text ends inside a string");
    const auto c = static_cast<unsigned char>(text_[position_]);
    if (c >= 0x80) {
      const size_t length = utf8_sequence_length(text_, position_);
      if (length == 0) return error_here("a string that is not UTF-8");
      position_ += length;
      continue;
    }
    if (c < 0x20) return error_here("a control character inside a string");
    const std::string_view run = text_.substr(run_start, position_ - run_start);
    ++position_;
    if (c == '"' && !escaped) return run;
    if (!escaped) unescaped_.clear();
    unescaped_ += run;
    if (c == '"') return std::string_view(unescaped_);
    escaped = true;
    BALLAST_CHECK(read_escape(unescaped_));
    run_start = position_;
  }
}

Result<std::string> JsonReader::read_string() {
  BALLAST_TRY(const std::string_view view, read_string_view());
  return std::string(view);
}

Result<std::string_view> JsonReader::number_token() {
  skip_space();
  const size_t start = position_;
  const auto peek_char = [&] { return position_ < text_.size() ? text_[position_] : '\0'; };
  const auto digits = [&] {
    const size_t from = position_;
    while (is_digit(peek_char())) ++position_;
    return position_ > from;
  };
  if (peek_char() == '-') ++position_;
  if (dialect_ == Dialect::kPython) {
    for (const std::string_view word : {"NaN", "Infinity"}) {
      if (text_.substr(position_, word.size()) == word) {
        position_ += word.size();
        return text_.substr(start, position_ - start);
      }
    }
  }
  const bool leading_zero = peek_char() == '0';
  const size_t whole_start = position_;
  if (!digits()) return error_here("expected a number");
  if (leading_zero && position_ - whole_start > 1) return error_here("a number with a leading zero");
  if (peek_char() == '.') {
    ++position_;
    if (!digits()) return error_here("a number without digits after the point");
  }
  if (peek_char() == 'e' || peek_char() == 'E') {
    ++position_;
    if (peek_char() == '+' || peek_char() == '-') ++position_;
    if (!digits()) return error_here("a number without digits in the exponent");
  }
  return text_.substr(start, position_ - start);
}

Result<uint64_t> JsonReader::read_u64() {
  uint64_t value = 0;
  if (take_short_u64(value)) return value;
  return read_long_u64();
}

// Twenty digits, and everything that is an error.
Result<uint64_t> JsonReader::read_long_u64() {
  BALLAST_TRY(const std::string_view token, number_token());
  uint64_t value = 0;
  const auto [end, failure] = std::from_chars(token.data(), token.data() + token.size(), value);
  if (failure != std::errc() || end != token.data() + token.size()) {
    return error_here("expected a whole number from 0 to 2^64-1, found " + std::string(token.substr(0, 40)));
  }
  return value;
}

Result<int64_t> JsonReader::read_i64() {
  BALLAST_TRY(const std::string_view token, number_token());
  int64_t value = 0;
  const auto [end, failure] = std::from_chars(token.data(), token.data() + token.size(), value);
  if (failure != std::errc() || end != token.data() + token.size()) {
    return error_here("expected a whole number, found " + std::string(token.substr(0, 40)));
  }
  return value;
}

namespace {

// Which end of the range a number left: parse_real does not tell. True for those far above 1, false for those near 0.
bool is_beyond_range(std::string_view number) {
  const size_t mark = std::min(number.find_first_of("eE"), number.size());
  const std::string_view digits = number.substr(0, mark);
  int64_t exponent = 0;
  if (mark != number.size()) {
    std::string_view written = number.substr(mark + 1);
    if (written.starts_with('+')) written.remove_prefix(1);
    const auto [end, failure] = std::from_chars(written.data(), written.data() + written.size(), exponent);
    if (failure == std::errc::result_out_of_range) return !written.starts_with('-');
    constexpr int64_t kFar = int64_t{1} << 60;  // no text has as many digits
    exponent = std::clamp(exponent, -kFar, kFar);
  }
  const size_t first = digits.find_first_of("123456789");
  if (first == std::string_view::npos) return false;
  const size_t point = std::min(digits.find('.'), digits.size());
  return exponent + static_cast<int64_t>(point) - static_cast<int64_t>(first) > 0;
}

}  // namespace

Result<double> JsonReader::read_double() {
  BALLAST_TRY(const std::string_view token, number_token());
  if (token == "NaN" || token == "-NaN") return std::nan("");
  double value = 0;
  const std::errc failure = parse_real(token, value);
  if (failure == std::errc::result_out_of_range) {
    const double sign = token.starts_with('-') ? -1 : 1;
    if (!is_beyond_range(token)) return sign * 0.0;
    if (dialect_ == Dialect::kPython) return sign * HUGE_VAL;  // as Python reads it
    return error_here("the number " + std::string(token.substr(0, 40)) + " is too large for 64-bit floating point");
  }
  if (token == "Infinity") return HUGE_VAL;
  if (token == "-Infinity") return -HUGE_VAL;
  if (failure != std::errc()) return error_here("expected a number");
  return value;
}

Status JsonReader::read_u64_array(std::vector<uint64_t>& values) {
  values.clear();
  BALLAST_CHECK(enter_array());
  --depth_;  // nothing can stand inside the numbers
  if (take(']')) return {};
  do {
    uint64_t value = 0;
    if (!take_short_u64(value)) BALLAST_CHECK(assign(value, read_long_u64()));
    values.push_back(value);
  } while (take(','));
  return take(']') ? Status() : error_here("expected ',' or ']' in a JSON array");
}

Result<std::vector<uint64_t>> JsonReader::read_u64_array() {
  std::vector<uint64_t> values;
  BALLAST_CHECK(read_u64_array(values));
  return values;
}

Result<bool> JsonReader::read_bool() {
  BALLAST_TRY(const JsonType type, peek());
  if (type == JsonType::kTrue) {
    BALLAST_CHECK(skip_literal("true"));
    return true;
  }
  if (type != JsonType::kFalse) return error_here("expected true or false");
  BALLAST_CHECK(skip_literal("false"));
  return false;
}

Status JsonReader::read_null() { return skip_literal("null"); }

Status JsonReader::skip_literal(std::string_view word) {
  skip_space();
  if (text_.substr(position_, word.size()) != word) return error_here("not a JSON value");
  position_ += word.size();
  return {};
}

Status JsonReader::skip_scalar(JsonType type) {
  switch (type) {
    case JsonType::kString: break;
    case JsonType::kTrue: return skip_literal("true");
    case JsonType::kFalse: return skip_literal("false");
    case JsonType::kNull: return skip_literal("null");
    default: break;
  }
  // Skipping decodes too: an invalid string is invalid wherever it stands.
  BALLAST_TRY([[maybe_unused]] const std::string_view token,
              type == JsonType::kString ? read_string_view() : number_token());
  return {};
}

Status JsonReader::skip_value() {
  // Iterative: `kinds` holds the containers that this call has opened.
  std::vector<JsonType> kinds;
  std::string_view key;
  do {
    if (!kinds.empty()) {
      const bool in_object = kinds.back() == JsonType::kObject;
      BALLAST_TRY(const bool more, in_object ? next_key(key) : next_element());
      if (!more) {
        kinds.pop_back();
        continue;
      }
    }
    BALLAST_TRY(const JsonType type, peek());
    if (type == JsonType::kObject || type == JsonType::kArray) {
      BALLAST_CHECK(type == JsonType::kObject ? enter_object() : enter_array());
      kinds.push_back(type);
    } else {
      BALLAST_CHECK(skip_scalar(type));
    }
  } while (!kinds.empty());
  return {};
}

Result<std::string_view> JsonReader::read_raw() {
  skip_space();
  const size_t start = position_;
  BALLAST_CHECK(skip_value());
  return text_.substr(start, position_ - start);
}

Status JsonReader::finish() {
  skip_space();
  if (position_ != text_.size()) return error_here("something follows the end of the JSON value");
  return {};
}

}  // namespace ballast
