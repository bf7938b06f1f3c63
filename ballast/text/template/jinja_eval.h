// Runs a template.
#pragma once

#include <deque>
#include <memory>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "ballast/text/chat_template.h"
#include "ballast/text/template/jinja_builtins.h"
#include "ballast/text/template/jinja_syntax.h"
#include "ballast/text/template/jinja_value.h"

namespace ballast::jinja {

// Names that a loop, a macro or the template itself has set. A loop has a new one in each round.
struct Scope {
  std::shared_ptr<Scope> parent;
  std::vector<std::pair<std::string, Value>> names;

  Result<const Value*> find(Meter& meter, std::string_view name) const;  // here or further out, else null
  Status set(Meter& meter, std::string_view name, Value value);          // here
};

// One rendering. The template and the limits must outlive it.
class Renderer {
 public:
  Renderer(Meter& meter, const RenderLimits& limits, const ClockTime& now)
      : meter_(meter), limits_(limits), now_(now) {}

  // `context`: a mapping, the variables that are there from the beginning.
  Result<Text> run(const Block& block, Value context);

  // For the builtins.
  Meter& meter() { return meter_; }
  const ClockTime& now() const { return now_; }
  Result<Value> apply_filter(std::string_view name, const Value& value, Arguments arguments);
  Result<bool> apply_test(std::string_view name, const Value& value, Arguments arguments);
  // value.name: methods first, then what the value holds.
  Result<Value> attribute(const Value& value, std::string_view name);
  // value[key]: what the value holds first.
  Result<Value> item(const Value& value, const Value& key);
  Result<Value> make_namespace(std::vector<std::pair<std::string, Value>> fields);
  // What `loop.changed` saw last in this loop.
  std::optional<Value>& last_seen(const LoopState& loop) { return last_seen_[&loop]; }
  // The error that a template itself raises, whose text is shown as it is.
  Error raise(std::string message);

 private:
  enum class Flow : uint8_t { kNext, kBreak, kContinue };
  using ScopePtr = std::shared_ptr<Scope>;

  // Statements.
  Result<Flow> run_block(const Block& block, const ScopePtr& scope, Text& out);
  Result<Flow> run_statement(const Statement& statement, const ScopePtr& scope, Text& out);
  Result<Flow> run_kind(const Statement& statement, const ScopePtr& scope, Text& out);
  Result<Flow> run_if(const Statement& statement, const ScopePtr& scope, Text& out);
  Result<Flow> run_for(const Statement& statement, const ScopePtr& scope, Text& out);
  // `level`: how often the loop has called itself.
  Result<Flow> run_rounds(const Statement& statement, const Value& over, uint32_t level, const ScopePtr& scope,
                          Text& out);
  Result<std::vector<Value>> loop_items(const Statement& statement, const Value& over, const ScopePtr& scope);
  Status run_call(const Statement& statement, const ScopePtr& scope, Text& out);
  Result<Flow> run_with(const Statement& statement, const ScopePtr& scope, Text& out);
  Status run_output(const Statement& statement, const ScopePtr& scope, Text& out);
  Status run_set(const Statement& statement, const ScopePtr& scope);
  Status run_set_block(const Statement& statement, const ScopePtr& scope);
  Status run_filter_block(const Statement& statement, const ScopePtr& scope, Text& out);
  Status define_macro(const Statement& statement, const ScopePtr& scope);
  Status assign_target(const Target& target, Scope& scope, const Value& value);
  Status check_output(const Text& out) const;
  Result<Value> captured(const Block& block, const ScopePtr& scope);

  // Expressions.
  Result<Value> eval(const Expr& expr, Scope& scope);
  Result<Value> eval_kind(const Expr& expr, Scope& scope);
  Result<Value> eval_constant(const Expr& expr);
  Result<Value> eval_name(const Expr& expr, const Scope& scope);
  Result<Value> eval_sequence(const Expr& expr, Scope& scope);
  Result<Value> eval_dict(const Expr& expr, Scope& scope);
  Result<Value> eval_item(const Expr& expr, Scope& scope);
  Result<Value> eval_slice(const Expr& expr, Scope& scope);
  Result<Value> eval_call(const Expr& expr, Scope& scope);
  Result<Value> eval_filter(const Expr& expr, Scope& scope);
  Result<Value> eval_arithmetic(const Expr& expr, Scope& scope);
  Result<Value> eval_concat(const Expr& expr, Scope& scope);
  Result<Value> eval_compare(const Expr& expr, Scope& scope);
  Result<Value> eval_logic(const Expr& expr, Scope& scope);
  Result<Value> eval_conditional(const Expr& expr, Scope& scope);
  Result<Arguments> eval_arguments(const Expr& expr, Scope& scope);
  Result<Value> call(const Value& callee, Arguments arguments);
  Result<Value> call_macro(const Callable& macro, Arguments arguments);
  Result<Value> call_loop(const LoopState& loop, const Arguments& arguments);
  Status bind_macro(const Statement& macro, Arguments& arguments, Scope& scope);
  Status bind_extras(const Statement& macro, Arguments& arguments, Scope& scope);
  Value loop_field(const LoopState& loop, std::string_view name) const;
  Error place_error(Error error, uint32_t line);
  Status deeper();

  Meter& meter_;
  const RenderLimits& limits_;
  const ClockTime& now_;
  Value context_;
  std::deque<Namespace> namespaces_;
  std::vector<ScopePtr> kept_scopes_;  // that macros were defined in
  std::unordered_map<const Expr*, Value> constants_;
  std::unordered_map<const LoopState*, std::optional<Value>> last_seen_;  // here, because a value may hold the loop
  const Value* block_input_ = nullptr;  // what the first filter of a filter block is applied to
  uint32_t depth_ = 0;
  bool placed_ = false;  // the error knows its line
};

}  // namespace ballast::jinja
