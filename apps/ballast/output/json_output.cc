#include "apps/ballast/output/json_output.h"

#include "apps/ballast/output/remedy_text.h"
#include "apps/ballast/output/text.h"
#include "ballast/base/utf8.h"

namespace ballast::cli {

void add_text(JsonWriter& json, std::string_view key, std::string_view text) {
  json.key(key);
  if (is_valid_utf8(text)) json.string(text);
  else json.string(json_text(text));
}

void add_number(JsonWriter& json, std::string_view key, uint64_t number) { json.key(key).number(number); }

void add_boolean(JsonWriter& json, std::string_view key, bool value) { json.key(key).boolean(value); }

void add_null(JsonWriter& json, std::string_view key) { json.key(key).null(); }

void add_error(JsonWriter& json, std::string_view key, const Error& error) {
  json.key(key).begin_object();
  add_text(json, "code", error_code_name(error.code));
  add_text(json, "message", error_text(error));
  json.end_object();
}

std::string error_object(const Error& error) {
  JsonWriter json;
  json.begin_object();
  add_error(json, "error", error);
  json.end_object();
  return json.take();
}

}  // namespace ballast::cli
