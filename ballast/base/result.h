// Errors are values: every operation that can fail returns Result<T>.
//
// The names follow std::expected (C++23) so that Result can become an alias one day. An Error carries a code that
// programs branch on, one text that people read (where, which tensor, which numbers, and the likely cause), and what
// would help. The library knows no command: its texts name no flags.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>

#include "ballast/base/remedy.h"

namespace ballast {

enum class ErrorCode : unsigned char {
  kNotFound,         // the path or the named tensor does not exist
  kUnknownFormat,    // no format recognises these bytes
  kCorrupt,          // a recognised file is damaged or lies about itself
  kUnsupported,      // recognised and sound, but of a kind this build does not handle
  kInvalidArgument,  // the caller asked for something impossible
  kLossy,            // the target cannot hold everything and no permission to lose it was given
  kExists,           // the destination exists and overwriting was not asked for
  kIo,               // the operating system refused a read or a write
  kOutOfMemory,      // an allocation failed
  kCancelled,        // the caller's progress callback asked to stop
};

// "corrupt", "not_found", ...: stable words for --json and for tests.
std::string_view error_code_name(ErrorCode code);

struct Error {
  ErrorCode code = ErrorCode::kInvalidArgument;
  std::string message;
  Remedies remedies;  // what would help, where something would; the message says it in words

  Error() noexcept;
  Error(ErrorCode code, std::string message, Remedies remedies = {}) noexcept;

  // Defined in result.cc: every function that can fail holds several of each, and compiling them in every place took a
  // quarter of the time of a build.
  Error(const Error& other);
  Error(Error&& other) noexcept;
  Error& operator=(const Error& other);
  Error& operator=(Error&& other) noexcept;
  ~Error();

  // The same error seen from further out: "while reading X: <message>".
  Error with_context(std::string_view context) &&;
};

Error make_error(ErrorCode code, std::string message, Remedies remedies = {});

// Somebody took the value of a failed Result, or the error of one that holds a value: a mistake in the program.
[[noreturn]] void refuse_result_access();

// A union instead of a std::variant, whose visitors took longer to compile than the rest of a caller.
template <typename T>
class [[nodiscard]] Result {
 public:
  using value_type = T;

  Result(T value) noexcept(std::is_nothrow_move_constructible_v<T>)  // NOLINT: implicit, like std::expected
      : value_(std::move(value)), has_value_(true) {}
  Result(Error error) noexcept : error_(std::move(error)), has_value_(false) {}  // NOLINT: like std::unexpected

  Result(const Result& other) requires std::is_copy_constructible_v<T> : has_value_(other.has_value_) {
    if (has_value_) {
      std::construct_at(std::addressof(value_), other.value_);
    } else {
      std::construct_at(std::addressof(error_), other.error_);
    }
  }
  Result(Result&& other) noexcept(std::is_nothrow_move_constructible_v<T>) : has_value_(other.has_value_) {
    if (has_value_) {
      std::construct_at(std::addressof(value_), std::move(other.value_));
    } else {
      std::construct_at(std::addressof(error_), std::move(other.error_));
    }
  }
  Result& operator=(Result other) noexcept(std::is_nothrow_move_constructible_v<T>) {
    std::destroy_at(this);
    std::construct_at(this, std::move(other));
    return *this;
  }
  ~Result() {
    if (has_value_) {
      std::destroy_at(std::addressof(value_));
    } else {
      std::destroy_at(std::addressof(error_));
    }
  }

  bool has_value() const { return has_value_; }
  explicit operator bool() const { return has_value_; }

  T& value() & { return demand(true), value_; }
  const T& value() const& { return demand(true), value_; }
  T&& value() && { return demand(true), std::move(value_); }
  T& operator*() & { return value(); }
  const T& operator*() const& { return value(); }
  T&& operator*() && { return std::move(*this).value(); }
  T* operator->() { return std::addressof(value()); }
  const T* operator->() const { return std::addressof(value()); }

  Error& error() & { return demand(false), error_; }
  const Error& error() const& { return demand(false), error_; }
  Error&& error() && { return demand(false), std::move(error_); }

 private:
  void demand(bool value) const {
    if (has_value_ != value) [[unlikely]]
      refuse_result_access();
  }

  union {
    T value_;
    Error error_;
  };
  bool has_value_;
};

// Success, or an error.
template <>
class [[nodiscard]] Result<void> {
 public:
  using value_type = void;

  Result() : state_(Success{}) {}
  Result(Error error) : state_(std::move(error)) {}  // NOLINT: implicit, like std::unexpected

  bool has_value() const { return state_.has_value(); }
  explicit operator bool() const { return has_value(); }
  void value() const {}

  Error& error() & { return state_.error(); }
  const Error& error() const& { return state_.error(); }
  Error&& error() && { return std::move(state_).error(); }

 private:
  struct Success {};
  Result<Success> state_;
};

using Status = Result<void>;

// Puts the value where it belongs, or hands the error on.
template <typename Target, typename T>
Status assign(Target& target, Result<T> result) {
  if (!result) return std::move(result).error();
  target = std::move(result).value();
  return {};
}

}  // namespace ballast

// BALLAST_TRY(auto x, f()): x is f()'s value, or the enclosing function returns f()'s error.
// BALLAST_CHECK(f()): the same for a Status.
#define BALLAST_CONCAT_INNER(a, b) a##b
#define BALLAST_CONCAT(a, b) BALLAST_CONCAT_INNER(a, b)
#define BALLAST_TRY_IMPL(temporary, declaration, expression) \
  auto temporary = (expression);                             \
  if (!temporary) return std::move(temporary).error();       \
  declaration = std::move(temporary).value()
#define BALLAST_TRY(declaration, expression) \
  BALLAST_TRY_IMPL(BALLAST_CONCAT(ballast_try_, __LINE__), declaration, expression)
#define BALLAST_CHECK(expression)                                                                                    \
  do {                                                                                                               \
    if (auto BALLAST_CONCAT(ballast_status_, __LINE__) = (expression); !BALLAST_CONCAT(ballast_status_, __LINE__)) { \
      return std::move(BALLAST_CONCAT(ballast_status_, __LINE__)).error();                                           \
    }                                                                                                                \
  } while (false)
