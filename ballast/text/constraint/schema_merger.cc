#include "ballast/text/constraint/schema_merger.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

namespace ballast {

namespace {

// They change what is valid, and no grammar of ours says it.
constexpr std::string_view kRefusedKeywords[] = {"not",
                                                 "if",
                                                 "then",
                                                 "else",
                                                 "dependentRequired",
                                                 "dependentSchemas",
                                                 "dependencies",
                                                 "propertyNames",
                                                 "patternProperties",
                                                 "minProperties",
                                                 "maxProperties",
                                                 "unevaluatedItems",
                                                 "contains",
                                                 "minContains",
                                                 "maxContains",
                                                 "uniqueItems",
                                                 "multipleOf",
                                                 "$dynamicRef",
                                                 "$recursiveRef",
                                                 "disallow",
                                                 "extends",
                                                 "divisibleBy",
                                                 "unevaluatedProperties"};
constexpr std::string_view kObjectKeywords[] = {"properties", "required", "additionalProperties"};
constexpr std::string_view kArrayKeywords[] = {"items", "prefixItems", "additionalItems", "minItems", "maxItems"};
constexpr std::string_view kLengthKeywords[] = {"minLength", "maxLength"};
constexpr std::string_view kTextKeywords[] = {"pattern", "format"};
constexpr std::string_view kNumberKeywords[] = {"minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum"};
constexpr std::string_view kValueKeywords[] = {"enum", "const"};
constexpr std::string_view kTypeKeywords[] = {"type"};

constexpr std::pair<std::string_view, unsigned> kTypeNames[] = {
    {"object", ValueTypes::kObject}, {"array", ValueTypes::kArray},     {"string", ValueTypes::kString},
    {"number", ValueTypes::kNumber}, {"integer", ValueTypes::kInteger}, {"boolean", ValueTypes::kBoolean},
    {"null", ValueTypes::kNull}};

constexpr size_t kLongestReferenceChain = 512;
// How deep is looked for a contradiction, which may be in a property of a property.
constexpr size_t kDeepestContradiction = 32;
constexpr size_t kMostRemembered = 300'000;  // schemas in combinations
constexpr uint64_t kMostMergeSteps = 4'000'000;

}  // namespace

bool SchemaMerger::spend(uint64_t steps) {
  steps_ = std::min(steps_ + steps, kMostMergeSteps);
  return steps_ < kMostMergeSteps;
}

uint64_t SchemaMerger::cost_of_comparing(SchemaId list, SchemaId value) const {
  uint64_t cost = 0;
  for (const SchemaId one : document_[list].elements) {
    cost += 1 + document_[one].members.size() * document_[value].members.size() / 8;
  }
  return cost;
}

Error SchemaMerger::too_much(SchemaId at) const {
  return document_.error(at, "", "schemas that apply together, or exclude each other, are too many to compare",
                         ErrorCode::kUnsupported);
}

// ---------------------------------------------------------------- which schemas apply

Result<MergedSchema> SchemaMerger::merge(MergedSchema base, std::span<const SchemaId> schemas) {
  Walk walk;
  walk.seen.insert(base.plain.begin(), base.plain.end());
  if (!spend(1 + base.plain.size() + base.choices.size()))
    return too_much(schemas.empty() ? SchemaDocument::kRoot : schemas.front());
  for (const SchemaId id : schemas) BALLAST_CHECK(add(id, walk, base));
  return base;
}

Status SchemaMerger::add(SchemaId id, Walk& walk, MergedSchema& merged) {
  if (document_[id].type == JsonType::kTrue) return {};
  if (document_[id].type == JsonType::kFalse) {
    merged.refusal = id;
    return {};
  }
  if (document_[id].type != JsonType::kObject) {
    return document_.error(id, "", "a schema must be an object, true or false");
  }
  if (std::ranges::find(walk.path, id) != walk.path.end()) {
    return document_.error(walk.path.back(), "", "the schema leads back to itself, so it says nothing about a value");
  }
  if (walk.path.size() >= kLongestReferenceChain) {
    return document_.error(id, "", fmt::format("more than {} schemas lead to it", kLongestReferenceChain));
  }
  if (!spend(cost_of(id))) return too_much(id);
  if (!walk.seen.insert(id).second) return {};
  BALLAST_TRY(const bool has_keywords, is_plain(id));
  if (has_keywords) merged.plain.push_back(id);
  walk.path.push_back(id);
  BALLAST_CHECK(add_combined(id, walk, merged));
  walk.path.pop_back();
  return {};
}

Status SchemaMerger::add_combined(SchemaId id, Walk& walk, MergedSchema& merged) {
  if (const auto reference = document_.find(id, "$ref")) {
    BALLAST_TRY(const SchemaId target, target_of(id, *reference));
    merged.has_reference = true;
    BALLAST_CHECK(add(target, walk, merged));
  }
  for (const std::string_view keyword : {"allOf", "anyOf", "oneOf"}) {
    BALLAST_TRY(const auto list, find_list(id, keyword));
    if (!list) continue;
    if (document_[*list].elements.empty()) return document_.error(id, keyword, "it must not be empty");
    if (keyword != "allOf") {
      merged.choices.push_back(*list);
      continue;
    }
    for (const SchemaId branch : document_[*list].elements) BALLAST_CHECK(add(branch, walk, merged));
  }
  return {};
}

// Annotations alone say nothing about values.
Result<bool> SchemaMerger::is_plain(SchemaId id) {
  const auto known = known_.find(id);
  if (known != known_.end()) return known->second;
  BALLAST_CHECK(check_keywords(id));
  bool has_keywords = false;
  for (const Keywords keywords :
       {Keywords(kObjectKeywords), Keywords(kArrayKeywords), Keywords(kLengthKeywords), Keywords(kTextKeywords),
        Keywords(kNumberKeywords), Keywords(kValueKeywords), Keywords(kTypeKeywords)}) {
    has_keywords = has_keywords || has_any(id, keywords);
  }
  known_.emplace(id, has_keywords);
  return has_keywords;
}

Result<SchemaId> SchemaMerger::target_of(SchemaId id, SchemaId reference) const {
  if (document_[reference].type != JsonType::kString) return document_.error(id, "$ref", "it must be a text");
  for (SchemaId at = id; at != SchemaDocument::kRoot; at = document_[at].parent) {
    const auto own_name = document_.find(at, "$id");
    if (!own_name || document_[*own_name].type != JsonType::kString) continue;
    return document_.error(id, "$ref", "a reference below an \"$id\" is not supported: it leads to another document",
                           ErrorCode::kUnsupported);
  }
  const std::string& address = document_[reference].text;
  if (const auto found = document_.resolve(address)) return *found;
  return document_.error(id, "$ref",
                         fmt::format("\"{}\" is not in this schema; references to other documents and to anchors are "
                                     "not supported",
                                     address),
                         ErrorCode::kUnsupported);
}

// Some of them say nothing with the value they have.
Status SchemaMerger::check_keywords(SchemaId id) const {
  for (const std::string_view keyword : kRefusedKeywords) {
    const auto found = document_.find(id, keyword);
    if (!found) continue;
    const auto& value = document_[*found];
    const bool is_harmless = (keyword == "uniqueItems" && value.type == JsonType::kFalse) ||
                             (keyword == "minProperties" && value.type == JsonType::kNumber && value.number == 0) ||
                             (keyword.starts_with("unevaluated") && value.type == JsonType::kTrue);
    if (is_harmless) continue;
    return document_.error(id, keyword, fmt::format("the keyword \"{}\" is not supported", keyword),
                           ErrorCode::kUnsupported);
  }
  return {};
}

// ---------------------------------------------------------------- contradictions

// While a schema that contains itself is looked at, it counts as possible.
bool SchemaMerger::is_nothing(const MergedSchema& merged, size_t depth) {
  if (merged.refusal) return true;
  if (merged.is_anything() || depth > kDeepestContradiction) return false;
  const auto key = std::pair(merged.plain, merged.choices);
  const auto known = contradictions_.find(key);
  if (known != contradictions_.end()) return known->second;
  for (const SchemaId id : merged.plain) spend(cost_of(id));
  if (!spend(1)) return false;
  remembered_ += merged.plain.size() + merged.choices.size();
  const bool is_remembered = remembered_ < kMostRemembered;
  if (is_remembered) contradictions_.emplace(key, false);
  const bool is_found = contradicts_itself(merged, depth);
  if (is_remembered) contradictions_[key] = is_found;
  return is_found;
}

bool SchemaMerger::contradicts_itself(const MergedSchema& merged, size_t depth) {
  if (!merged.plain.empty() && possible_types(merged, depth) == 0) return true;
  if (merged.choices.empty()) return false;
  MergedSchema rest = merged;
  const SchemaId list = rest.choices.back();
  rest.choices.pop_back();
  return std::ranges::all_of(document_[list].elements, [&](SchemaId branch) {
    const auto with_branch = merge(rest, std::span(&branch, 1));
    return with_branch && is_nothing(*with_branch, depth + 1);
  });
}

// What is an error is possible: it is reported where the type is written.
unsigned SchemaMerger::possible_types(const MergedSchema& merged, size_t depth) {
  const auto named = named_types(merged);
  unsigned possible = named ? *named : unsigned{ValueTypes::kAll};
  if (const auto found = values(merged); found && *found) {
    unsigned of_values = 0;
    for (const SchemaId value : **found) of_values |= type_of_value(value);
    return possible & of_values;
  }
  const auto numbers = number(merged, (possible & ValueTypes::kFraction) == 0);
  if (numbers && numbers->is_nothing()) possible &= ~unsigned{ValueTypes::kNumber};
  const auto strings = string(merged);
  if (strings && strings->least > strings->most) possible &= ~unsigned{ValueTypes::kString};
  if ((possible & ValueTypes::kArray) != 0) {
    const auto arrays = array(merged, depth + 1);
    if (arrays && arrays->least > arrays->most) possible &= ~unsigned{ValueTypes::kArray};
  }
  if ((possible & ValueTypes::kObject) != 0 && !is_object_possible(merged, depth)) {
    possible &= ~unsigned{ValueTypes::kObject};
  }
  return possible;
}

bool SchemaMerger::is_object_possible(const MergedSchema& merged, size_t depth) {
  const auto parts = object(merged);
  return !parts || std::ranges::none_of(parts->properties, [&](const ObjectParts::Property& property) {
    if (!property.is_required) return false;
    const auto value = merge(property.schemas);
    return value && is_nothing(*value, depth + 1);
  });
}

// ---------------------------------------------------------------- enum and const

Result<std::optional<std::vector<SchemaId>>> SchemaMerger::values(const MergedSchema& merged) {
  const auto first = std::ranges::find_if(merged.plain, [&](SchemaId id) { return has_any(id, kValueKeywords); });
  if (first == merged.plain.end()) return std::optional<std::vector<SchemaId>>();
  BALLAST_TRY(const auto list, find_list(*first, "enum"));
  std::vector<SchemaId> all;
  if (list) all = document_[*list].elements;
  else all.push_back(*document_.find(*first, "const"));
  std::vector<SchemaId> valid;
  for (const SchemaId value : all) {
    bool is_valid = true;
    for (size_t i = 0; i < merged.plain.size() && is_valid; ++i) {
      BALLAST_CHECK(assign(is_valid, accepts_literal(merged.plain[i], value)));
    }
    if (is_valid) valid.push_back(value);
  }
  return std::optional(std::move(valid));
}

Result<bool> SchemaMerger::accepts_literal(SchemaId id, SchemaId value) {
  if (!spend(cost_of(id))) return too_much(id);
  const unsigned type = type_of_value(value);
  BALLAST_TRY(const unsigned allowed, own_types(id));
  if ((allowed & type) == 0) return false;
  BALLAST_TRY(const bool is_one, is_listed(id, value));
  if (!is_one) return false;
  if (type == ValueTypes::kObject) BALLAST_CHECK(refuse_beside_literals(id, kObjectKeywords));
  if (type == ValueTypes::kArray) BALLAST_CHECK(refuse_beside_literals(id, kArrayKeywords));
  if (type == ValueTypes::kString) return accepts_text(id, document_[value].text);
  if ((type & ValueTypes::kNumber) != 0) return accepts_number(id, document_[value].number);
  return true;
}

Result<bool> SchemaMerger::accepts_text(SchemaId id, std::string_view text) const {
  BALLAST_CHECK(refuse_beside_literals(id, kTextKeywords));
  BALLAST_TRY(const auto limits, find_limits({.plain = {id}}, "minLength", "maxLength"));
  const auto length = std::ranges::count_if(text, [](char c) { return (static_cast<uint8_t>(c) & 0xC0U) != 0x80; });
  return length >= limits.first && length <= limits.second;
}

Result<bool> SchemaMerger::accepts_number(SchemaId id, double number) const {
  BALLAST_TRY(const auto least, find_number(id, "minimum"));
  BALLAST_TRY(const auto most, find_number(id, "maximum"));
  BALLAST_TRY(const auto above, find_number(id, "exclusiveMinimum"));
  BALLAST_TRY(const auto below, find_number(id, "exclusiveMaximum"));
  return (!least || number >= *least) && (!most || number <= *most) && (!above || number > *above) &&
         (!below || number < *below);
}

Result<bool> SchemaMerger::is_listed(SchemaId id, SchemaId value) {
  const auto single = document_.find(id, "const");
  if (single && !document_.equal(*single, value)) return false;
  BALLAST_TRY(const auto list, find_list(id, "enum"));
  if (!list || document_[value].parent == *list) return true;
  if (!spend(cost_of_comparing(*list, value))) return too_much(id);
  return std::ranges::any_of(document_[*list].elements, [&](SchemaId one) { return document_.equal(one, value); });
}

Status SchemaMerger::refuse_beside_literals(SchemaId id, Keywords keywords) const {
  for (const std::string_view keyword : keywords) {
    if (!document_.find(id, keyword)) continue;
    return document_.error(id, keyword, fmt::format("\"{}\" beside \"enum\" or \"const\" is not supported", keyword),
                           ErrorCode::kUnsupported);
  }
  return {};
}

unsigned SchemaMerger::type_of_value(SchemaId value) const {
  const auto& found = document_[value];
  switch (found.type) {
    case JsonType::kObject: return ValueTypes::kObject;
    case JsonType::kArray: return ValueTypes::kArray;
    case JsonType::kString: return ValueTypes::kString;
    case JsonType::kNumber:
      return std::trunc(found.number) == found.number ? ValueTypes::kInteger : ValueTypes::kFraction;
    case JsonType::kTrue:
    case JsonType::kFalse: return ValueTypes::kBoolean;
    case JsonType::kNull: return ValueTypes::kNull;
  }
  return 0;
}

// ---------------------------------------------------------------- types

Result<unsigned> SchemaMerger::named_types(const MergedSchema& merged) const {
  unsigned named = ValueTypes::kAll;
  for (const SchemaId id : merged.plain) {
    BALLAST_TRY(const unsigned own, own_types(id));
    named &= own;
  }
  return named;
}

// `nullable` belongs to the type beside it, as in OpenAPI 3.0.3.
Result<unsigned> SchemaMerger::own_types(SchemaId id) const {
  const auto found = document_.find(id, "type");
  if (!found) return unsigned{ValueTypes::kAll};
  std::vector<SchemaId> names = {*found};
  if (document_[*found].type == JsonType::kArray) names = document_[*found].elements;
  if (names.empty()) return document_.error(id, "type", "it must not be empty");
  unsigned types = 0;
  for (const SchemaId name : names) {
    const auto& value = document_[name];
    const auto known = std::ranges::find(kTypeNames, value.text, &std::pair<std::string_view, unsigned>::first);
    if (value.type != JsonType::kString || known == std::end(kTypeNames)) {
      return document_.error(id, "type",
                             fmt::format("{} is no type; types are object, array, string, number, integer, boolean and "
                                         "null",
                                         document_.to_json(name)));
    }
    types |= known->second;
  }
  const auto nullable = document_.find(id, "nullable");
  return nullable && document_[*nullable].type == JsonType::kTrue ? types | ValueTypes::kNull : types;
}

Result<unsigned> SchemaMerger::types_to_write(const MergedSchema& merged) {
  BALLAST_TRY(unsigned types, named_types(merged));
  if (types == 0) {
    return document_.error(merged.place(), "", "no value is valid: schemas that apply together have different types");
  }
  if (types == ValueTypes::kAll) {
    types = 0;
    for (const SchemaId id : merged.plain) {
      if (has_any(id, kObjectKeywords)) types |= ValueTypes::kObject;
      if (has_any(id, kArrayKeywords)) types |= ValueTypes::kArray;
      if (has_any(id, kLengthKeywords) || has_any(id, kTextKeywords)) types |= ValueTypes::kString;
      if (has_any(id, kNumberKeywords)) types |= ValueTypes::kNumber;
    }
    if (types == 0) types = ValueTypes::kAll;
  }
  const unsigned possible = types & possible_types(merged, 0);
  return possible == 0 ? types : possible;
}

// ---------------------------------------------------------------- what keywords hold

bool SchemaMerger::has_any(SchemaId id, Keywords keywords) const {
  return std::ranges::any_of(keywords,
                             [&](std::string_view keyword) { return document_.find(id, keyword).has_value(); });
}

Result<std::optional<double>> SchemaMerger::find_number(SchemaId id, std::string_view keyword) const {
  const auto found = document_.find(id, keyword);
  if (!found) return std::optional<double>();
  if (document_[*found].type != JsonType::kNumber) return document_.error(id, keyword, "it must be a number");
  return std::optional(document_[*found].number);
}

Result<std::optional<uint32_t>> SchemaMerger::find_count(SchemaId id, std::string_view keyword) const {
  BALLAST_TRY(const auto number, find_number(id, keyword));
  if (!number) return std::optional<uint32_t>();
  constexpr double kMost = 1e9;
  if (!(*number >= 0 && *number <= kMost) || *number != std::trunc(*number)) {
    return document_.error(id, keyword, "it must be a whole number from 0 to 1000000000");
  }
  return std::optional(static_cast<uint32_t>(*number));
}

Result<std::optional<SchemaId>> SchemaMerger::find_list(SchemaId id, std::string_view keyword) const {
  const auto found = document_.find(id, keyword);
  if (found && document_[*found].type != JsonType::kArray) return document_.error(id, keyword, "it must be a list");
  return found;
}

Result<std::pair<uint32_t, uint32_t>> SchemaMerger::find_limits(const MergedSchema& merged, std::string_view least,
                                                                std::string_view most) const {
  std::pair<uint32_t, uint32_t> limits = {0, kUnlimited};
  for (const SchemaId id : merged.plain) {
    BALLAST_TRY(const auto low, find_count(id, least));
    BALLAST_TRY(const auto high, find_count(id, most));
    limits = {std::max(limits.first, low.value_or(0)), std::min(limits.second, high.value_or(kUnlimited))};
  }
  return limits;
}

}  // namespace ballast
