#include "ballast/text/template/jinja_eval.h"

#include <fmt/format.h>

#include <algorithm>

#include "ballast/text/template/jinja_print.h"

namespace ballast::jinja {

namespace {

constexpr size_t kMostNamespaces = 100'000;
constexpr size_t kMostKeptScopes = 10'000;

}  // namespace

// ---------------------------------------------------------------- Scope

Result<const Value*> Scope::find(Meter& meter, std::string_view name) const {
  for (const Scope* scope = this; scope != nullptr; scope = scope->parent.get()) {
    BALLAST_CHECK(meter.step(scope->names.size() / 64));
    for (const auto& [key, value] : scope->names) {
      if (key == name) return &value;
    }
  }
  return nullptr;
}

Status Scope::set(Meter& meter, std::string_view name, Value value) {
  BALLAST_CHECK(meter.step(names.size() / 64));
  for (auto& [key, old] : names) {
    if (key != name) continue;
    old = std::move(value);
    return {};
  }
  names.emplace_back(name, std::move(value));
  return {};
}

// ---------------------------------------------------------------- errors and limits

Error Renderer::raise(std::string message) {
  placed_ = true;
  return make_error(ErrorCode::kInvalidArgument, std::move(message));
}

Error Renderer::place_error(Error error, uint32_t line) {
  if (std::exchange(placed_, true)) return error;
  error.message = fmt::format("chat template, line {}: {}", line, error.message);
  return error;
}

Status Renderer::deeper() {
  if (depth_ <= limits_.depth) return meter_.step();
  return make_error(
      ErrorCode::kInvalidArgument,
      fmt::format("nested more than {} deep, the limit: a macro that calls itself for ever?", limits_.depth));
}

Status Renderer::check_output(const Text& out) const {
  if (out.size() <= limits_.output_bytes) return {};
  return make_error(ErrorCode::kInvalidArgument,
                    fmt::format("the text grew beyond {} bytes, the limit", limits_.output_bytes));
}

// ---------------------------------------------------------------- statements

Result<Text> Renderer::run(const Block& block, Value context) {
  context_ = std::move(context);
  Text out;
  BALLAST_TRY([[maybe_unused]] const Flow flow, run_block(block, std::make_shared<Scope>(), out));
  return out;
}

Result<Renderer::Flow> Renderer::run_block(const Block& block, const ScopePtr& scope, Text& out) {
  for (const Statement& statement : block) {
    BALLAST_TRY(const Flow flow, run_statement(statement, scope, out));
    if (flow != Flow::kNext) return flow;
  }
  return Flow::kNext;
}

Result<Renderer::Flow> Renderer::run_statement(const Statement& statement, const ScopePtr& scope, Text& out) {
  ++depth_;
  Result<Flow> flow = Flow::kNext;
  if (Status status = deeper(); !status) flow = std::move(status).error();
  else flow = run_kind(statement, scope, out);
  --depth_;
  if (!flow) return place_error(std::move(flow).error(), statement.line);
  return flow;
}

Result<Renderer::Flow> Renderer::run_kind(const Statement& statement, const ScopePtr& scope, Text& out) {
  switch (statement.kind) {
    case StatementKind::kData:
      out.append(statement.text);
      BALLAST_CHECK(check_output(out));
      break;
    case StatementKind::kOutput: BALLAST_CHECK(run_output(statement, scope, out)); break;
    case StatementKind::kIf: return run_if(statement, scope, out);
    case StatementKind::kFor: return run_for(statement, scope, out);
    case StatementKind::kSet: BALLAST_CHECK(run_set(statement, scope)); break;
    case StatementKind::kSetBlock: BALLAST_CHECK(run_set_block(statement, scope)); break;
    case StatementKind::kMacro: BALLAST_CHECK(define_macro(statement, scope)); break;
    case StatementKind::kCall: BALLAST_CHECK(run_call(statement, scope, out)); break;
    case StatementKind::kWith: return run_with(statement, scope, out);
    case StatementKind::kFilterBlock: BALLAST_CHECK(run_filter_block(statement, scope, out)); break;
    case StatementKind::kScope: {
      const auto inner = std::make_shared<Scope>();
      inner->parent = scope;
      return run_block(statement.body, inner, out);
    }
    case StatementKind::kBreak: return Flow::kBreak;
    case StatementKind::kContinue: return Flow::kContinue;
  }
  return Flow::kNext;
}

Status Renderer::run_output(const Statement& statement, const ScopePtr& scope, Text& out) {
  BALLAST_TRY(const Value value, eval(*statement.value, *scope));
  BALLAST_CHECK(append_printed(meter_, out, value));
  return check_output(out);
}

Result<Renderer::Flow> Renderer::run_if(const Statement& statement, const ScopePtr& scope, Text& out) {
  for (const Branch& branch : statement.branches) {
    if (branch.condition) {
      BALLAST_TRY(const Value condition, eval(*branch.condition, *scope));
      if (!truth(condition)) continue;
    }
    return run_block(branch.body, scope, out);
  }
  return Flow::kNext;
}

Result<std::vector<Value>> Renderer::loop_items(const Statement& statement, const Value& over, const ScopePtr& scope) {
  BALLAST_TRY(std::vector<Value> items, iterate(meter_, over));
  if (!statement.condition) return items;
  std::vector<Value> chosen;
  for (Value& item : items) {
    const auto inner = std::make_shared<Scope>();
    inner->parent = scope;
    BALLAST_CHECK(assign_target(statement.target, *inner, item));
    BALLAST_TRY(const Value condition, eval(*statement.condition, *inner));
    if (truth(condition)) chosen.push_back(std::move(item));
  }
  return chosen;
}

Result<Renderer::Flow> Renderer::run_for(const Statement& statement, const ScopePtr& scope, Text& out) {
  BALLAST_TRY(const Value over, eval(*statement.value, *scope));
  return run_rounds(statement, over, 0, scope, out);
}

Result<Renderer::Flow> Renderer::run_rounds(const Statement& statement, const Value& over, uint32_t level,
                                            const ScopePtr& scope, Text& out) {
  BALLAST_TRY(std::vector<Value> items, loop_items(statement, over, scope));
  BALLAST_TRY(const std::shared_ptr<LoopState> loop, make_loop(meter_, std::move(items)));
  if (statement.recursive) loop->statement = &statement;
  loop->scope = scope;
  loop->level = level;
  // As there, only a round that came to its end counts against `else`.
  bool completed = false;
  for (loop->index = 0; loop->index < loop->items.size(); ++loop->index) {
    BALLAST_CHECK(meter_.step());
    const auto inner = std::make_shared<Scope>();
    inner->parent = scope;
    BALLAST_CHECK(inner->set(meter_, "loop", std::shared_ptr<const LoopState>(loop)));
    BALLAST_CHECK(assign_target(statement.target, *inner, loop->items[loop->index]));
    BALLAST_TRY(const Flow flow, run_block(statement.body, inner, out));
    if (flow == Flow::kBreak) break;
    completed = completed || flow == Flow::kNext;
  }
  last_seen_.erase(loop.get());
  if (completed) return Flow::kNext;
  const auto inner = std::make_shared<Scope>();
  inner->parent = scope;
  return run_block(statement.otherwise, inner, out);
}

Status Renderer::assign_target(const Target& target, Scope& scope, const Value& value) {
  if (!target.field.empty()) {
    BALLAST_TRY(const Value* owner, scope.find(meter_, target.names[0]));
    Namespace* fields = owner == nullptr ? nullptr : owner->name_space();
    if (fields == nullptr) {
      return type_error(fmt::format("cannot assign to {}.{}: it is no namespace", target.names[0], target.field));
    }
    if (target.field.starts_with('_')) {
      return type_error(fmt::format("a namespace cannot have the field '{}'", target.field));
    }
    BALLAST_CHECK(meter_.step(fields->fields.size() / 64));
    for (auto& [name, old] : fields->fields) {
      if (name != target.field) continue;
      old = value;
      return {};
    }
    fields->fields.emplace_back(target.field, value);
    return {};
  }
  if (!target.unpack) return scope.set(meter_, target.names[0], value);
  BALLAST_TRY(std::vector<Value> items, iterate(meter_, value));
  if (items.size() != target.names.size()) {
    return type_error(fmt::format("{} values for {} names", items.size(), target.names.size()));
  }
  for (size_t i = 0; i < items.size(); ++i) BALLAST_CHECK(scope.set(meter_, target.names[i], std::move(items[i])));
  return {};
}

Status Renderer::run_set(const Statement& statement, const ScopePtr& scope) {
  BALLAST_TRY(const Value value, eval(*statement.value, *scope));
  return assign_target(statement.target, *scope, value);
}

Result<Value> Renderer::captured(const Block& block, const ScopePtr& scope) {
  const auto inner = std::make_shared<Scope>();
  inner->parent = scope;
  Text text;
  BALLAST_TRY([[maybe_unused]] const Flow flow, run_block(block, inner, text));
  return make_text(meter_, std::move(text));
}

Result<Renderer::Flow> Renderer::run_with(const Statement& statement, const ScopePtr& scope, Text& out) {
  const auto inner = std::make_shared<Scope>();
  inner->parent = scope;
  for (const Assignment& one : statement.assignments) {
    BALLAST_TRY(const Value value, eval(*one.value, *scope));  // none sees the names of the others
    BALLAST_CHECK(assign_target(one.target, *inner, value));
  }
  return run_block(statement.body, inner, out);
}

Status Renderer::run_set_block(const Statement& statement, const ScopePtr& scope) {
  BALLAST_TRY(Value text, captured(statement.body, scope));
  if (statement.value) {
    const Value* around = std::exchange(block_input_, &text);
    Result<Value> filtered = eval(*statement.value, *scope);
    block_input_ = around;
    if (!filtered) return std::move(filtered).error();
    text = std::move(*filtered);
  }
  return assign_target(statement.target, *scope, text);
}

Status Renderer::run_filter_block(const Statement& statement, const ScopePtr& scope, Text& out) {
  BALLAST_TRY(const Value text, captured(statement.body, scope));
  const Value* around = std::exchange(block_input_, &text);
  const Result<Value> filtered = eval(*statement.value, *scope);
  block_input_ = around;
  if (!filtered) return filtered.error();
  BALLAST_CHECK(append_printed(meter_, out, *filtered));
  return check_output(out);
}

// ---------------------------------------------------------------- macros and namespaces

Status Renderer::define_macro(const Statement& statement, const ScopePtr& scope) {
  if (kept_scopes_.empty() || kept_scopes_.back() != scope) {
    if (kept_scopes_.size() >= kMostKeptScopes) return type_error("too many macros defined inside of loops");
    kept_scopes_.push_back(scope);
  }
  auto macro = std::make_shared<Callable>();
  macro->macro = &statement;
  macro->scope = scope;
  return scope->set(meter_, statement.name, std::shared_ptr<const Callable>(std::move(macro)));
}

namespace {

std::optional<Value> take_named(Arguments& arguments, std::string_view name) {
  const auto found = std::ranges::find_if(arguments.named, [&](const auto& a) { return a.first == name; });
  if (found == arguments.named.end()) return std::nullopt;
  Value value = std::move(found->second);
  arguments.named.erase(found);
  return value;
}

}  // namespace

// What stays in `arguments` has found no parameter.
Status Renderer::bind_macro(const Statement& macro, Arguments& arguments, Scope& scope) {
  std::vector<std::optional<Value>> given(macro.parameters.size());
  BALLAST_CHECK(meter_.step(given.size() * arguments.named.size() / 64));
  const size_t positional = std::min(given.size(), arguments.positional.size());
  for (size_t i = 0; i < given.size(); ++i) {
    if (i < positional) given[i] = std::move(arguments.positional[i]);
    else given[i] = take_named(arguments, macro.parameters[i].name);
  }
  arguments.positional.erase(arguments.positional.begin(),
                             arguments.positional.begin() + static_cast<ptrdiff_t>(positional));
  BALLAST_CHECK(bind_extras(macro, arguments, scope));
  for (size_t i = 0; i < given.size(); ++i) {
    const Parameter& parameter = macro.parameters[i];
    Value value = make_undefined(fmt::format("parameter '{}' was not provided", parameter.name));
    if (given[i]) value = std::move(*given[i]);
    else if (parameter.standard) BALLAST_CHECK(assign(value, eval(*parameter.standard, scope)));
    BALLAST_CHECK(scope.set(meter_, parameter.name, std::move(value)));
  }
  return {};
}

// `caller`, `kwargs` and `varargs`, where the body reads them and no parameter has the name.
Status Renderer::bind_extras(const Statement& macro, Arguments& arguments, Scope& scope) {
  const auto takes = [&](bool read, std::string_view name) {
    return read && std::ranges::find(macro.parameters, name, &Parameter::name) == macro.parameters.end();
  };
  if (takes(macro.extras.caller, "caller")) {
    Value caller = take_named(arguments, "caller").value_or(make_undefined("No caller defined"));
    BALLAST_CHECK(scope.set(meter_, "caller", std::move(caller)));
  }
  if (takes(macro.extras.kwargs, "kwargs")) {
    std::vector<std::pair<Value, Value>> entries;
    for (auto& [name, value] : std::exchange(arguments.named, {})) {
      BALLAST_TRY(Value key, make_text(meter_, name));
      entries.emplace_back(std::move(key), std::move(value));
    }
    BALLAST_TRY(Value kwargs, make_mapping(meter_, std::move(entries)));
    BALLAST_CHECK(scope.set(meter_, "kwargs", std::move(kwargs)));
  }
  if (takes(macro.extras.varargs, "varargs")) {
    BALLAST_TRY(Value varargs, make_sequence(meter_, std::exchange(arguments.positional, {}), Sequence::Kind::kTuple));
    BALLAST_CHECK(scope.set(meter_, "varargs", std::move(varargs)));
  }
  if (!arguments.named.empty()) {
    return type_error(
        fmt::format("macro '{}' takes no keyword argument '{}'", macro.name, arguments.named.front().first));
  }
  if (arguments.positional.empty()) return {};
  return type_error(fmt::format("macro '{}' takes not more than {} argument(s)", macro.name, macro.parameters.size()));
}

Result<Value> Renderer::call_macro(const Callable& callable, Arguments arguments) {
  const Statement& macro = *callable.macro;
  const auto scope = std::make_shared<Scope>();
  scope->parent = callable.scope.lock();
  BALLAST_CHECK(bind_macro(macro, arguments, *scope));
  Text out;
  BALLAST_TRY([[maybe_unused]] const Flow flow, run_block(macro.body, scope, out));
  return make_text(meter_, std::move(out));
}

// The body of the block is a macro as long as the call lasts.
Status Renderer::run_call(const Statement& statement, const ScopePtr& scope, Text& out) {
  const Expr& expr = *statement.value;
  BALLAST_TRY(const Value callee, eval(*expr.parts[0], *scope));
  BALLAST_TRY(Arguments arguments, eval_arguments(expr, *scope));
  auto caller = std::make_shared<Callable>();
  caller->macro = &statement;
  caller->scope = scope;
  arguments.named.emplace_back("caller", std::shared_ptr<const Callable>(std::move(caller)));
  BALLAST_TRY(const Value value, call(callee, std::move(arguments)));
  BALLAST_CHECK(append_printed(meter_, out, value));
  return check_output(out);
}

Result<Value> Renderer::call_loop(const LoopState& loop, const Arguments& arguments) {
  if (loop.statement == nullptr) {
    return type_error("The loop must have the 'recursive' marker to be called recursively.");
  }
  if (arguments.positional.size() != 1 || !arguments.named.empty()) {
    return type_error("a loop is called with what it shall go through, and nothing else");
  }
  // Gone where the loop was kept in a namespace and its block has ended.
  const ScopePtr scope = loop.scope.lock();
  if (scope == nullptr) return type_error("a loop cannot be called when it has ended");
  Text out;
  BALLAST_TRY([[maybe_unused]] const Flow flow,
              run_rounds(*loop.statement, arguments.positional[0], loop.level + 1, scope, out));
  return make_text(meter_, std::move(out));
}

Result<Value> Renderer::make_namespace(std::vector<std::pair<std::string, Value>> fields) {
  if (namespaces_.size() >= kMostNamespaces) return type_error("too many namespaces");
  for (const auto& [name, unused] : fields) {
    if (name.starts_with('_')) return type_error(fmt::format("a namespace cannot have the field '{}'", name));
  }
  return Value(&namespaces_.emplace_back(Namespace{std::move(fields)}));
}

}  // namespace ballast::jinja
