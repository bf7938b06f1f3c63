#include "ballast/base/result.h"

#include <optional>

namespace ballast {

Error::Error() noexcept = default;
Error::Error(ErrorCode code, std::string message, Remedies remedies) noexcept
    : code(code), message(std::move(message)), remedies(remedies) {}
Error::Error(const Error& other) = default;
Error::Error(Error&& other) noexcept = default;
Error& Error::operator=(const Error& other) = default;
Error& Error::operator=(Error&& other) noexcept = default;
Error::~Error() = default;

Error make_error(ErrorCode code, std::string message, Remedies remedies) {
  return Error(code, std::move(message), remedies);
}

// What taking a std::optional that is empty does: an exception, or the end of a program that was built without them.
void refuse_result_access() {
  static_cast<void>(std::optional<char>().value());
  __builtin_unreachable();
}

std::string_view error_code_name(ErrorCode code) {
  switch (code) {
    case ErrorCode::kNotFound: return "not_found";
    case ErrorCode::kUnknownFormat: return "unknown_format";
    case ErrorCode::kCorrupt: return "corrupt";
    case ErrorCode::kUnsupported: return "unsupported";
    case ErrorCode::kInvalidArgument: return "invalid_argument";
    case ErrorCode::kLossy: return "lossy";
    case ErrorCode::kExists: return "exists";
    case ErrorCode::kIo: return "io";
    case ErrorCode::kOutOfMemory: return "out_of_memory";
    case ErrorCode::kCancelled: return "cancelled";
  }
  return "unknown";
}

Error Error::with_context(std::string_view context) && {
  // Whoever found the error may have named the same file already.
  if (message.starts_with(context) && std::string_view(message).substr(context.size()).starts_with(": "))
    return std::move(*this);
  message.insert(0, ": ");
  message.insert(0, context);
  return std::move(*this);
}

}  // namespace ballast
