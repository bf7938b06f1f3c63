#include "ballast/base/result.h"

namespace ballast {

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
