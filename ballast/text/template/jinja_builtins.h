// The filters, tests, functions and methods that templates may use, as tables of rows.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "ballast/text/template/jinja_value.h"

namespace ballast::jinja {

class Renderer;
struct Scope;
struct Statement;

struct Arguments {
  std::vector<Value> positional;
  std::vector<std::pair<std::string, Value>> named;
};

// One use of a row.
struct Call {
  Renderer& renderer;
  Meter& meter;
  Value self;                               // what a filter or test is applied to, or the object of a method
  std::vector<std::optional<Value>> bound;  // by the parameters of the row; absent: not given
  Arguments arguments;                      // of rows that take anything

  // Null where the argument was not given.
  const Value* get(size_t index) const { return bound[index] ? &*bound[index] : nullptr; }
  // False where it was not given.
  bool flag(size_t index) const { return get(index) != nullptr && truth(*get(index)); }
  // The text of an argument; an error for other types.
  Result<const Text*> text(size_t index) const;
  // The text of `self`, of which the method is; for filters str(self).
  const Text& self_text() const { return *self.text(); }
  Result<int64_t> integer(size_t index, int64_t standard) const;
};

struct Builtin {
  std::string_view name;
  std::string_view parameters;  // their names, with spaces between; "*": anything, unbound
  uint8_t required;             // how many of them must be given
  Result<Value> (*run)(Call& call);
};

// Null where there is none of that name.
const Builtin* find_filter(std::string_view name);
const Builtin* find_test(std::string_view name);
const Builtin* find_function(std::string_view name);

struct MethodLookup {
  const Builtin* method = nullptr;
  bool refused = false;  // it would change its object, which the sandbox forbids
};
MethodLookup find_method(const Value& self, std::string_view name);

// Sorts arguments into the parameters of a row and runs it.
Result<Value> run_builtin(Renderer& renderer, const Builtin& builtin, const Value& self, Arguments arguments);

struct Callable {
  const Builtin* builtin = nullptr;  // a function, or a method of `self`
  Value self;
  const Statement* macro = nullptr;
  std::weak_ptr<Scope> scope;  // in which the macro was defined; the rendering keeps it
};

}  // namespace ballast::jinja
