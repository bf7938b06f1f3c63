#include <fmt/format.h>

#include <cmath>

#include "ballast/base/json.h"
#include "ballast/base/real.h"

namespace ballast {

namespace {

bool needs_escape(char c) { return static_cast<unsigned char>(c) < 0x20 || c == '"' || c == '\\'; }

void append_escape(std::string& out, char c) {
  static constexpr char kHex[] = "0123456789abcdef";
  switch (c) {
    case '"': out += "\\\""; break;
    case '\\': out += "\\\\"; break;
    case '\b': out += "\\b"; break;
    case '\f': out += "\\f"; break;
    case '\n': out += "\\n"; break;
    case '\r': out += "\\r"; break;
    case '\t': out += "\\t"; break;
    default:
      out += "\\u00";
      out.push_back(kHex[static_cast<unsigned char>(c) >> 4]);
      out.push_back(kHex[static_cast<unsigned char>(c) & 15]);
  }
}

}  // namespace

void append_json_string(std::string& out, std::string_view text) {
  out.push_back('"');
  size_t copied = 0;
  for (size_t at = 0; at < text.size(); ++at) {
    if (!needs_escape(text[at])) continue;
    out.append(text, copied, at - copied);
    append_escape(out, text[at]);
    copied = at + 1;
  }
  out.append(text, copied);
  out.push_back('"');
}

void JsonWriter::new_line() {
  if (!pretty_) return;
  out_.push_back('\n');
  out_.append(has_items_.size() * 2, ' ');
}

void JsonWriter::before_value() {
  if (after_key_) {
    after_key_ = false;
    return;
  }
  if (has_items_.empty()) return;
  if (has_items_.back()) out_.push_back(',');
  has_items_.back() = true;
  new_line();
}

JsonWriter& JsonWriter::open(char bracket) {
  before_value();
  out_.push_back(bracket);
  has_items_.push_back(false);
  return *this;
}

JsonWriter& JsonWriter::close(char bracket) {
  const bool had_items = has_items_.back();
  has_items_.pop_back();
  if (had_items) new_line();
  out_.push_back(bracket);
  return *this;
}

JsonWriter& JsonWriter::key(std::string_view name) {
  before_value();
  append_json_string(out_, name);
  out_ += pretty_ ? ": " : ":";
  after_key_ = true;
  return *this;
}

JsonWriter& JsonWriter::string(std::string_view text) {
  before_value();
  append_json_string(out_, text);
  return *this;
}

JsonWriter& JsonWriter::raw(std::string_view text) {
  before_value();
  out_ += text;
  return *this;
}

JsonWriter& JsonWriter::numbers(std::span<const uint64_t> values) {
  // One line even when pretty: a shape reads better so.
  std::string list = "[";
  for (const uint64_t value : values) {
    if (list.size() > 1) list += pretty_ ? ", " : ",";
    list += std::to_string(value);
  }
  return raw(list + "]");
}

JsonWriter& JsonWriter::real(double value) {
  if (std::isnan(value)) return string("nan");
  if (std::isinf(value)) return string(value > 0 ? "inf" : "-inf");
  return raw(real_text(value));
}

std::string python_real(double value) {
  if (std::isnan(value)) return "NaN";
  if (std::isinf(value)) return value > 0 ? "Infinity" : "-Infinity";
  std::string text = fmt::format("{}", value);
  if (text.find_first_of(".en") == std::string::npos) text += ".0";
  return text;
}

}  // namespace ballast
