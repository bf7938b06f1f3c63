#include "ballast/text/json_fields.h"

#include <fmt/format.h>

#include <ranges>

namespace ballast {

Result<JsonFields> JsonFields::parse(std::string_view json, std::string where) {
  JsonFields fields;
  fields.where_ = std::move(where);
  JsonReader reader(json, fields.where_);
  BALLAST_CHECK(reader.enter_object());
  std::string key;
  for (;;) {
    BALLAST_TRY(const bool more, reader.next_key(key));
    if (!more) break;
    BALLAST_TRY(const std::string_view value, reader.read_raw());
    fields.fields_.push_back({key, value});
  }
  BALLAST_CHECK(reader.finish());
  return fields;
}

std::optional<std::string_view> JsonFields::raw(std::string_view key) const {
  for (const Field& field : std::views::reverse(fields_)) {
    if (field.key == key) return field.value == "null" ? std::nullopt : std::optional(field.value);
  }
  return std::nullopt;
}

Result<std::string> JsonFields::text(std::string_view key) const {
  const auto value = raw(key);
  if (!value) return corrupt(fmt::format("there is no \"{}\"", key));
  return JsonReader(*value, fmt::format("{}: \"{}\"", where_, key)).read_string();
}

Result<std::string> JsonFields::text(std::string_view key, std::string absent) const {
  if (!has(key)) return absent;
  return text(key);
}

Result<bool> JsonFields::flag(std::string_view key, bool absent) const {
  const auto value = raw(key);
  if (!value) return absent;
  return JsonReader(*value, fmt::format("{}: \"{}\"", where_, key)).read_bool();
}

Result<uint64_t> JsonFields::number(std::string_view key, uint64_t absent) const {
  if (!has(key)) return absent;
  return number(key);
}

Result<uint64_t> JsonFields::number(std::string_view key) const {
  const auto value = raw(key);
  if (!value) return corrupt(fmt::format("there is no \"{}\"", key));
  return JsonReader(*value, fmt::format("{}: \"{}\"", where_, key)).read_u64();
}

Result<std::vector<std::string_view>> JsonFields::list(std::string_view key) const {
  const auto value = raw(key);
  if (!value) return std::vector<std::string_view>();
  return json_elements(*value, fmt::format("{}: \"{}\"", where_, key));
}

Error JsonFields::corrupt(std::string_view what) const {
  return make_error(ErrorCode::kCorrupt, fmt::format("{}: {}", where_, what));
}

Error JsonFields::unsupported(std::string_view what) const {
  return make_error(ErrorCode::kUnsupported, fmt::format("{}: {}", where_, what));
}

Result<std::vector<std::string_view>> json_elements(std::string_view json, const std::string& where) {
  std::vector<std::string_view> elements;
  JsonReader reader(json, where);
  BALLAST_CHECK(reader.enter_array());
  for (;;) {
    BALLAST_TRY(const bool more, reader.next_element());
    if (!more) break;
    BALLAST_TRY(const std::string_view element, reader.read_raw());
    elements.push_back(element);
  }
  BALLAST_CHECK(reader.finish());
  return elements;
}

}  // namespace ballast
