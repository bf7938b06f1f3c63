#include "ballast/base/json_object.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "ballast/base/json.h"

namespace ballast {

namespace {

constexpr auto kDialect = JsonReader::Dialect::kPython;

Error as_argument(Error error) {
  error.code = ErrorCode::kInvalidArgument;
  return error;
}

// Gives `members` what the object at the reader's position holds.
Status read_members(JsonReader& json, std::vector<std::pair<std::string, std::string_view>>& members) {
  BALLAST_CHECK(json.enter_object());
  std::string key;
  for (;;) {
    BALLAST_TRY(const bool more, json.next_key(key));
    if (!more) return json.finish();
    BALLAST_TRY(const std::string_view raw, json.read_raw());
    members.emplace_back(key, raw);
  }
}

}  // namespace

Result<JsonObject> JsonObject::parse(std::string_view text, std::string where) {
  JsonReader json(text, where, 0, kDialect);
  JsonObject object(std::move(where));
  if (auto status = read_members(json, object.members_); !status) return as_argument(std::move(status).error());
  return object;
}

std::optional<std::string_view> JsonObject::find(std::string_view key) const {
  const auto found = std::find_if(members_.rbegin(), members_.rend(), [&](const auto& m) { return m.first == key; });
  if (found == members_.rend() || found->second == "null") return std::nullopt;
  return found->second;
}

Error JsonObject::wrong_type(std::string_view key, std::string_view raw, std::string_view wanted) const {
  constexpr size_t kMost = 60;
  return make_error(ErrorCode::kInvalidArgument,
                    fmt::format("{}: \"{}\" is {}{}, where {} is needed", where_, key, raw.substr(0, kMost),
                                raw.size() > kMost ? "..." : "", wanted));
}

Result<std::optional<uint64_t>> JsonObject::whole(std::string_view key) const {
  const auto raw = find(key);
  if (!raw) return std::optional<uint64_t>();
  const auto value = JsonReader(*raw, where_, 0, kDialect).read_u64();
  if (!value) return wrong_type(key, *raw, "a whole number");
  return std::optional(*value);
}

Result<std::optional<double>> JsonObject::real(std::string_view key) const {
  const auto raw = find(key);
  if (!raw) return std::optional<double>();
  const auto value = JsonReader(*raw, where_, 0, kDialect).read_double();
  if (!value) return wrong_type(key, *raw, "a number");
  return std::optional(*value);
}

Result<std::optional<std::string>> JsonObject::text(std::string_view key) const {
  const auto raw = find(key);
  if (!raw) return std::optional<std::string>();
  auto value = JsonReader(*raw, where_, 0, kDialect).read_string();
  if (!value) return wrong_type(key, *raw, "a string");
  return std::optional(std::move(*value));
}

Result<std::optional<bool>> JsonObject::boolean(std::string_view key) const {
  const auto raw = find(key);
  if (!raw) return std::optional<bool>();
  const auto value = JsonReader(*raw, where_, 0, kDialect).read_bool();
  if (!value) return wrong_type(key, *raw, "true or false");
  return std::optional(*value);
}

Result<std::optional<JsonObject>> JsonObject::object(std::string_view key) const {
  const auto raw = find(key);
  if (!raw) return std::optional<JsonObject>();
  if (!raw->starts_with('{')) return wrong_type(key, *raw, "an object");
  BALLAST_TRY(JsonObject value, parse(*raw, fmt::format("{}: \"{}\"", where_, key)));
  return std::optional(std::move(value));
}

std::string python_real(double value) {
  if (std::isnan(value)) return "NaN";
  if (std::isinf(value)) return value > 0 ? "Infinity" : "-Infinity";
  std::string text = fmt::format("{}", value);
  if (text.find_first_of(".en") == std::string::npos) text += ".0";
  return text;
}

}  // namespace ballast
