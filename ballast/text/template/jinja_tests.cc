// What may stand behind `is`.
#include <fmt/format.h>

#include "ballast/text/template/jinja_operators.h"
#include "ballast/text/template/jinja_tables.h"
#include "ballast/text/template/jinja_text_tools.h"

namespace ballast::jinja {

namespace {

template <bool (*kHolds)(const Value&)>
Result<Value> plain_test(Call& call) {
  return Value(kHolds(call.self));
}

bool is_defined(const Value& value) { return !value.is_undefined(); }
bool is_undefined(const Value& value) { return value.is_undefined(); }
bool is_none(const Value& value) { return value.is_none(); }
bool is_string(const Value& value) { return value.text() != nullptr; }
bool is_mapping(const Value& value) { return value.mapping() != nullptr; }
bool is_boolean(const Value& value) { return value.is_bool(); }
bool is_true(const Value& value) { return value.is_bool() && truth(value); }
bool is_false(const Value& value) { return value.is_bool() && !truth(value); }
bool is_number(const Value& value) { return value.is_number(); }
bool is_integer(const Value& value) { return value.is_int(); }
bool is_float(const Value& value) { return value.is_float(); }
bool is_callable(const Value& value) { return value.callable() != nullptr; }
// Undefined can be iterated and has a length, so it counts as both.
bool is_iterable(const Value& value) {
  return value.is_undefined() || value.text() != nullptr || value.sequence() != nullptr || value.mapping() != nullptr;
}
bool is_sequence(const Value& value) {
  return is_iterable(value) && (value.sequence() == nullptr || value.sequence()->kind != Sequence::Kind::kGenerator);
}

template <Operator kOperator>
Result<Value> comparing_test(Call& call) {
  BALLAST_TRY(const bool holds, compare(call.meter, kOperator, call.self, *call.get(0)));
  return Value(holds);
}

Result<Value> test_same(Call& call) {
  if (call.self.variant().index() != call.get(0)->variant().index()) return Value(false);
  BALLAST_TRY(const bool same, equal(call.meter, call.self, *call.get(0)));
  return Value(same);
}

Result<int64_t> remainder(Call& call, const Value& divisor) {
  BALLAST_TRY(const Value rest, compute(call.meter, Operator::kModulo, call.self, divisor));
  return rest.is_float() ? static_cast<int64_t>(rest.as_double() != 0) : rest.as_int();
}

Result<Value> test_odd(Call& call) {
  BALLAST_TRY(const int64_t rest, remainder(call, int64_t{2}));
  return Value(rest == 1);
}
Result<Value> test_even(Call& call) {
  BALLAST_TRY(const int64_t rest, remainder(call, int64_t{2}));
  return Value(rest == 0);
}
Result<Value> test_divisible(Call& call) {
  BALLAST_TRY(const int64_t rest, remainder(call, *call.get(0)));
  return Value(rest == 0);
}

template <CaseChange kCase>
Result<Value> test_case(Call& call) {
  if (call.self.text() == nullptr) return Value(false);
  const std::string& text = call.self_text().bytes();
  const CaseChange other = kCase == CaseChange::kUpper ? CaseChange::kLower : CaseChange::kUpper;
  return Value(cased(call.self_text(), kCase).bytes() == text && cased(call.self_text(), other).bytes() != text);
}

constexpr Builtin kTests[] = {
    {"defined", "", 0, plain_test<is_defined>},
    {"undefined", "", 0, plain_test<is_undefined>},
    {"none", "", 0, plain_test<is_none>},
    {"string", "", 0, plain_test<is_string>},
    {"mapping", "", 0, plain_test<is_mapping>},
    {"iterable", "", 0, plain_test<is_iterable>},
    {"sequence", "", 0, plain_test<is_sequence>},
    {"boolean", "", 0, plain_test<is_boolean>},
    {"true", "", 0, plain_test<is_true>},
    {"false", "", 0, plain_test<is_false>},
    {"number", "", 0, plain_test<is_number>},
    {"integer", "", 0, plain_test<is_integer>},
    {"float", "", 0, plain_test<is_float>},
    {"callable", "", 0, plain_test<is_callable>},
    {"odd", "", 0, test_odd},
    {"even", "", 0, test_even},
    {"divisibleby", "num", 1, test_divisible},
    {"lower", "", 0, test_case<CaseChange::kLower>},
    {"upper", "", 0, test_case<CaseChange::kUpper>},
    {"sameas", "other", 1, test_same},
    {"in", "seq", 1, comparing_test<Operator::kIn>},
    {"equalto", "other", 1, comparing_test<Operator::kEqual>},
    {"eq", "other", 1, comparing_test<Operator::kEqual>},
    {"==", "other", 1, comparing_test<Operator::kEqual>},
    {"ne", "other", 1, comparing_test<Operator::kNotEqual>},
    {"!=", "other", 1, comparing_test<Operator::kNotEqual>},
    {"lt", "other", 1, comparing_test<Operator::kLess>},
    {"lessthan", "other", 1, comparing_test<Operator::kLess>},
    {"<", "other", 1, comparing_test<Operator::kLess>},
    {"le", "other", 1, comparing_test<Operator::kLessEqual>},
    {"<=", "other", 1, comparing_test<Operator::kLessEqual>},
    {"gt", "other", 1, comparing_test<Operator::kGreater>},
    {"greaterthan", "other", 1, comparing_test<Operator::kGreater>},
    {">", "other", 1, comparing_test<Operator::kGreater>},
    {"ge", "other", 1, comparing_test<Operator::kGreaterEqual>},
    {">=", "other", 1, comparing_test<Operator::kGreaterEqual>},
};

}  // namespace

std::span<const Builtin> tests() { return kTests; }

}  // namespace ballast::jinja
