#include "ballast/text/template/jinja_print.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cmath>

#include "ballast/base/utf8.h"
#include "ballast/text/template/jinja_builtins.h"
#include "ballast/text/template/jinja_strings.h"
#include "ballast/text/template/jinja_syntax.h"

namespace ballast::jinja {

namespace {

constexpr uint32_t kMostPrintDepth = 400;  // a namespace may hold itself

Status check_printed(Meter& meter, const Text& out) {
  BALLAST_CHECK(meter.step());
  return meter.check_room(out.size());
}

// ---------------------------------------------------------------- repr

void append_quoted(Text& out, const Text& text) {
  const std::string& bytes = text.bytes();
  const char quote = bytes.find('\'') != std::string::npos && bytes.find('"') == std::string::npos ? '"' : '\'';
  out.append(std::string_view(&quote, 1));
  for (size_t at = 0; at < bytes.size();) {
    const size_t begin = at;
    const auto taken = take_code_point(bytes, at);
    const uint32_t c = taken.value_or(0xFFFD);
    if (!taken) ++at;
    const bool mark = text.from_message(begin);
    if (c == static_cast<uint32_t>(quote) || c == '\\') out.append(fmt::format("\\{}", static_cast<char>(c)), mark);
    else if (c == '\n') out.append("\\n", mark);
    else if (c == '\r') out.append("\\r", mark);
    else if (c == '\t') out.append("\\t", mark);
    else if (is_printable(c)) out.append(text, begin, at);
    else if (c < 0x100) out.append(fmt::format("\\x{:02x}", c), mark);
    else if (c < 0x10000) out.append(fmt::format("\\u{:04x}", c), mark);
    else out.append(fmt::format("\\U{:08x}", c), mark);
  }
  out.append(std::string_view(&quote, 1));
}

Status append_value(Meter& meter, Text& out, const Value& value, bool quoted, uint32_t depth);

Status append_items(Meter& meter, Text& out, const Sequence& sequence, uint32_t depth) {
  const bool tuple = sequence.is_tuple();
  out.append(tuple ? "(" : "[");
  bool first = true;
  for (const Value& item : sequence.items) {
    if (!std::exchange(first, false)) out.append(", ");
    BALLAST_CHECK(append_value(meter, out, item, true, depth));
  }
  if (tuple && sequence.items.size() == 1) out.append(",");
  out.append(tuple ? ")" : "]");
  return {};
}

Status append_entries(Meter& meter, Text& out, const Mapping& mapping, uint32_t depth) {
  out.append("{");
  bool first = true;
  for (const auto& [key, value] : mapping.entries) {
    if (!std::exchange(first, false)) out.append(", ");
    BALLAST_CHECK(append_value(meter, out, key, true, depth));
    out.append(": ");
    BALLAST_CHECK(append_value(meter, out, value, true, depth));
  }
  out.append("}");
  return {};
}

Status append_namespace(Meter& meter, Text& out, const Namespace& fields, uint32_t depth) {
  out.append("<Namespace {");
  bool first = true;
  for (const auto& [name, value] : fields.fields) {
    out.append(fmt::format("{}'{}': ", std::exchange(first, false) ? "" : ", ", name));
    BALLAST_CHECK(append_value(meter, out, value, true, depth));
  }
  out.append("}>");
  return {};
}

Status append_value(Meter& meter, Text& out, const Value& value, bool quoted, uint32_t depth) {
  if (depth > kMostPrintDepth) return type_error("a namespace that holds itself cannot be printed");
  BALLAST_CHECK(check_printed(meter, out));
  if (const Text* text = value.text()) {
    if (!quoted) {
      out.append(*text);
      return {};
    }
    BALLAST_CHECK(meter.step(text->size() / kBytesPerStep));
    append_quoted(out, *text);
    return {};
  }
  if (const Sequence* sequence = value.sequence()) return append_items(meter, out, *sequence, depth + 1);
  if (const Mapping* mapping = value.mapping()) return append_entries(meter, out, *mapping, depth + 1);
  if (const Namespace* fields = value.name_space()) return append_namespace(meter, out, *fields, depth + 1);
  if (value.is_none()) out.append("None");
  else if (value.is_bool()) out.append(truth(value) ? "True" : "False");
  else if (value.is_int()) out.append(std::to_string(value.as_int()));
  else if (value.is_float()) out.append(float_text(value.as_double()));
  else if (value.is_undefined()) out.append(quoted ? "Undefined" : "");
  else if (value.loop() != nullptr) out.append("<LoopContext>");
  else out.append(fmt::format("<{}>", value.callable()->macro != nullptr ? "Macro" : "function"));
  return {};
}

}  // namespace

std::string float_text(double value) {
  if (std::isnan(value)) return "nan";
  if (std::isinf(value)) return value > 0 ? "inf" : "-inf";
  char buffer[64];
  const auto scientific = std::to_chars(buffer, buffer + sizeof buffer, value, std::chars_format::scientific);
  std::string text(buffer, scientific.ptr);
  int exponent = 0;
  const char* digits = text.c_str() + text.find('e') + 1;
  std::from_chars(*digits == '+' ? digits + 1 : digits, text.c_str() + text.size(), exponent);
  if (exponent < -4 || exponent >= 16) return text;
  const auto fixed = std::to_chars(buffer, buffer + sizeof buffer, value, std::chars_format::fixed);
  text.assign(buffer, fixed.ptr);
  return text.find('.') == std::string::npos ? text + ".0" : text;
}

Status append_printed(Meter& meter, Text& out, const Value& value) { return append_value(meter, out, value, false, 0); }

Status append_repr(Meter& meter, Text& out, const Value& value) { return append_value(meter, out, value, true, 0); }

Result<Text> printed(Meter& meter, const Value& value) {
  Text out;
  BALLAST_CHECK(append_printed(meter, out, value));
  return out;
}

// ---------------------------------------------------------------- JSON

namespace {

class JsonPrinter {
 public:
  JsonPrinter(Meter& meter, const JsonStyle& style) : meter_(meter), style_(style) {}

  Status value(const Value& value, size_t level) {
    BALLAST_CHECK(check_printed(meter_, out_));
    if (const Text* text = value.text()) return string(*text);
    if (const Sequence* sequence = value.sequence(); sequence != nullptr && !is_generator(*sequence)) {
      return array(*sequence, level);
    } else if (const Mapping* mapping = value.mapping()) return object(*mapping, level);
    else if (value.is_none()) out_.append("null");
    else if (value.is_bool()) out_.append(truth(value) ? "true" : "false");
    else if (value.is_int()) out_.append(std::to_string(value.as_int()));
    else if (value.is_float()) out_.append(json_float(value.as_double()));
    else return type_error(fmt::format("Object of type {} is not JSON serializable", type_name(value)));
    return {};
  }
  Text take() { return std::move(out_); }

 private:
  static bool is_generator(const Sequence& sequence) { return sequence.kind == Sequence::Kind::kGenerator; }
  static std::string json_float(double value) {
    if (std::isnan(value)) return "NaN";
    if (std::isinf(value)) return value > 0 ? "Infinity" : "-Infinity";
    return float_text(value);
  }

  void new_line(size_t level) {
    if (!style_.indent) return;
    out_.append("\n");
    for (size_t i = 0; i < level; ++i) out_.append(*style_.indent);
  }

  Status array(const Sequence& sequence, size_t level) {
    if (sequence.items.empty()) {
      out_.append("[]");
      return {};
    }
    out_.append("[");
    for (size_t i = 0; i < sequence.items.size(); ++i) {
      if (i > 0) out_.append(style_.item_separator);
      new_line(level + 1);
      BALLAST_CHECK(value(sequence.items[i], level + 1));
    }
    new_line(level);
    out_.append("]");
    return {};
  }

  Status object(const Mapping& mapping, size_t level) {
    if (mapping.entries.empty()) {
      out_.append("{}");
      return {};
    }
    BALLAST_TRY(const auto entries, entries_in_order(mapping));
    out_.append("{");
    for (size_t i = 0; i < entries.size(); ++i) {
      if (i > 0) out_.append(style_.item_separator);
      new_line(level + 1);
      BALLAST_CHECK(key(entries[i]->first));
      out_.append(style_.key_separator);
      BALLAST_CHECK(value(entries[i]->second, level + 1));
    }
    new_line(level);
    out_.append("}");
    return {};
  }

  Result<std::vector<const std::pair<Value, Value>*>> entries_in_order(const Mapping& mapping) {
    std::vector<const std::pair<Value, Value>*> entries;
    for (const auto& entry : mapping.entries) entries.push_back(&entry);
    if (!style_.sort_keys) return entries;
    std::optional<Error> failure;
    std::ranges::stable_sort(entries, [&](const auto* a, const auto* b) {
      auto before = less(meter_, a->first, b->first);
      if (!before && !failure) failure = before.error();
      return before && *before;
    });
    if (failure) return *failure;
    return entries;
  }

  Status key(const Value& key) {
    if (const Text* text = key.text()) return string(*text);
    if (!key.is_number() && !key.is_none()) {
      return type_error(fmt::format("keys must be str, int, float, bool or None, not {}", type_name(key)));
    }
    out_.append("\"");
    BALLAST_CHECK(value(key, 0));
    out_.append("\"");
    return {};
  }

  Status string(const Text& text) {
    const std::string& bytes = text.bytes();
    BALLAST_CHECK(meter_.step(bytes.size() / kBytesPerStep));
    out_.append("\"");
    size_t copied = 0;
    for (size_t at = 0; at < bytes.size();) {
      const size_t begin = at;
      const auto taken = take_code_point(bytes, at);
      if (!taken) ++at;
      const std::string escape = escaped(taken.value_or(0xFFFD));
      if (escape.empty()) continue;
      out_.append(text, copied, begin);
      out_.append(escape, text.from_message(begin));
      copied = at;
    }
    out_.append(text, copied, bytes.size());
    out_.append("\"");
    return {};
  }

  // "" where the character stands for itself.
  std::string escaped(uint32_t c) const {
    switch (c) {
      case '"': return "\\\"";
      case '\\': return "\\\\";
      case '\b': return "\\b";
      case '\f': return "\\f";
      case '\n': return "\\n";
      case '\r': return "\\r";
      case '\t': return "\\t";
      default: break;
    }
    if (c < 0x20 || (style_.ensure_ascii && c >= 0x7F && c < 0x10000)) return fmt::format("\\u{:04x}", c);
    if (!style_.ensure_ascii || c < 0x10000) return "";
    return fmt::format("\\u{:04x}\\u{:04x}", 0xD800 + ((c - 0x10000) >> 10U), 0xDC00 + ((c - 0x10000) & 0x3FFU));
  }

  Meter& meter_;
  const JsonStyle& style_;
  Text out_;
};

}  // namespace

Result<Text> json_text(Meter& meter, const Value& value, const JsonStyle& style) {
  JsonPrinter printer(meter, style);
  BALLAST_CHECK(printer.value(value, 0));
  return printer.take();
}

}  // namespace ballast::jinja
