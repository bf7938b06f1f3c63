#include "ballast/serve/fields.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

namespace ballast::serve {

namespace {

constexpr JsonRules kRequestRules = {JsonReader::Dialect::kStrict, ErrorCode::kInvalidArgument,
                                     ErrorCode::kInvalidArgument};
constexpr size_t kShownBytes = 40;

std::string shown(std::string_view raw) { return shortened(raw, kShownBytes); }

bool begins_with(std::string_view raw, char mark) { return !raw.empty() && raw.front() == mark; }

std::optional<double> number_in(std::string_view raw) {
  JsonReader json(raw, "");
  const auto type = json.peek();
  if (!type || *type != JsonType::kNumber) return std::nullopt;
  const auto value = json.read_double();
  return value ? std::optional(*value) : std::nullopt;
}

constexpr double kMostExactWhole = 9007199254740992.0;  // 2^53

std::optional<int64_t> whole_in(std::string_view raw) {
  JsonReader json(raw, "");
  if (const auto value = json.read_i64()) return *value;
  const auto real = number_in(raw);
  if (!real || std::floor(*real) != *real || std::abs(*real) > kMostExactWhole) return std::nullopt;
  return static_cast<int64_t>(*real);
}

constexpr std::string_view kRequestName = "the request";

// Of a whole body that is not what it must be.
std::string broken_body(std::string_view text, std::string_view why) {
  JsonReader json(text, "");
  if (json.skip_value() && json.finish()) return "the request's body must be a JSON object";
  const std::string prefix = fmt::format("{}: ", kRequestName);
  if (why.starts_with(prefix)) why.remove_prefix(prefix.size());
  return fmt::format("the request's body is not valid JSON: {}", why);
}

// Looking a member up takes time by their number, and readers look up many. Only a long text can have too many.
constexpr size_t kUncountedBytes = size_t{1} << 16U;
constexpr size_t kMostMembers = 10000;

bool has_too_many_members(std::string_view text) {
  if (text.size() < kUncountedBytes) return false;
  JsonReader json(text, "");
  if (!json.enter_object()) return false;
  std::string_view key;
  for (size_t count = 0; count <= kMostMembers; ++count) {
    const auto more = json.next_key(key);
    if (!more || !*more || !json.skip_value()) return false;
  }
  return true;
}

}  // namespace

bool is_json_string(std::string_view raw) { return begins_with(raw, '"'); }
bool is_json_array(std::string_view raw) { return begins_with(raw, '['); }
bool is_json_object(std::string_view raw) { return begins_with(raw, '{'); }

std::optional<std::vector<TokenId>> token_list(std::string_view raw) {
  JsonReader json(raw, "");
  std::vector<uint64_t> values;
  if (!json.read_u64_array(values)) return std::nullopt;
  if (std::ranges::any_of(values, [](uint64_t value) { return value > UINT32_MAX; })) return std::nullopt;
  return std::vector<TokenId>(values.begin(), values.end());
}

Fields::Fields(std::string_view text) : Fields(text, "", std::make_shared<std::optional<Refusal>>()) {}

Fields::Fields(std::string_view text, std::string path, std::shared_ptr<std::optional<Refusal>> refusal)
    : path_(std::move(path)), refusal_(std::move(refusal)) {
  if (has_too_many_members(text)) {
    if (!*refusal_) *refusal_ = Refusal{.message = fmt::format("an object has more than {} members", kMostMembers)};
    return;
  }
  const bool is_body = path_.empty();
  auto parsed =
      JsonObject::parse(text, is_body ? std::string(kRequestName) : path_.substr(0, path_.size() - 1), kRequestRules);
  if (parsed) object_ = std::move(*parsed);
  else if (!*refusal_)
    *refusal_ = Refusal{.message = is_body ? broken_body(text, parsed.error().message) : parsed.error().message};
}

void Fields::refuse(std::string_view key, std::string_view what, std::string_view code) {
  if (*refusal_) return;
  *refusal_ =
      Refusal{.message = fmt::format("\"{}\" {}", path(key), what), .param = path(key), .code = std::string(code)};
}

std::optional<std::string_view> Fields::raw(std::string_view key) const {
  if (*refusal_ || !object_) return std::nullopt;
  return object_->find(key);
}

std::optional<bool> Fields::truth(std::string_view key) {
  const auto value = raw(key);
  if (!value) return std::nullopt;
  if (*value == "true" || *value == "false") return *value == "true";
  refuse(key, fmt::format("is {}: it must be true or false", shown(*value)));
  return std::nullopt;
}

std::optional<std::string> Fields::text(std::string_view key) {
  const auto value = raw(key);
  if (!value) return std::nullopt;
  JsonReader json(*value, "");
  if (auto read = json.read_string()) return std::move(*read);
  refuse(key, fmt::format("is {}: it must be a text", shown(*value)));
  return std::nullopt;
}

std::optional<double> Fields::number(std::string_view key, double least, double most) {
  const auto value = raw(key);
  if (!value) return std::nullopt;
  const auto number = number_in(*value);
  if (number && *number >= least && *number <= most) return number;
  refuse(key, fmt::format("is {}: it must be a number from {} to {}", shown(*value), least, most));
  return std::nullopt;
}

std::optional<int64_t> Fields::whole(std::string_view key, int64_t least, int64_t most) {
  const auto value = raw(key);
  if (!value) return std::nullopt;
  const auto number = whole_in(*value);
  if (number && *number >= least && *number <= most) return number;
  refuse(key, fmt::format("is {}: it must be a whole number from {} to {}", shown(*value), least, most));
  return std::nullopt;
}

std::optional<uint64_t> Fields::count(std::string_view key, uint64_t least, uint64_t most) {
  const auto limit = static_cast<int64_t>(std::min<uint64_t>(most, INT64_MAX));
  const auto number = whole(key, static_cast<int64_t>(least), limit);
  return number ? std::optional(static_cast<uint64_t>(*number)) : std::nullopt;
}

std::vector<std::string> Fields::texts(std::string_view key, size_t most) {
  const auto value = raw(key);
  if (!value) return {};
  if (!is_json_array(*value)) {
    auto one = text(key);
    return one ? std::vector{std::move(*one)} : std::vector<std::string>();
  }
  std::vector<std::string> all;
  for (const std::string_view element : elements(key, most)) {
    JsonReader json(element, "");
    auto read = json.read_string();
    if (!read) {
      refuse(key, fmt::format("has {} among its elements: each must be a text", shown(element)));
      return {};
    }
    all.push_back(std::move(*read));
  }
  return all;
}

std::vector<std::string_view> Fields::elements(std::string_view key, size_t most) {
  const auto value = raw(key);
  if (!value) return {};
  if (!is_json_array(*value)) {
    refuse(key, fmt::format("is {}: it must be a list", shown(*value)));
    return {};
  }
  // Not one element more than is allowed: a list of a large body may have millions.
  std::vector<std::string_view> all;
  JsonReader json(*value, "");
  if (!json.enter_array()) return {};
  for (auto more = json.next_element(); more && *more; more = json.next_element()) {
    const auto element = json.read_raw();
    if (!element) return {};
    if (all.size() == most) {
      refuse(key, fmt::format("has more than {0} elements: at most {0} are allowed", most));
      return {};
    }
    all.push_back(*element);
  }
  return all;
}

std::optional<Fields> Fields::object(std::string_view key) {
  const auto value = raw(key);
  if (!value) return std::nullopt;
  if (is_json_object(*value)) return Fields(*value, path(key) + ".", refusal_);
  refuse(key, fmt::format("is {}: it must be an object", shown(*value)));
  return std::nullopt;
}

Fields Fields::element(std::string_view text, const std::string& name) {
  if (!is_json_object(text)) refuse(name, fmt::format("is {}: it must be an object", shown(text)));
  return {is_json_object(text) ? text : "{}", path(name) + ".", refusal_};
}

}  // namespace ballast::serve
