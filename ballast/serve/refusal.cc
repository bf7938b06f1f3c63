#include "ballast/serve/refusal.h"

#include "ballast/base/json.h"

namespace ballast::serve {

namespace {

constexpr size_t kMostMessageBytes = 2000, kMostParamBytes = 200;

std::string_view openai_type(int status) {
  switch (status) {
    case 401: return "authentication_error";
    case 403: return "permission_error";
    case 404: return "not_found_error";
    case 429: return "rate_limit_error";
    case 503: return "unavailable_error";
    case 504: return "timeout_error";
    default: return status < 500 ? "invalid_request_error" : "server_error";
  }
}

std::string_view anthropic_type(int status) {
  switch (status) {
    case 401: return "authentication_error";
    case 403: return "permission_error";
    case 404: return "not_found_error";
    case 429: return "rate_limit_error";
    case 503: return "overloaded_error";
    case 504: return "timeout_error";
    default: return status < 500 ? "invalid_request_error" : "api_error";
  }
}

void text_or_null(JsonWriter& json, std::string_view key, std::string_view text) {
  json.key(key);
  if (text.empty()) json.null();
  else json.string(text);
}

}  // namespace

Dialect dialect_of(std::string_view path) {
  if (path.starts_with("/api/")) return Dialect::kOllama;
  if (path.starts_with("/v1/messages") || path.starts_with("/messages")) return Dialect::kAnthropic;
  return Dialect::kOpenAi;
}

std::string shortened(std::string_view text, size_t most_bytes) {
  if (text.size() <= most_bytes) return std::string(text);
  size_t end = most_bytes;
  while (end > 0 && (static_cast<unsigned char>(text[end]) & 0xC0U) == 0x80U) --end;
  return std::string(text.substr(0, end)) + "...";
}

// Messages repeat what was sent; an error must not grow with that.
std::string error_json(const Refusal& whole, Dialect dialect) {
  const Refusal refusal{.status = whole.status,
                        .message = shortened(whole.message, kMostMessageBytes),
                        .param = shortened(whole.param, kMostParamBytes),
                        .code = whole.code};
  JsonWriter json;
  json.begin_object();
  switch (dialect) {
    case Dialect::kOllama: json.key("error").string(refusal.message); break;
    case Dialect::kAnthropic:
      json.key("type").string("error").key("error").begin_object();
      json.key("type").string(anthropic_type(refusal.status)).key("message").string(refusal.message).end_object();
      break;
    case Dialect::kOpenAi:
      json.key("error").begin_object();
      json.key("message").string(refusal.message).key("type").string(openai_type(refusal.status));
      text_or_null(json, "param", refusal.param);
      text_or_null(json, "code", refusal.code);
      json.end_object();
      break;
  }
  return json.end_object().take();
}

HttpAnswer json_answer(std::string body) {
  return {.status = 200, .content_type = "application/json", .body = std::move(body)};
}

HttpAnswer to_answer(const Refusal& refusal, Dialect dialect) {
  HttpAnswer answer = json_answer(error_json(refusal, dialect));
  answer.status = refusal.status;
  if (refusal.retry_after != 0) answer.headers.emplace_back("Retry-After", std::to_string(refusal.retry_after));
  if (!refusal.may_retry) answer.headers.emplace_back("x-should-retry", "false");
  return answer;
}

bool is_clients_fault(const Error& error) {
  return error.code == ErrorCode::kInvalidArgument || error.code == ErrorCode::kUnsupported;
}

Refusal refusal_of(const Error& error) {
  if (is_clients_fault(error)) return {.status = 400, .message = error.message};
  if (error.code == ErrorCode::kOutOfMemory) {
    return {
        .status = 503, .message = "the server is out of memory: try again later, or ask for less", .retry_after = 5};
  }
  return {.status = 500, .message = "the server failed to compute the answer; its log says why", .may_retry = false};
}

Refusal late_refusal() {
  return {.status = 504,
          .message = "the answer was not finished within the time that the server allows for one",
          .may_retry = false};
}

}  // namespace ballast::serve
