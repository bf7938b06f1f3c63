// Values as text: as Python prints them, and as its json module does.
#pragma once

#include <optional>
#include <string>

#include "ballast/text/template/jinja_value.h"

namespace ballast::jinja {

// str(value). An error where it would be too long.
Status append_printed(Meter& meter, Text& out, const Value& value);
Result<Text> printed(Meter& meter, const Value& value);
// repr(value): texts have quotes.
Status append_repr(Meter& meter, Text& out, const Value& value);
// repr() of a double: the shortest digits that give it back.
std::string float_text(double value);

struct JsonStyle {
  bool ensure_ascii = false;
  bool sort_keys = false;
  std::optional<std::string> indent;  // what one level is indented by; absent: all on one line
  std::string item_separator = ", ";
  std::string key_separator = ": ";
};
Result<Text> json_text(Meter& meter, const Value& value, const JsonStyle& style);

}  // namespace ballast::jinja
