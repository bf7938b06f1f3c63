#include "ballast/base/json_object.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

namespace ballast {

// ---------------------------------------------------------------- the members

Result<JsonObject> JsonObject::parse(std::string_view text, std::string where, const JsonRules& rules) {
  JsonReader json(text, where, 0, rules.dialect);
  JsonObject object(std::move(where), "", rules);
  if (auto status = object.read_members(json); !status) return make_error(rules.broken, status.error().message);
  return object;
}

Result<JsonObject> JsonObject::parse_or_null(std::string_view text, std::string where, const JsonRules& rules) {
  JsonReader json(text, where, 0, rules.dialect);
  if (json.read_null() && json.finish()) return JsonObject(std::move(where), "", rules);
  return parse(text, std::move(where), rules);
}

Status JsonObject::read_members(JsonReader& json) {
  BALLAST_CHECK(json.enter_object());
  std::string key;
  for (;;) {
    BALLAST_TRY(const bool more, json.next_key(key));
    if (!more) return json.finish();
    BALLAST_TRY(const std::string_view raw, json.read_raw());
    members_.push_back({key, raw});
  }
}

const JsonObject::Member* JsonObject::last(std::string_view key) const {
  const auto found = std::find_if(members_.rbegin(), members_.rend(), [&](const Member& m) { return m.key == key; });
  return found == members_.rend() ? nullptr : &*found;
}

std::optional<std::string_view> JsonObject::find(std::string_view key) const {
  const Member* member = last(key);
  if (member == nullptr || member->raw == "null") return std::nullopt;
  return member->raw;
}

bool JsonObject::mentions(std::string_view key) const { return last(key) != nullptr; }

// ---------------------------------------------------------------- errors

Error JsonObject::error(std::string_view key, std::string_view what) const {
  return make_error(rules_.wrong, fmt::format("{}: \"{}{}\" {}", where_, path_, key, what));
}

Error JsonObject::corrupt(std::string_view what) const {
  return make_error(ErrorCode::kCorrupt, fmt::format("{}: {}", where_, what));
}

Error JsonObject::unsupported(std::string_view what) const {
  return make_error(ErrorCode::kUnsupported, fmt::format("{}: {}", where_, what));
}

Error JsonObject::wrong_type(std::string_view key, std::string_view wanted) const {
  constexpr size_t kMost = 40;
  const std::string_view raw = find(key).value_or("null");
  return error(key, fmt::format("is {}{}, not {}", raw.substr(0, kMost), raw.size() > kMost ? "..." : "", wanted));
}

// ---------------------------------------------------------------- values

template <typename T, typename Read>
Result<std::optional<T>> JsonObject::find_value(std::string_view key, std::string_view wanted, const Read& read) const {
  const auto raw = find(key);
  if (!raw) return std::optional<T>();
  JsonReader json(*raw, where_, 0, rules_.dialect);
  auto value = read(json);
  if (!value) return wrong_type(key, wanted);
  return std::optional<T>(std::move(*value));
}

template <typename T>
Result<T> JsonObject::require(std::string_view key, Result<std::optional<T>> found) const {
  if (!found) return std::move(found).error();
  if (!*found) return error(key, "is missing");
  return **std::move(found);
}

Result<std::optional<std::string>> JsonObject::find_text(std::string_view key) const {
  return find_value<std::string>(key, "a text", [](JsonReader& json) { return json.read_string(); });
}

Result<std::string> JsonObject::text(std::string_view key) const { return require(key, find_text(key)); }

Result<std::string> JsonObject::text_or(std::string_view key, std::string otherwise) const {
  BALLAST_TRY(auto found, find_text(key));
  return std::move(found).value_or(std::move(otherwise));
}

Result<std::optional<uint64_t>> JsonObject::find_count(std::string_view key) const {
  return find_value<uint64_t>(key, "a whole number", [](JsonReader& json) { return json.read_u64(); });
}

Result<uint64_t> JsonObject::count(std::string_view key) const { return require(key, find_count(key)); }

Result<uint64_t> JsonObject::count_or(std::string_view key, uint64_t otherwise) const {
  BALLAST_TRY(const auto found, find_count(key));
  return found.value_or(otherwise);
}

Result<std::optional<double>> JsonObject::find_real(std::string_view key) const {
  return find_value<double>(key, "a number", [](JsonReader& json) { return json.read_double(); });
}

Result<double> JsonObject::number(std::string_view key) const {
  BALLAST_TRY(const double value, require(key, find_real(key)));
  if (!std::isfinite(value)) return wrong_type(key, "a finite number");
  return value;
}

Result<double> JsonObject::number_or(std::string_view key, double otherwise) const {
  return has(key) ? number(key) : Result<double>(otherwise);
}

Result<std::optional<bool>> JsonObject::find_truth(std::string_view key) const {
  return find_value<bool>(key, "true or false", [](JsonReader& json) { return json.read_bool(); });
}

Result<bool> JsonObject::truth_or(std::string_view key, bool otherwise) const {
  BALLAST_TRY(const auto found, find_truth(key));
  return found.value_or(otherwise);
}

Result<std::optional<JsonObject>> JsonObject::find_object(std::string_view key) const {
  const auto raw = find(key);
  if (!raw) return std::optional<JsonObject>();
  if (!raw->starts_with('{')) return wrong_type(key, "an object");
  JsonObject inner(where_, fmt::format("{}{}.", path_, key), rules_);
  JsonReader json(*raw, where_, 0, rules_.dialect);
  if (auto status = inner.read_members(json); !status) return make_error(rules_.broken, status.error().message);
  return std::optional(std::move(inner));
}

Result<JsonObject> JsonObject::object(std::string_view key) const { return require(key, find_object(key)); }

// ---------------------------------------------------------------- lists

template <typename T, typename Read>
Result<std::vector<T>> JsonObject::list(std::string_view key, std::string_view wanted, const Read& read) const {
  const auto raw = find(key);
  if (!raw) return error(key, "is missing");
  JsonReader json(*raw, where_, 0, rules_.dialect);
  const auto items = [&]() -> Result<std::vector<T>> {
    std::vector<T> found;
    BALLAST_CHECK(json.enter_array());
    for (;;) {
      BALLAST_TRY(const bool more, json.next_element());
      if (!more) return found;
      BALLAST_TRY(T item, read(json));
      found.push_back(std::move(item));
    }
  }();
  if (items) return items;
  return wrong_type(key, wanted);
}

Result<std::vector<uint64_t>> JsonObject::counts(std::string_view key) const {
  return list<uint64_t>(key, "a list of whole numbers", [](JsonReader& json) { return json.read_u64(); });
}

Result<std::vector<double>> JsonObject::numbers(std::string_view key) const {
  return list<double>(key, "a list of numbers", [](JsonReader& json) -> Result<double> {
    BALLAST_TRY(const double value, json.read_double());
    if (!std::isfinite(value)) return json.error_here("not a finite number");
    return value;
  });
}

Result<std::vector<std::string>> JsonObject::texts(std::string_view key) const {
  return list<std::string>(key, "a list of texts", [](JsonReader& json) { return json.read_string(); });
}

Result<std::vector<std::string_view>> JsonObject::elements(std::string_view key) const {
  if (!has(key)) return std::vector<std::string_view>();
  return list<std::string_view>(key, "a list", [](JsonReader& json) { return json.read_raw(); });
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
