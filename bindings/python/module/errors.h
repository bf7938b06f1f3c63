// Errors of the library as exceptions of Python. The one place that knows which is which.
//
//   not_found          FileNotFoundError, or KeyError where a name was asked for
//   unknown_format, corrupt, unsupported, lossy    ballast.FormatError, a ValueError
//   invalid_argument   ValueError
//   exists             FileExistsError
//   io                 OSError
//   out_of_memory      MemoryError
//   cancelled          ballast.CancelledError
//
// Each has the whole message, and the library's word for the kind of error in its attribute `code`.
#pragma once

#include <nanobind/nanobind.h>

#include <string>
#include <utility>

#include "ballast/base/result.h"

namespace ballast::python {

namespace nb = nanobind;

// What kNotFound means where it is raised.
enum class Missing : unsigned char { kFile, kName };

// With the GIL held.
[[noreturn]] void raise_error(const Error& error, Missing missing = Missing::kFile);
// FormatError with the code "closed" is no format's fault: using what was closed is a ValueError, as of files.
[[noreturn]] void raise_closed(const std::string& what);

template <typename T>
T unwrap(Result<T> result, Missing missing = Missing::kFile) {
  if (!result) raise_error(result.error(), missing);
  if constexpr (!std::is_void_v<T>) return std::move(result).value();
}

void bind_errors(nb::module_& module);

}  // namespace ballast::python
