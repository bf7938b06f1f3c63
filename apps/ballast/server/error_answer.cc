#include "apps/ballast/server/error_answer.h"

#include "apps/ballast/output/text.h"
#include "ballast/base/json.h"
#include "ballast/serve/refusal.h"

namespace ballast::cli {

namespace {

std::string openai_error(const Refusal& refusal) {
  JsonWriter json;
  json.begin_object().key("error").begin_object();
  json.key("message").string(json_text(refusal.message)).key("type").string(refusal.type);
  json.key("param").null().key("code").string(refusal.code);
  json.end_object().end_object();
  return json.take();
}

std::string ollama_error(const Refusal& refusal) {
  JsonWriter json;
  json.begin_object().key("error").string(json_text(refusal.message)).end_object();
  return json.take();
}

std::string anthropic_error(const Refusal& refusal) {
  JsonWriter json;
  json.begin_object().key("type").string("error").key("error").begin_object();
  json.key("type").string(refusal.type).key("message").string(json_text(refusal.message));
  json.end_object().end_object();
  return json.take();
}

}  // namespace

serve::HttpAnswer error_answer(const Refusal& refusal, std::string_view path) {
  serve::HttpAnswer answer{.status = refusal.status, .content_type = "application/json", .body = {}};
  switch (serve::dialect_of(path)) {
    case serve::Dialect::kOllama: answer.body = ollama_error(refusal); break;
    case serve::Dialect::kAnthropic: answer.body = anthropic_error(refusal); break;
    case serve::Dialect::kOpenAi: answer.body = openai_error(refusal); break;
  }
  if (refusal.status == 401) answer.headers.emplace_back("www-authenticate", "Bearer");
  if (!refusal.allow.empty()) answer.headers.emplace_back("allow", refusal.allow);
  if (refusal.status == 503) answer.headers.emplace_back("retry-after", "1");
  return answer;
}

}  // namespace ballast::cli
