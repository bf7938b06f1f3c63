#include "ballast/text/constraint/schema_document.h"

#include <fmt/format.h>

#include <algorithm>

namespace ballast {

namespace {

constexpr size_t kLargestSchema = size_t{256} << 10U;
constexpr size_t kDeepestSchema = 64;
constexpr size_t kMostSchemaValues = 50'000;

std::string pointer_name(std::string_view key) {
  std::string name;
  for (const char c : key) {
    if (c == '~') name += "~0";
    else if (c == '/') name += "~1";
    else name += c;
  }
  return name;
}

// A reference is part of an address, in which some characters are written as %20.
std::string without_percents(std::string_view text) {
  const auto digit = [](char c) {
    return c >= '0' && c <= '9'   ? c - '0'
           : c >= 'a' && c <= 'f' ? c - 'a' + 10
           : c >= 'A' && c <= 'F' ? c - 'A' + 10
                                  : -1;
  };
  std::string plain;
  for (size_t i = 0; i < text.size(); ++i) {
    if (text[i] == '%' && i + 2 < text.size() && digit(text[i + 1]) >= 0 && digit(text[i + 2]) >= 0) {
      plain += static_cast<char>(digit(text[i + 1]) * 16 + digit(text[i + 2]));
      i += 2;
    } else {
      plain += text[i];
    }
  }
  return plain;
}

}  // namespace

Result<SchemaDocument> SchemaDocument::parse(std::string_view text) {
  if (text.size() > kLargestSchema) {
    return make_error(ErrorCode::kInvalidArgument,
                      fmt::format("schema: {} bytes, and at most {} are supported", text.size(), kLargestSchema));
  }
  SchemaDocument document;
  JsonReader json(text, "schema");
  const auto read_whole = [&]() -> Status {
    BALLAST_CHECK(document.read(json, kRoot, "", 0));
    return json.finish();
  };
  Status status = read_whole();
  if (status) return document;
  // A schema is what the caller asks for: where its JSON is wrong, that is a mistake and no damaged file.
  Error error = std::move(status).error();
  if (error.code == ErrorCode::kCorrupt) error.code = ErrorCode::kInvalidArgument;
  return error;
}

Result<SchemaId> SchemaDocument::read(JsonReader& json, SchemaId parent, std::string name, size_t depth) {
  if (depth > kDeepestSchema) return json.error_here(fmt::format("nested more than {} deep", kDeepestSchema));
  if (values_.size() >= kMostSchemaValues)
    return json.error_here(fmt::format("more than {} values", kMostSchemaValues));
  const auto id = static_cast<SchemaId>(values_.size());
  values_.push_back({.parent = parent, .name = std::move(name)});
  BALLAST_TRY(const JsonType type, json.peek());
  values_[id].type = type;
  switch (type) {
    case JsonType::kObject: BALLAST_CHECK(read_members(json, id, depth)); break;
    case JsonType::kArray:
      BALLAST_CHECK(json.enter_array());
      for (;;) {
        BALLAST_TRY(const bool more, json.next_element());
        if (!more) break;
        BALLAST_TRY(const SchemaId element, read(json, id, std::to_string(values_[id].elements.size()), depth + 1));
        values_[id].elements.push_back(element);
      }
      break;
    case JsonType::kString: BALLAST_CHECK(assign(values_[id].text, json.read_string())); break;
    case JsonType::kNumber: {
      BALLAST_TRY(const std::string_view raw, json.read_raw());
      values_[id].text = raw;
      JsonReader number(raw, "schema");
      BALLAST_CHECK(assign(values_[id].number, number.read_double()));
      break;
    }
    default: BALLAST_CHECK(json.skip_value());
  }
  return id;
}

Status SchemaDocument::read_members(JsonReader& json, SchemaId object, size_t depth) {
  BALLAST_CHECK(json.enter_object());
  std::string key;
  for (;;) {
    BALLAST_TRY(const bool more, json.next_key(key));
    if (!more) break;
    BALLAST_TRY(const SchemaId member, read(json, object, pointer_name(key), depth + 1));
    values_[object].members.emplace_back(key, member);
  }
  // Of two with one name the last counts.
  auto& members = values_[object].members;
  std::vector<size_t> order(members.size());
  for (size_t i = 0; i < order.size(); ++i) order[i] = i;
  std::ranges::stable_sort(order, {}, [&](size_t i) -> const std::string& { return members[i].first; });
  std::vector<bool> is_replaced(members.size());
  for (size_t i = 0; i + 1 < order.size(); ++i)
    is_replaced[order[i]] = members[order[i]].first == members[order[i + 1]].first;
  size_t at = 0;
  std::erase_if(members, [&](const auto&) { return is_replaced[at++]; });
  return {};
}

std::optional<SchemaId> SchemaDocument::find(SchemaId object, std::string_view key) const {
  for (const auto& [name, member] : values_[object].members) {
    if (name == key) return member;
  }
  return std::nullopt;
}

std::optional<SchemaId> SchemaDocument::resolve(std::string_view reference) const {
  if (!reference.starts_with('#')) return std::nullopt;
  const std::string path = without_percents(reference.substr(1));
  SchemaId at = kRoot;
  for (size_t begin = 0; begin < path.size();) {
    if (path[begin] != '/') return std::nullopt;
    const size_t end = std::min(path.find('/', begin + 1), path.size());
    const std::string_view name = std::string_view(path).substr(begin + 1, end - begin - 1);
    std::optional<SchemaId> next;
    for (const auto& [key, member] : values_[at].members) {
      if (values_[member].name == name) next = member;
    }
    for (const SchemaId element : values_[at].elements) {
      if (values_[element].name == name) next = element;
    }
    if (!next) return std::nullopt;
    at = *next;
    begin = end;
  }
  return at;
}

std::string SchemaDocument::pointer(SchemaId id) const {
  std::string path;
  for (; id != kRoot; id = values_[id].parent) path = "/" + values_[id].name + path;
  return path;
}

void SchemaDocument::write(SchemaId id, JsonWriter& json) const {
  const Value& value = values_[id];
  switch (value.type) {
    case JsonType::kObject:
      json.begin_object();
      for (const auto& [name, member] : value.members) {
        json.key(name);
        write(member, json);
      }
      json.end_object();
      return;
    case JsonType::kArray:
      json.begin_array();
      for (const SchemaId element : value.elements) write(element, json);
      json.end_array();
      return;
    case JsonType::kString: json.string(value.text); return;
    case JsonType::kNumber: json.raw(value.text); return;
    case JsonType::kTrue: json.boolean(true); return;
    case JsonType::kFalse: json.boolean(false); return;
    case JsonType::kNull: json.null(); return;
  }
}

std::string SchemaDocument::to_json(SchemaId id) const {
  JsonWriter json;
  write(id, json);
  return json.take();
}

bool SchemaDocument::equal(SchemaId a, SchemaId b) const {
  const Value &left = values_[a], &right = values_[b];
  if (left.type != right.type) return false;
  if (left.type == JsonType::kNumber) return left.number == right.number;
  if (left.text != right.text || left.members.size() != right.members.size()) return false;
  for (const auto& [name, member] : left.members) {
    const auto other = find(b, name);
    if (!other || !equal(member, *other)) return false;
  }
  return std::ranges::equal(left.elements, right.elements, [&](SchemaId x, SchemaId y) { return equal(x, y); });
}

Error SchemaDocument::error(SchemaId at, std::string_view keyword, std::string_view what, ErrorCode code) const {
  const std::string place = pointer(at) + (keyword.empty() ? "" : fmt::format("/{}", keyword));
  return make_error(code, fmt::format("schema: {}: {}", place.empty() ? "the whole" : place, what));
}

}  // namespace ballast
