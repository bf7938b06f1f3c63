// The one file that includes toml11, whose third and fourth generations both serve: only what they share is used.
#include <fmt/format.h>

#include <algorithm>
#include <new>
#include <sstream>
#include <toml.hpp>

#include "ballast/base/utf8.h"
#include "ballast/training/config/config_tree.h"

namespace ballast {

namespace {

constexpr unsigned kMostDepth = 64;
constexpr size_t kMostBytes = size_t{1} << 20;

Error bad_toml(const std::string& where, uint64_t line, std::string_view what) {
  return make_error(ErrorCode::kInvalidArgument, fmt::format("{}:{}: {}", where, line, what));
}

// The parser calls itself for every level of nesting and for every part of a dotted name, so a file made for that would
// end the process. This looks at brackets and dots outside texts and comments, and lets nothing deep through.
class DepthCheck {
 public:
  explicit DepthCheck(std::string_view text) : text_(text) {}

  // The line that is too deep; 0: none.
  uint64_t run() {
    while (at_ < text_.size()) {
      const char c = text_[at_];
      if (c == '"' || c == '\'') {
        skip_text(c);
        continue;
      }
      if (c == '#') {
        at_ = std::min(text_.find('\n', at_), text_.size());
        continue;
      }
      if (c == '[' || c == '{') ++depth_;
      if ((c == ']' || c == '}') && depth_ > 0) --depth_;
      if (c == '.') ++dots_;
      if (c == '\n') ++line_;
      if (c == '\n' || c == ',' || c == '=') dots_ = 0;
      if (depth_ > kMostDepth || dots_ > kMostDepth) return line_;
      ++at_;
    }
    return 0;
  }

 private:
  void skip_text(char quote) {
    const std::string triple(3, quote);
    const bool is_long = text_.substr(at_).starts_with(triple);
    at_ += is_long ? 3 : 1;
    while (at_ < text_.size()) {
      if (quote == '"' && text_[at_] == '\\') {
        at_ += 2;
        continue;
      }
      if (is_long ? text_.substr(at_).starts_with(triple) : text_[at_] == quote) {
        at_ += is_long ? 3 : 1;
        return;
      }
      if (text_[at_] == '\n') {
        ++line_;
        if (!is_long) return;  // such a text ends with its line; the parser will say so
      }
      ++at_;
    }
  }

  std::string_view text_;
  size_t at_ = 0;
  uint64_t line_ = 1;
  unsigned depth_ = 0;
  unsigned dots_ = 0;
};

template <typename Value>
uint64_t line_of(const Value& value) {
  const auto location = value.location();
  if constexpr (requires { location.first_line_number(); }) return location.first_line_number();
  else return location.line();
}

template <typename Value>
Result<ConfigValue> to_tree(const Value& from, const std::string& where) {
  ConfigValue value;
  value.line = line_of(from);
  if (from.is_boolean()) {
    value.kind = ConfigValue::Kind::kBool;
    value.truth = from.as_boolean();
  } else if (from.is_integer()) {
    value.kind = ConfigValue::Kind::kWhole;
    value.whole = from.as_integer();
  } else if (from.is_floating()) {
    value.kind = ConfigValue::Kind::kReal;
    value.real = from.as_floating();
  } else if (from.is_string()) {
    value.kind = ConfigValue::Kind::kText;
    value.text = toml::get<std::string>(from);
  } else if (from.is_array()) {
    value.kind = ConfigValue::Kind::kList;
    for (const auto& item : from.as_array()) {
      BALLAST_TRY(ConfigValue made, to_tree(item, where));
      value.items.push_back(std::move(made));
    }
  } else if (from.is_table()) {
    value.kind = ConfigValue::Kind::kTable;
    for (const auto& [name, item] : from.as_table()) {
      BALLAST_TRY(ConfigValue made, to_tree(item, where));
      value.members.push_back({name, std::move(made)});
    }
    // The parser keeps no order of names; by line is as they were written, by name settles the rest.
    std::sort(value.members.begin(), value.members.end(), [](const ConfigMember& a, const ConfigMember& b) {
      return std::pair(a.value.line, a.name) < std::pair(b.value.line, b.name);
    });
  } else {
    return bad_toml(where, value.line, "dates and times mean nothing here");
  }
  return value;
}

// The parser's message has several lines with a drawing; the first says what is wrong, the drawing where.
Error syntax_error(const std::string& where, const std::string& message) {
  std::string shown = message;
  for (const std::string_view noise : {"[error] ", "toml::parse_", "toml::"}) {
    for (size_t at = shown.find(noise); at != std::string::npos; at = shown.find(noise, at))
      shown.erase(at, noise.size());
  }
  while (!shown.empty() && shown.back() == '\n') shown.pop_back();
  return make_error(ErrorCode::kInvalidArgument, fmt::format("{}: no valid TOML: {}", where, shown));
}

}  // namespace

Result<ConfigValue> parse_config_toml(std::string_view text, const std::string& where) {
  if (text.size() > kMostBytes) return bad_toml(where, 1, "too long for a configuration");
  if (!is_valid_utf8(text)) {
    return make_error(ErrorCode::kInvalidArgument, fmt::format("{}: not UTF-8, which TOML has to be", where));
  }
  if (const uint64_t line = DepthCheck(text).run(); line != 0) {
    return bad_toml(where, line, fmt::format("nested deeper than {}", kMostDepth));
  }
  try {
    std::istringstream stream{std::string(text)};
    return to_tree(toml::parse(stream, where), where);
  } catch (const std::bad_alloc&) {
    return make_error(ErrorCode::kOutOfMemory, fmt::format("{}: not enough memory to read it", where));
  } catch (const std::exception& failure) {  // the parser's only way to say no
    return syntax_error(where, failure.what());
  }
}

}  // namespace ballast
