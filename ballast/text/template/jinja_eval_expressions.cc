#include <fmt/format.h>

#include <algorithm>

#include "ballast/text/template/jinja_eval.h"
#include "ballast/text/template/jinja_operators.h"
#include "ballast/text/template/jinja_print.h"
#include "ballast/text/template/jinja_strings.h"

namespace ballast::jinja {

Result<Value> Renderer::eval(const Expr& expr, Scope& scope) {
  ++depth_;
  Result<Value> value = Value();
  if (Status status = deeper(); !status) value = std::move(status).error();
  else value = eval_kind(expr, scope);
  --depth_;
  if (!value) return place_error(std::move(value).error(), expr.line);
  return value;
}

Result<Value> Renderer::eval_kind(const Expr& expr, Scope& scope) {
  switch (expr.kind) {
    case ExprKind::kConstant: return eval_constant(expr);
    case ExprKind::kName: return eval_name(expr, scope);
    case ExprKind::kList:
    case ExprKind::kTuple: return eval_sequence(expr, scope);
    case ExprKind::kDict: return eval_dict(expr, scope);
    case ExprKind::kAttribute: {
      BALLAST_TRY(const Value value, eval(*expr.parts[0], scope));
      return attribute(value, expr.name);
    }
    case ExprKind::kItem: return eval_item(expr, scope);
    case ExprKind::kSlice: return eval_slice(expr, scope);
    case ExprKind::kCall: return eval_call(expr, scope);
    case ExprKind::kFilter: return eval_filter(expr, scope);
    case ExprKind::kTest: {
      BALLAST_TRY(const Value value, eval(*expr.parts[0], scope));
      BALLAST_TRY(Arguments arguments, eval_arguments(expr, scope));
      BALLAST_TRY(const bool holds, apply_test(expr.name, value, std::move(arguments)));
      return Value(holds);
    }
    case ExprKind::kNot: {
      BALLAST_TRY(const Value value, eval(*expr.parts[0], scope));
      return Value(!truth(value));
    }
    case ExprKind::kNegative:
    case ExprKind::kPositive: {
      BALLAST_TRY(const Value value, eval(*expr.parts[0], scope));
      if (expr.kind == ExprKind::kNegative || !value.is_number()) return negative(value);
      return value;
    }
    case ExprKind::kArithmetic: return eval_arithmetic(expr, scope);
    case ExprKind::kConcat: return eval_concat(expr, scope);
    case ExprKind::kCompare: return eval_compare(expr, scope);
    case ExprKind::kAnd:
    case ExprKind::kOr: return eval_logic(expr, scope);
    case ExprKind::kConditional: break;
  }
  return eval_conditional(expr, scope);
}

Result<Value> Renderer::eval_constant(const Expr& expr) {
  if (const auto* flag = std::get_if<bool>(&expr.constant)) return Value(*flag);
  if (const auto* whole = std::get_if<int64_t>(&expr.constant)) return Value(*whole);
  if (const auto* real = std::get_if<double>(&expr.constant)) return Value(*real);
  const auto* text = std::get_if<std::string>(&expr.constant);
  if (text == nullptr) return Value(None());
  if (const auto known = constants_.find(&expr); known != constants_.end()) return known->second;
  BALLAST_TRY(Value made, make_text(meter_, *text));
  return constants_.emplace(&expr, std::move(made)).first->second;
}

Result<Value> Renderer::eval_name(const Expr& expr, const Scope& scope) {
  BALLAST_TRY(const Value* value, scope.find(meter_, expr.name));
  if (value == nullptr) BALLAST_CHECK(assign(value, context_.mapping()->find(meter_, expr.name)));
  if (value != nullptr) return *value;
  if (const Builtin* function = find_function(expr.name)) {
    auto callable = std::make_shared<Callable>();
    callable->builtin = function;
    return Value(std::shared_ptr<const Callable>(std::move(callable)));
  }
  return make_undefined(fmt::format("'{}' is undefined", expr.name));
}

Result<Value> Renderer::eval_sequence(const Expr& expr, Scope& scope) {
  std::vector<Value> items;
  for (const ExprPtr& part : expr.parts) {
    BALLAST_TRY(Value item, eval(*part, scope));
    items.push_back(std::move(item));
  }
  return make_sequence(meter_, std::move(items),
                       expr.kind == ExprKind::kTuple ? Sequence::Kind::kTuple : Sequence::Kind::kList);
}

Result<Value> Renderer::eval_dict(const Expr& expr, Scope& scope) {
  std::vector<std::pair<Value, Value>> entries;
  for (size_t i = 0; i < expr.parts.size(); i += 2) {
    BALLAST_TRY(Value key, eval(*expr.parts[i], scope));
    if (key.mapping() != nullptr || (key.sequence() != nullptr && !key.sequence()->is_tuple())) {
      return type_error(fmt::format("unhashable type: '{}'", type_name(key)));
    }
    BALLAST_TRY(Value value, eval(*expr.parts[i + 1], scope));
    entries.emplace_back(std::move(key), std::move(value));
  }
  return make_mapping(meter_, std::move(entries));
}

Result<Value> Renderer::eval_item(const Expr& expr, Scope& scope) {
  BALLAST_TRY(const Value value, eval(*expr.parts[0], scope));
  BALLAST_TRY(const Value key, eval(*expr.parts[1], scope));
  return item(value, key);
}

Result<Value> Renderer::eval_slice(const Expr& expr, Scope& scope) {
  BALLAST_TRY(const Value value, eval(*expr.parts[0], scope));
  Value bounds[3];
  for (size_t i = 0; i < 3; ++i) {
    if (expr.parts[i + 1]) BALLAST_CHECK(assign(bounds[i], eval(*expr.parts[i + 1], scope)));
  }
  return slice(meter_, value, bounds[0], bounds[1], bounds[2]);
}

Result<Value> Renderer::eval_arithmetic(const Expr& expr, Scope& scope) {
  BALLAST_TRY(Value result, eval(*expr.parts[0], scope));
  for (size_t i = 0; i < expr.operators.size(); ++i) {
    BALLAST_TRY(const Value next, eval(*expr.parts[i + 1], scope));
    BALLAST_CHECK(assign(result, compute(meter_, expr.operators[i], result, next)));
  }
  return result;
}

Result<Value> Renderer::eval_concat(const Expr& expr, Scope& scope) {
  Text text;
  for (const ExprPtr& part : expr.parts) {
    BALLAST_TRY(const Value value, eval(*part, scope));
    BALLAST_CHECK(append_printed(meter_, text, value));
  }
  return make_text(meter_, std::move(text));
}

Result<Value> Renderer::eval_compare(const Expr& expr, Scope& scope) {
  BALLAST_TRY(Value left, eval(*expr.parts[0], scope));
  for (size_t i = 0; i < expr.operators.size(); ++i) {
    BALLAST_TRY(Value right, eval(*expr.parts[i + 1], scope));
    BALLAST_TRY(const bool holds, compare(meter_, expr.operators[i], left, right));
    if (!holds) return Value(false);
    left = std::move(right);
  }
  return Value(true);
}

// The operand that decides is the result, as in Python.
Result<Value> Renderer::eval_logic(const Expr& expr, Scope& scope) {
  Value value;
  for (const ExprPtr& part : expr.parts) {
    BALLAST_CHECK(assign(value, eval(*part, scope)));
    if (truth(value) == (expr.kind == ExprKind::kOr)) break;
  }
  return value;
}

Result<Value> Renderer::eval_conditional(const Expr& expr, Scope& scope) {
  BALLAST_TRY(const Value condition, eval(*expr.parts[1], scope));
  if (truth(condition)) return eval(*expr.parts[0], scope);
  if (expr.parts[2]) return eval(*expr.parts[2], scope);
  return make_undefined("the inline if-expression evaluated to false and no else section was defined");
}

// ---------------------------------------------------------------- calls

Result<Arguments> Renderer::eval_arguments(const Expr& expr, Scope& scope) {
  Arguments arguments;
  for (const Argument& argument : expr.arguments) {
    BALLAST_TRY(Value value, eval(*argument.value, scope));
    if (argument.name.empty()) arguments.positional.push_back(std::move(value));
    else arguments.named.emplace_back(argument.name, std::move(value));
  }
  return arguments;
}

Result<Value> Renderer::eval_call(const Expr& expr, Scope& scope) {
  BALLAST_TRY(const Value callee, eval(*expr.parts[0], scope));
  BALLAST_TRY(Arguments arguments, eval_arguments(expr, scope));
  return call(callee, std::move(arguments));
}

Result<Value> Renderer::call(const Value& callee, Arguments arguments) {
  if (callee.is_undefined()) return undefined_error(callee);
  if (const LoopState* loop = callee.loop()) return call_loop(*loop, arguments);
  const Callable* callable = callee.callable();
  if (callable == nullptr) return type_error(fmt::format("'{}' object is not callable", type_name(callee)));
  if (callable->macro != nullptr) return call_macro(*callable, std::move(arguments));
  return run_builtin(*this, *callable->builtin, callable->self, std::move(arguments));
}

Result<Value> Renderer::eval_filter(const Expr& expr, Scope& scope) {
  Value value;
  if (expr.parts.empty()) value = *block_input_;
  else BALLAST_CHECK(assign(value, eval(*expr.parts[0], scope)));
  BALLAST_TRY(Arguments arguments, eval_arguments(expr, scope));
  return apply_filter(expr.name, value, std::move(arguments));
}

Result<Value> Renderer::apply_filter(std::string_view name, const Value& value, Arguments arguments) {
  const Builtin* filter = find_filter(name);
  if (filter == nullptr) return type_error(fmt::format("No filter named '{}'.", name));
  return run_builtin(*this, *filter, value, std::move(arguments));
}

Result<bool> Renderer::apply_test(std::string_view name, const Value& value, Arguments arguments) {
  const Builtin* test = find_test(name);
  if (test == nullptr) return type_error(fmt::format("No test named '{}'.", name));
  BALLAST_TRY(const Value holds, run_builtin(*this, *test, value, std::move(arguments)));
  return truth(holds);
}

// ---------------------------------------------------------------- attributes and items

namespace {

std::string object_name(const Value& value) {
  return value.is_none() ? "None" : fmt::format("{} object", type_name(value));
}

// A name may be any text that the template has made, and what says why a value is undefined is not metered.
std::string_view shortened(std::string_view name) {
  constexpr size_t kMostCharacters = 200;
  return name.substr(0, byte_of_character(name, kMostCharacters));
}

Value no_attribute(const Value& value, std::string_view name) {
  return make_undefined(fmt::format("'{}' has no attribute '{}'", object_name(value), shortened(name)));
}

Value unsafe_attribute(const Value& value, std::string_view name) {
  return make_undefined(
      fmt::format("access to attribute '{}' of '{}' object is unsafe.", shortened(name), type_name(value)));
}

Result<const Value*> find_key(Meter& meter, const Mapping& mapping, const Value& key) {
  if (key.text() != nullptr) return mapping.find(meter, key.text()->bytes());
  for (const auto& [name, held] : mapping.entries) {
    BALLAST_TRY(const bool same, equal(meter, name, key));
    if (same) return &held;
  }
  return nullptr;
}

std::optional<Value> method_of(const Value& value, std::string_view name) {
  const MethodLookup found = find_method(value, name);
  if (found.refused || (name.starts_with("__") && name.ends_with("__"))) return unsafe_attribute(value, name);
  if (found.method == nullptr) return std::nullopt;
  auto callable = std::make_shared<Callable>();
  callable->builtin = found.method;
  callable->self = value;
  return Value(std::shared_ptr<const Callable>(std::move(callable)));
}

}  // namespace

Value Renderer::loop_field(const LoopState& loop, std::string_view name) const {
  const auto index = static_cast<int64_t>(loop.index);
  const auto length = static_cast<int64_t>(loop.items.size());
  if (name == "index") return index + 1;
  if (name == "index0") return index;
  if (name == "revindex") return length - index;
  if (name == "revindex0") return length - index - 1;
  if (name == "first") return index == 0;
  if (name == "last") return index + 1 == length;
  if (name == "length") return length;
  if (name == "depth") return int64_t{loop.level} + 1;
  if (name == "depth0") return int64_t{loop.level};
  if (name == "previtem") return index > 0 ? loop.items[loop.index - 1] : make_undefined("there is no previous item");
  if (name == "nextitem")
    return index + 1 < length ? loop.items[loop.index + 1] : make_undefined("there is no next item");
  return make_undefined(fmt::format("'loop' has no attribute '{}'", name));
}

Result<Value> Renderer::attribute(const Value& value, std::string_view name) {
  if (value.is_undefined()) return undefined_error(value);
  if (auto method = method_of(value, name)) return std::move(*method);
  if (const LoopState* loop = value.loop()) return loop_field(*loop, name);
  const Value* found = nullptr;
  if (const Mapping* mapping = value.mapping()) BALLAST_CHECK(assign(found, mapping->find(meter_, name)));
  else if (const Namespace* fields = value.name_space()) BALLAST_CHECK(assign(found, fields->find(meter_, name)));
  else if (const Sequence* sequence = value.sequence();
           sequence != nullptr && sequence->kind == Sequence::Kind::kGroup) {
    if (name == "grouper") found = &sequence->items[0];
    if (name == "list") found = &sequence->items[1];
  }
  return found != nullptr ? *found : no_attribute(value, name);
}

Result<Value> Renderer::item(const Value& value, const Value& key) {
  if (value.is_undefined()) return undefined_error(value);
  if (const Mapping* mapping = value.mapping()) {
    BALLAST_TRY(const Value* found, find_key(meter_, *mapping, key));
    if (found != nullptr) return *found;
  } else if ((value.text() != nullptr || value.sequence() != nullptr) && (key.is_int() || key.is_bool())) {
    BALLAST_TRY(auto found, element(meter_, value, key.as_int()));
    if (found) return std::move(*found);
  }
  if (const Text* name = key.text()) {
    if (value.mapping() == nullptr) return attribute(value, name->bytes());
    if (auto method = method_of(value, name->bytes())) return std::move(*method);
    return no_attribute(value, name->bytes());
  }
  if (!key.is_number())
    return make_undefined(fmt::format("{} has no element of type '{}'", object_name(value), type_name(key)));
  Text shown;
  BALLAST_CHECK(append_repr(meter_, shown, key));
  return make_undefined(fmt::format("{} has no element {}", object_name(value), shown.bytes()));
}

}  // namespace ballast::jinja
