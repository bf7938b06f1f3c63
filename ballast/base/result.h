// Errors are values: every operation that can fail returns Result<T>.
//
// The names follow std::expected (C++23) so that Result can become an alias one day. An Error carries a code that
// programs branch on, one text that people read (where, which tensor, which numbers, and the likely cause), and what
// would help. The library knows no command: its texts name no flags.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <variant>

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
  ErrorCode code;
  std::string message;
  Remedies remedies = {};  // what would help, where something would; the message says it in words

  // The same error seen from further out: "while reading X: <message>".
  Error with_context(std::string_view context) &&;
};

inline Error make_error(ErrorCode code, std::string message, Remedies remedies = {}) {
  return Error{code, std::move(message), remedies};
}

template <typename T>
class [[nodiscard]] Result {
 public:
  using value_type = T;

  Result(T value) : state_(std::in_place_index<0>, std::move(value)) {}      // NOLINT: implicit, like std::expected
  Result(Error error) : state_(std::in_place_index<1>, std::move(error)) {}  // NOLINT: implicit, like std::unexpected

  bool has_value() const { return state_.index() == 0; }
  explicit operator bool() const { return has_value(); }

  T& value() & { return std::get<0>(state_); }
  const T& value() const& { return std::get<0>(state_); }
  T&& value() && { return std::get<0>(std::move(state_)); }
  T& operator*() & { return value(); }
  const T& operator*() const& { return value(); }
  T&& operator*() && { return std::move(*this).value(); }
  T* operator->() { return &value(); }
  const T* operator->() const { return &value(); }

  Error& error() & { return std::get<1>(state_); }
  const Error& error() const& { return std::get<1>(state_); }
  Error&& error() && { return std::get<1>(std::move(state_)); }

 private:
  std::variant<T, Error> state_;
};

template <>
class [[nodiscard]] Result<void> {
 public:
  using value_type = void;

  Result() = default;
  Result(Error error) : error_(std::move(error)) {}  // NOLINT: implicit, like std::unexpected

  bool has_value() const { return !error_.has_value(); }
  explicit operator bool() const { return has_value(); }
  void value() const {}

  Error& error() & { return *error_; }
  const Error& error() const& { return *error_; }
  Error&& error() && { return *std::move(error_); }

 private:
  std::optional<Error> error_;
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
