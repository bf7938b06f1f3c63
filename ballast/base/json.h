// JSON, read by a bounded pull reader that shows order and duplicates, and written deterministically.
//
// The reader never builds a tree, never recurses on its input and allocates nothing but the strings it is asked for:
// a string without escapes is a view of the text. It checks UTF-8 and the grammar as it goes. Dialect::kPython also
// takes NaN, Infinity and -Infinity, which Python's json module writes.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "ballast/base/result.h"

namespace ballast {

enum class JsonType : uint8_t { kObject, kArray, kString, kNumber, kTrue, kFalse, kNull };

class JsonReader {
 public:
  enum class Dialect : uint8_t { kStrict, kPython };

  // `where` names the text in errors ("model.safetensors: header"); `base_offset` is added to every position.
  // The text must outlive the reader.
  JsonReader(std::string_view text, std::string where, uint64_t base_offset = 0, Dialect dialect = Dialect::kStrict);

  // What the next value is, without consuming it.
  Result<JsonType> peek();

  // enter_object(); while (next_key(key)) { one value }: next_key consumes the closing brace and returns false there.
  // A view is valid until the next string is read: it points into the text, or where that has escapes into the reader.
  Status enter_object();
  Result<bool> next_key(std::string& key);
  Result<bool> next_key(std::string_view& key);
  // enter_array(); while (next_element()) { one value }. next_key and next_element fail where nothing was entered.
  Status enter_array();
  Result<bool> next_element();

  Result<std::string> read_string();
  // As for keys: valid until the next string is read.
  Result<std::string_view> read_string_view();
  // Whole, non-negative, without fraction, exponent or sign, and at most 2^64-1.
  Result<uint64_t> read_u64();
  Result<int64_t> read_i64();
  // What is too small becomes 0. What is too large is an error, or infinity in Python's dialect.
  Result<double> read_double();
  Result<bool> read_bool();
  // An array of such numbers.
  Result<std::vector<uint64_t>> read_u64_array();
  // The same into a list that can be used again and again.
  Status read_u64_array(std::vector<uint64_t>& values);
  Status read_null();
  // The raw text of the next value, grammar checked.
  Result<std::string_view> read_raw();
  Status skip_value();

  // Only white space may follow.
  Status finish();

  // Position of the next byte, counted from the start of the file.
  uint64_t offset() const { return base_offset_ + position_; }

  // An error at the current position: "<where>: byte <offset>: <what>".
  Error error_here(std::string_view what) const;

 private:
  static constexpr size_t kMaxDepth = 256;

  // Called for every token, so they are inline.
  void skip_space() {
    while (position_ < text_.size() && is_space(text_[position_])) ++position_;
  }
  bool take(char c) {
    skip_space();
    if (position_ >= text_.size() || text_[position_] != c) return false;
    ++position_;
    return true;
  }
  static bool is_space(char c) { return c == ' ' || c == '\n' || c == '\t' || c == '\r'; }
  Status enter(char bracket, std::string_view what);
  Result<std::string_view> number_token();
  bool take_plain_string(std::string_view& out);
  bool take_short_u64(uint64_t& value);
  Result<std::string_view> read_long_string();
  Result<uint64_t> read_long_u64();
  Status read_escape(std::string& out);
  Result<uint32_t> read_hex4();
  Status skip_literal(std::string_view word);
  Status skip_scalar(JsonType type);

  std::string_view text_;
  std::string where_;
  uint64_t base_offset_;
  Dialect dialect_;
  size_t position_ = 0;
  size_t depth_ = 0;
  // One flag per open container: nothing was read in it yet, so no comma is due.
  std::array<bool, kMaxDepth> fresh_{};
  std::string unescaped_;  // the last string that had escapes
};

// Appends `text` in quotes, escaping only what JSON demands (as serde_json does).
void append_json_string(std::string& out, std::string_view text);

// A number as Python writes it: the shortest text that gives the same value back, with a point or an exponent; or NaN,
// Infinity, -Infinity.
std::string python_real(double value);

// Writes one JSON value, compact or indented by two spaces. Keys appear in the order they are given.
class JsonWriter {
 public:
  explicit JsonWriter(bool pretty = false) : pretty_(pretty) {}

  JsonWriter& begin_object() { return open('{'); }
  JsonWriter& end_object() { return close('}'); }
  JsonWriter& begin_array() { return open('['); }
  JsonWriter& end_array() { return close(']'); }
  JsonWriter& key(std::string_view name);
  JsonWriter& string(std::string_view text);
  JsonWriter& number(uint64_t value) { return raw(std::to_string(value)); }
  JsonWriter& signed_number(int64_t value) { return raw(std::to_string(value)); }
  // Shortest text that gives the same double back; NaN and infinities become strings, which JSON lacks numbers for.
  JsonWriter& real(double value);
  JsonWriter& numbers(std::span<const uint64_t> values);
  JsonWriter& boolean(bool value) { return raw(value ? "true" : "false"); }
  JsonWriter& null() { return raw("null"); }
  // `text` must be JSON already.
  JsonWriter& raw(std::string_view text);

  std::string take() { return std::move(out_); }

 private:
  JsonWriter& open(char bracket);
  JsonWriter& close(char bracket);
  void before_value();
  void new_line();

  bool pretty_;
  bool after_key_ = false;
  std::vector<bool> has_items_;
  std::string out_;
};

}  // namespace ballast
