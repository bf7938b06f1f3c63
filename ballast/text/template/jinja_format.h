// Python's ways of putting values into texts: 'a %s' % value and '{:>5}'.format(value).
#pragma once

#include <span>

#include "ballast/text/template/jinja_value.h"

namespace ballast::jinja {

// text % value: a tuple fills the places one after the other, a mapping those with names.
Result<Value> format_percent(Meter& meter, const Text& text, const Value& value);

// format(value, spec), at the end of `out`: fill, alignment, sign, width, precision and type. Without a spec: str().
Status append_formatted(Meter& meter, Text& out, const Value& value, std::string_view spec);

}  // namespace ballast::jinja
