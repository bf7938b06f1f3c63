#include "ballast/models/config_reader.h"

#include <fmt/format.h>

#include "ballast/base/json.h"

namespace ballast {

namespace {

std::string config_of(std::string_view kind) {
  return kind.empty() ? "the model's config" : fmt::format("config of the {} model", kind);
}

}  // namespace

Result<ConfigReader> ConfigReader::parse(std::string_view kind, std::string_view text) {
  return parse_at(kind, "", text);
}

Result<ConfigReader> ConfigReader::parse_at(std::string_view kind, std::string path, std::string_view text) {
  ConfigReader config{std::string(kind), std::move(path)};
  JsonReader reader(text, config_of(kind), 0, JsonReader::Dialect::kPython);
  BALLAST_TRY(const JsonType type, reader.peek());
  if (type == JsonType::kNull) {
    BALLAST_CHECK(reader.read_null());
    return config;
  }
  BALLAST_CHECK(reader.enter_object());
  std::string key;
  for (;;) {
    BALLAST_TRY(const bool more, reader.next_key(key));
    if (!more) break;
    BALLAST_TRY(const std::string_view raw, reader.read_raw());
    config.fields_[key] = raw;
  }
  BALLAST_CHECK(reader.finish());
  return config;
}

std::optional<std::string_view> ConfigReader::raw(std::string_view field) const {
  const auto found = fields_.find(field);
  if (found == fields_.end()) return std::nullopt;
  return found->second;
}

bool ConfigReader::has(std::string_view field) const {
  const auto value = raw(field);
  return value && *value != "null";
}

Error ConfigReader::error(std::string_view field, std::string_view what) const {
  return make_error(ErrorCode::kInvalidArgument, fmt::format("{}: \"{}{}\" {}", config_of(kind_), path_, field, what));
}

Result<std::string_view> ConfigReader::require(std::string_view field) const {
  if (const auto value = raw(field)) return *value;
  return error(field, "is missing");
}

Result<uint64_t> ConfigReader::count(std::string_view field) const {
  BALLAST_TRY(const std::string_view value, require(field));
  JsonReader reader(value, "");
  if (auto number = reader.read_u64()) return *number;
  return error(field, fmt::format("is {}, not a whole number", value.substr(0, 40)));
}

Result<uint64_t> ConfigReader::count_or(std::string_view field, uint64_t otherwise) const {
  return has(field) ? count(field) : Result<uint64_t>(otherwise);
}

Result<double> ConfigReader::number(std::string_view field) const {
  BALLAST_TRY(const std::string_view value, require(field));
  JsonReader reader(value, "");
  if (auto number = reader.read_double()) return *number;
  return error(field, fmt::format("is {}, not a number", value.substr(0, 40)));
}

Result<double> ConfigReader::number_or(std::string_view field, double otherwise) const {
  return has(field) ? number(field) : Result<double>(otherwise);
}

Result<bool> ConfigReader::truth_or(std::string_view field, bool otherwise) const {
  if (!has(field)) return otherwise;
  BALLAST_TRY(const std::string_view value, require(field));
  if (value == "true") return true;
  if (value == "false") return false;
  return error(field, fmt::format("is {}, neither true nor false", value.substr(0, 40)));
}

Result<std::string> ConfigReader::text(std::string_view field) const {
  BALLAST_TRY(const std::string_view value, require(field));
  JsonReader reader(value, "");
  if (auto text = reader.read_string()) return std::move(*text);
  return error(field, fmt::format("is {}, not a text", value.substr(0, 40)));
}

Result<std::string> ConfigReader::text_or(std::string_view field, std::string otherwise) const {
  return has(field) ? text(field) : Result<std::string>(std::move(otherwise));
}

Result<ConfigReader> ConfigReader::object(std::string_view field) const {
  BALLAST_TRY(const std::string_view value, require(field));
  if (!value.starts_with('{')) return error(field, "is not an object");
  return parse_at(kind_, fmt::format("{}{}.", path_, field), value);
}

template <typename T, typename Read>
Result<std::vector<T>> ConfigReader::list(std::string_view field, std::string_view what, const Read& read) const {
  BALLAST_TRY(const std::string_view value, require(field));
  JsonReader reader(value, "");
  const auto items = [&]() -> Result<std::vector<T>> {
    std::vector<T> found;
    BALLAST_CHECK(reader.enter_array());
    for (;;) {
      BALLAST_TRY(const bool more, reader.next_element());
      if (!more) return found;
      BALLAST_TRY(T item, read(reader));
      found.push_back(std::move(item));
    }
  }();
  if (items) return items;
  return error(field, fmt::format("is {}, not a list of {}", value.substr(0, 40), what));
}

Result<std::vector<uint64_t>> ConfigReader::counts(std::string_view field) const {
  return list<uint64_t>(field, "whole numbers", [](JsonReader& reader) { return reader.read_u64(); });
}

Result<std::vector<double>> ConfigReader::numbers(std::string_view field) const {
  return list<double>(field, "numbers", [](JsonReader& reader) { return reader.read_double(); });
}

Result<std::vector<std::string>> ConfigReader::texts(std::string_view field) const {
  return list<std::string>(field, "texts", [](JsonReader& reader) { return reader.read_string(); });
}

}  // namespace ballast
