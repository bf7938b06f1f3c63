// What a template says, as a tree. Immutable once parsed; any number of renderings may share it.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <variant>
#include <vector>

namespace ballast::jinja {

struct Expr;
using ExprPtr = std::unique_ptr<const Expr>;

struct Argument {
  std::string name;  // empty: by position
  ExprPtr value;
};

enum class ExprKind : uint8_t {
  kConstant,
  kName,         // name
  kList,         // parts
  kTuple,        // parts
  kDict,         // parts: key, value, key, value ...
  kAttribute,    // parts[0].name
  kItem,         // parts[0][parts[1]]
  kSlice,        // parts[0][parts[1]:parts[2]:parts[3]], each of the three may be null
  kCall,         // parts[0](arguments)
  kFilter,       // parts[0] | name(arguments); in a filter block the first has no parts
  kTest,         // parts[0] is name(arguments)
  kNot,          // parts[0]
  kNegative,     // parts[0]
  kPositive,     // parts[0]
  kArithmetic,   // parts[0] operators[0] parts[1] operators[1] parts[2] ..., from the left
  kConcat,       // parts joined as texts
  kCompare,      // parts[0] operators[0] parts[1] and parts[1] operators[1] parts[2] ...
  kAnd,          // parts
  kOr,           // parts
  kConditional,  // parts[0] if parts[1] else parts[2], which may be null
};

enum class Operator : uint8_t {
  kAdd,
  kSubtract,
  kMultiply,
  kDivide,
  kFloorDivide,
  kModulo,
  kPower,
  kEqual,
  kNotEqual,
  kLess,
  kLessEqual,
  kGreater,
  kGreaterEqual,
  kIn,
  kNotIn,
};

using Constant = std::variant<std::monostate, bool, int64_t, double, std::string>;  // monostate: none

struct Expr {
  ExprKind kind;
  uint32_t line = 0;
  uint32_t depth = 1;  // of the tree from here
  std::string name;
  Constant constant;
  std::vector<ExprPtr> parts;
  std::vector<Operator> operators;
  std::vector<Argument> arguments;
};

struct Statement;
using Block = std::vector<Statement>;

// What `set` and `for` give values to: a name, several names that take a value apart, or a field of a namespace.
struct Target {
  std::vector<std::string> names;
  bool unpack = false;
  std::string field;  // of names[0]
};

struct Parameter {
  std::string name;
  ExprPtr standard;  // null: none
};

// What a macro takes beside its parameters: what its body asks for.
struct MacroExtras {
  bool caller = false;
  bool kwargs = false;
  bool varargs = false;
};

struct Assignment {
  Target target;
  ExprPtr value;
};

enum class StatementKind : uint8_t {
  kData,         // text
  kOutput,       // value
  kIf,           // branches; the last may have no condition
  kFor,          // target in value if condition: body, else; recursive: `loop` can be called
  kSet,          // target = value
  kSetBlock,     // target = body, through the filters of value (null: none)
  kMacro,        // name(parameters): body
  kCall,         // value, a call whose `caller` is the macro (parameters): body
  kWith,         // assignments, seen in body alone
  kFilterBlock,  // body through the filters of value
  kScope,        // body; what is set inside stays inside ({% generation %})
  kBreak,
  kContinue,
};

struct Branch {
  ExprPtr condition;
  Block body;
};

struct Statement {
  StatementKind kind;
  uint32_t line = 0;
  std::string text;
  std::string name;
  Target target;
  ExprPtr value;
  ExprPtr condition;
  std::vector<Branch> branches;
  std::vector<Parameter> parameters;
  MacroExtras extras;
  std::vector<Assignment> assignments;
  bool recursive = false;
  Block body;
  Block otherwise;
};

}  // namespace ballast::jinja
