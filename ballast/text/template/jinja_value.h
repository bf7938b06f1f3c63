// What the variables of a template hold, and the account of what they cost.
//
// Values are immutable, like everything in the sandbox of the original, except for namespaces, whose fields can be set.
// Namespaces and the scopes of macros belong to the rendering (see jinja_eval.h), so values form no cycles of owners.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "ballast/base/result.h"
#include "ballast/text/template/jinja_text.h"

namespace ballast::jinja {

// Work on a text, character by character, that costs as much as a step elsewhere.
constexpr uint64_t kBytesPerStep = 16;

// Steps done and bytes held by one rendering.
class Meter {
 public:
  Meter(uint64_t most_steps, uint64_t most_bytes) : most_steps_(most_steps), most_bytes_(most_bytes) {}
  Meter(const Meter&) = delete;
  Meter& operator=(const Meter&) = delete;

  Status step(uint64_t count = 1);
  // An error unless `bytes` more may be held. Asked before anything is made that grows faster than its inputs.
  Status check_room(uint64_t bytes) const;
  uint64_t most_bytes() const { return most_bytes_; }

 private:
  friend class Held;
  uint64_t most_steps_;
  uint64_t most_bytes_;
  uint64_t steps_ = 0;
  uint64_t bytes_ = 0;
};

// Bytes that count while this lives.
class Held {
 public:
  Held(Meter& meter, uint64_t bytes) : meter_(&meter), bytes_(bytes) { meter_->bytes_ += bytes_; }
  Held(Held&& other) noexcept : meter_(other.meter_), bytes_(std::exchange(other.bytes_, 0)) {}
  Held& operator=(Held&&) = delete;
  ~Held() { meter_->bytes_ -= bytes_; }

 private:
  Meter* meter_;
  uint64_t bytes_;
};

struct TextCell;
struct Sequence;
struct Mapping;
struct Namespace;
struct LoopState;
struct Callable;
struct Scope;
struct Statement;

struct None {};
// A name or field that is not there. Prints as nothing; most else that is done with it is an error with this text.
struct Undefined {
  std::shared_ptr<const std::string> why;
};

class Value {
 public:
  using Variant = std::variant<None, Undefined, bool, int64_t, double, std::shared_ptr<const TextCell>,
                               std::shared_ptr<const Sequence>, std::shared_ptr<const Mapping>,
                               std::shared_ptr<const Callable>, Namespace*, std::shared_ptr<const LoopState>>;

  Value() = default;
  Value(None) {}                                                           // NOLINT: implicit, a value is any of these
  Value(bool value) : v_(value) {}                                         // NOLINT
  Value(int64_t value) : v_(value) {}                                      // NOLINT
  Value(double value) : v_(value) {}                                       // NOLINT
  Value(Undefined value) : v_(std::move(value)) {}                         // NOLINT
  Value(Namespace* value) : v_(value) {}                                   // NOLINT
  Value(std::shared_ptr<const TextCell> value) : v_(std::move(value)) {}   // NOLINT
  Value(std::shared_ptr<const Sequence> value) : v_(std::move(value)) {}   // NOLINT
  Value(std::shared_ptr<const Mapping> value) : v_(std::move(value)) {}    // NOLINT
  Value(std::shared_ptr<const Callable> value) : v_(std::move(value)) {}   // NOLINT
  Value(std::shared_ptr<const LoopState> value) : v_(std::move(value)) {}  // NOLINT

  bool is_none() const { return std::holds_alternative<None>(v_); }
  bool is_undefined() const { return std::holds_alternative<Undefined>(v_); }
  bool is_bool() const { return std::holds_alternative<bool>(v_); }
  bool is_number() const { return is_bool() || is_int() || is_float(); }
  bool is_int() const { return std::holds_alternative<int64_t>(v_); }
  bool is_float() const { return std::holds_alternative<double>(v_); }

  // Null where the value is something else.
  const Text* text() const;
  bool is_markup() const;
  const Sequence* sequence() const;
  const Mapping* mapping() const;
  const Callable* callable() const;
  Namespace* name_space() const;
  const LoopState* loop() const;
  const std::string* why_undefined() const;

  // Of a number: true is 1.
  int64_t as_int() const;
  double as_double() const;

  const Variant& variant() const { return v_; }

 private:
  Variant v_;
};

struct TextCell {
  Text text;
  bool markup;  // went through the filter `safe`: what is added to it with + is escaped, as there
  Held held;
};

struct Sequence {
  enum class Kind : uint8_t {
    kList,
    kTuple,
    kGroup,  // a tuple whose two items are called grouper and list, too
    kGenerator,
  };
  std::vector<Value> items;
  Kind kind;
  uint32_t depth;  // of nesting
  Held held;

  bool is_tuple() const { return kind == Kind::kTuple || kind == Kind::kGroup; }
};

struct Mapping {
  std::vector<std::pair<Value, Value>> entries;  // in order; keys differ
  uint32_t depth;
  Held held;

  // Null where there is none.
  Result<const Value*> find(Meter& meter, std::string_view key) const;
};

struct Namespace {
  std::vector<std::pair<std::string, Value>> fields;

  // Null where there is none.
  Result<const Value*> find(Meter& meter, std::string_view name) const;
};

// What `loop` is inside of a loop.
struct LoopState {
  std::vector<Value> items;
  uint32_t depth;  // of nesting of the items
  Held held;
  size_t index = 0;
  // Of a recursive loop, which can be called:
  const Statement* statement = nullptr;
  std::weak_ptr<Scope> scope = {};  // around it
  uint32_t level = 0;               // calls that led here
};

// ---------------------------------------------------------------- making values

Value make_undefined(std::string why);
Result<Value> make_text(Meter& meter, Text text, bool markup = false);
Result<Value> make_text(Meter& meter, std::string_view text);
// An error where it would be nested too deeply or too large.
Result<Value> make_sequence(Meter& meter, std::vector<Value> items, Sequence::Kind kind = Sequence::Kind::kList);
Result<std::shared_ptr<LoopState>> make_loop(Meter& meter, std::vector<Value> items);
// Of two equal keys the place of the first and the value of the last count.
Result<Value> make_mapping(Meter& meter, std::vector<std::pair<Value, Value>> entries);

// ---------------------------------------------------------------- asking values

bool truth(const Value& value);
// Python's name of the type: "str", "NoneType", ...
std::string_view type_name(const Value& value);
Error type_error(std::string message);
// What the caller is told when `value`, which is undefined, was used; for others that it cannot be used so.
Error undefined_error(const Value& value);

// Counts steps, because equal parts may be compared again and again.
Result<bool> equal(Meter& meter, const Value& a, const Value& b);
// True when a < b; an error for types that have no order between them.
Result<bool> less(Meter& meter, const Value& a, const Value& b);

// The items that a loop goes through: elements, characters, keys, nothing for undefined.
Result<std::vector<Value>> iterate(Meter& meter, const Value& value);
Result<int64_t> length_of(const Value& value);
// Number of code points.
size_t count_characters(std::string_view text);

}  // namespace ballast::jinja
