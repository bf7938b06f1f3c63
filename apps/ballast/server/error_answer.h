// Errors of the server itself, in the shape that clients of each interface read.
#pragma once

#include <string>
#include <string_view>

#include "ballast/serve/exchange.h"

namespace ballast::cli {

struct Refusal {
  int status = 400;
  std::string_view type;  // "invalid_request_error"
  std::string_view code;  // "host_not_allowed"
  std::string message;
  std::string allow{};  // methods, where the status is 405
};

// OpenAI's shape; Ollama's for /api/..., Anthropic's for /v1/messages and /messages.
serve::HttpAnswer error_answer(const Refusal& refusal, std::string_view path);

}  // namespace ballast::cli
