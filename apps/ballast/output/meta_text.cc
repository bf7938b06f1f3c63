#include "apps/ballast/output/meta_text.h"

#include "apps/ballast/output/json_output.h"
#include "apps/ballast/output/text.h"

namespace ballast::cli {

namespace {

constexpr size_t kShownElements = 8;  // of a list

}  // namespace

std::string meta_text(const std::optional<MetaValue>& value) {
  if (!value) return "(none)";
  JsonWriter json;
  if (const auto* text = std::get_if<std::string>(&*value)) return printable(*text);
  if (const auto* integer = std::get_if<int64_t>(&*value)) json.signed_number(*integer);
  else if (const auto* natural = std::get_if<uint64_t>(&*value)) json.number(*natural);
  else if (const auto* real = std::get_if<double>(&*value)) json.real(*real);
  else if (const auto* truth = std::get_if<bool>(&*value)) json.boolean(*truth);
  else return printable(std::get<MetaArray>(*value).to_text(kShownElements));
  return json.take();
}

void add_meta(JsonWriter& json, std::string_view key, const std::optional<MetaValue>& value) {
  if (!value) add_null(json, key);
  else if (const auto* text = std::get_if<std::string>(&*value)) add_text(json, key, *text);
  else if (const auto* array = std::get_if<MetaArray>(&*value)) add_text(json, key, array->to_text(kShownElements));
  else json.key(key).raw(meta_text(value));
}

}  // namespace ballast::cli
