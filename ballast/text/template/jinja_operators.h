// Arithmetic, comparison and slicing of values, as Python has them.
#pragma once

#include "ballast/text/template/jinja_syntax.h"
#include "ballast/text/template/jinja_value.h"

namespace ballast::jinja {

Result<Value> compute(Meter& meter, Operator op, const Value& a, const Value& b);
Result<Value> negative(const Value& value);
Result<bool> compare(Meter& meter, Operator op, const Value& a, const Value& b);
// `needle in value`
Result<bool> contains(Meter& meter, const Value& value, const Value& needle);

// value[first:last:step]; none stands for a part that is left out. Undefined for what cannot be sliced.
Result<Value> slice(Meter& meter, const Value& value, const Value& first, const Value& last, const Value& step);
// The element or character at a position, from the end if negative; nullopt where there is none.
Result<std::optional<Value>> element(Meter& meter, const Value& value, int64_t index);

}  // namespace ballast::jinja
