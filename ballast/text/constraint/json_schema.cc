#include "ballast/text/constraint/json_schema.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "ballast/text/constraint/grammar.h"
#include "ballast/text/constraint/schema_compiler.h"

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
constexpr std::string_view kStringKeywords[] = {"minLength", "maxLength", "pattern", "format"};
constexpr std::string_view kNumberKeywords[] = {"minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum"};
constexpr std::string_view kCombiningKeywords[] = {"anyOf", "oneOf", "allOf", "$ref"};
constexpr std::string_view kValueKeywords[] = {"enum", "const"};
constexpr std::string_view kTypeKeywords[] = {"type"};

constexpr size_t kLongestReferenceChain = 64;
// What is not known by then counts as unknown.
constexpr uint64_t kMostSchemaComparisons = 1'000'000;

}  // namespace

Result<std::shared_ptr<const Grammar>> compile_json_schema(std::string_view schema) {
  BALLAST_TRY(const SchemaDocument document, SchemaDocument::parse(schema));
  return SchemaCompiler(document).compile();
}

Result<std::shared_ptr<const Grammar>> SchemaCompiler::compile() {
  const RuleId root = draft_.add_rule("the schema");
  BALLAST_TRY(const ExprId whole, schema(SchemaDocument::kRoot));
  draft_.define(root, draft_.sequence({json_.space(), whole}));
  while (!undefined_.empty()) {
    const SchemaId id = undefined_.back();
    undefined_.pop_back();
    BALLAST_TRY(const ExprId expr, schema(id));
    draft_.define(rules_.at(id), expr);
  }
  return draft_.compile(root, "schema");
}

// ---------------------------------------------------------------- keywords

// Some of them say nothing with the value they have.
Status SchemaCompiler::check_keywords(SchemaId id) const {
  for (const std::string_view keyword : kRefusedKeywords) {
    const auto found = document_.find(id, keyword);
    if (!found) continue;
    const auto& value = document_[*found];
    const bool is_harmless = (keyword == "uniqueItems" && value.type == JsonType::kFalse) ||
                             (keyword == "minProperties" && value.type == JsonType::kNumber && value.number == 0);
    if (is_harmless) continue;
    return document_.error(id, keyword, fmt::format("the keyword \"{}\" is not supported", keyword),
                           ErrorCode::kUnsupported);
  }
  return {};
}

Status SchemaCompiler::refuse(SchemaId id, Keywords keywords, std::string_view beside) const {
  for (const std::string_view keyword : keywords) {
    if (!document_.find(id, keyword)) continue;
    return document_.error(id, keyword, fmt::format("\"{}\" beside \"{}\" is not supported", keyword, beside),
                           ErrorCode::kUnsupported);
  }
  return {};
}

bool SchemaCompiler::has_any(SchemaId id, Keywords keywords) const {
  return std::ranges::any_of(keywords,
                             [&](std::string_view keyword) { return document_.find(id, keyword).has_value(); });
}

Result<std::optional<double>> SchemaCompiler::find_number(SchemaId id, std::string_view keyword) const {
  const auto found = document_.find(id, keyword);
  if (!found) return std::optional<double>();
  if (document_[*found].type != JsonType::kNumber) return document_.error(id, keyword, "it must be a number");
  return std::optional(document_[*found].number);
}

Result<std::optional<uint64_t>> SchemaCompiler::find_count(SchemaId id, std::string_view keyword) const {
  BALLAST_TRY(const auto number, find_number(id, keyword));
  if (!number) return std::optional<uint64_t>();
  constexpr double kMost = 1e9;
  if (!(*number >= 0 && *number <= kMost) || *number != static_cast<double>(static_cast<uint64_t>(*number))) {
    return document_.error(id, keyword, "it must be a whole number from 0 to 1000000000");
  }
  return std::optional(static_cast<uint64_t>(*number));
}

Result<std::optional<SchemaId>> SchemaCompiler::find_list(SchemaId id, std::string_view keyword) const {
  const auto found = document_.find(id, keyword);
  if (found && document_[*found].type != JsonType::kArray) return document_.error(id, keyword, "it must be a list");
  return found;
}

bool SchemaCompiler::is_true(SchemaId id, std::string_view keyword) const {
  const auto found = document_.find(id, keyword);
  return found && document_[*found].type == JsonType::kTrue;
}

// ---------------------------------------------------------------- any schema

Result<ExprId> SchemaCompiler::schema(SchemaId id) {
  switch (document_[id].type) {
    case JsonType::kTrue: return json_.any_value();
    case JsonType::kFalse: return document_.error(id, "", "the schema is false, so no value is valid");
    case JsonType::kObject: break;
    default: return document_.error(id, "", "a schema must be an object, true or false");
  }
  BALLAST_TRY(const ExprId expr, schema_object(id));
  return is_true(id, "nullable") ? draft_.choice({expr, draft_.text("null")}) : expr;
}

Result<ExprId> SchemaCompiler::schema_object(SchemaId id) {
  BALLAST_CHECK(check_keywords(id));
  if (const auto target = document_.find(id, "$ref")) return reference(id, *target);
  if (has_any(id, kValueKeywords)) return literals(id);
  for (const std::string_view keyword : {"anyOf", "oneOf"}) {
    if (document_.find(id, keyword)) return any_of(id, keyword);
  }
  BALLAST_TRY(const auto branches, find_list(id, "allOf"));
  return branches ? all_of(id, *branches) : typed(id);
}

Result<ExprId> SchemaCompiler::reference(SchemaId id, SchemaId target) {
  for (const Keywords keywords :
       {Keywords(kObjectKeywords), Keywords(kArrayKeywords), Keywords(kStringKeywords), Keywords(kNumberKeywords),
        Keywords(kValueKeywords), Keywords(kTypeKeywords), Keywords(kCombiningKeywords).first(3)}) {
    BALLAST_CHECK(refuse(id, keywords, "$ref"));
  }
  if (document_[target].type != JsonType::kString) return document_.error(id, "$ref", "it must be a text");
  const std::string& address = document_[target].text;
  const auto found = document_.resolve(address);
  if (!found) {
    return document_.error(id, "$ref",
                           fmt::format("\"{}\" is not in this schema; references to other documents and to "
                                       "anchors are not supported",
                                       address),
                           ErrorCode::kUnsupported);
  }
  BALLAST_TRY(const RuleId rule, rule_of(*found));
  return draft_.call(rule);
}

Result<RuleId> SchemaCompiler::rule_of(SchemaId id) {
  const auto known = rules_.find(id);
  if (known != rules_.end()) return known->second;
  const std::string pointer = document_.pointer(id);
  const RuleId rule = draft_.add_rule(pointer.empty() ? "the whole" : pointer);
  rules_.emplace(id, rule);
  undefined_.push_back(id);
  return rule;
}

// The values of enum or const that the type allows.
Result<ExprId> SchemaCompiler::literals(SchemaId id) {
  for (const Keywords keywords : {Keywords(kObjectKeywords), Keywords(kArrayKeywords), Keywords(kStringKeywords),
                                  Keywords(kNumberKeywords), Keywords(kCombiningKeywords)}) {
    BALLAST_CHECK(refuse(id, keywords, document_.find(id, "enum") ? "enum" : "const"));
  }
  BALLAST_CHECK(find_list(id, "enum"));
  BALLAST_TRY(const std::vector<std::string> allowed, types(id));
  std::vector<std::string> texts;
  for (const SchemaId value : possible_values(id).value_or(std::vector<SchemaId>())) {
    const auto& found = document_[value];
    const bool is_whole =
        found.type == JsonType::kNumber &&
        found.number == static_cast<double>(static_cast<int64_t>(std::clamp(found.number, -9e18, 9e18)));
    const auto fits = [&](const std::string& type) {
      switch (found.type) {
        case JsonType::kObject: return type == "object";
        case JsonType::kArray: return type == "array";
        case JsonType::kString: return type == "string";
        case JsonType::kNumber: return type == "number" || (type == "integer" && is_whole);
        case JsonType::kTrue:
        case JsonType::kFalse: return type == "boolean";
        case JsonType::kNull: return type == "null";
      }
      return false;
    };
    if (allowed.empty() || std::ranges::any_of(allowed, fits)) texts.push_back(document_.to_json(value));
  }
  if (!texts.empty()) return draft_.texts(std::move(texts));
  return document_.error(id, "", "no value of \"enum\" or \"const\" is valid");
}

// ---------------------------------------------------------------- several schemas

Result<ExprId> SchemaCompiler::any_of(SchemaId id, std::string_view keyword) {
  for (const Keywords keywords :
       {Keywords(kObjectKeywords), Keywords(kArrayKeywords), Keywords(kStringKeywords), Keywords(kNumberKeywords)}) {
    BALLAST_CHECK(refuse(id, keywords, keyword));
  }
  constexpr std::string_view kOthers[] = {"oneOf", "allOf"};
  BALLAST_CHECK(refuse(id, Keywords(kOthers).subspan(keyword == "oneOf" ? 1 : 0), keyword));
  BALLAST_TRY(const auto list, find_list(id, keyword));
  const std::vector<SchemaId>& branches = document_[*list].elements;
  if (branches.empty()) return document_.error(id, keyword, "it must not be empty");
  unsigned allowed = kAll;
  BALLAST_TRY(const auto own_types, types(id));
  if (!own_types.empty()) allowed = possible_types(id, 0);
  std::vector<ExprId> ways;
  for (size_t i = 0; i < branches.size(); ++i) {
    if (is_false(branches[i])) continue;
    if ((possible_types(branches[i], 0) & ~allowed) != 0 ||
        std::ranges::find(own_types, "integer") != own_types.end()) {
      return document_.error(id, "type",
                             fmt::format("\"type\" beside \"{}\" is not supported unless each of the "
                                         "schemas has it too",
                                         keyword),
                             ErrorCode::kUnsupported);
    }
    for (size_t other = 0; keyword == "oneOf" && other < i; ++other) {
      if (is_false(branches[other]) || are_disjoint(branches[i], branches[other])) continue;
      return document_.error(
          id, keyword,
          fmt::format("the schemas {} and {} may accept the same value, which \"oneOf\" forbids; give them different "
                      "types, or a required property with different \"const\", or use \"anyOf\"",
                      other, i),
          ErrorCode::kUnsupported);
    }
    BALLAST_TRY(const ExprId way, schema(branches[i]));
    ways.push_back(way);
  }
  return draft_.choice(std::move(ways));
}

Result<ExprId> SchemaCompiler::all_of(SchemaId id, SchemaId list) {
  for (const Keywords keywords : {Keywords(kArrayKeywords), Keywords(kStringKeywords), Keywords(kNumberKeywords)}) {
    BALLAST_CHECK(refuse(id, keywords, "allOf"));
  }
  const std::vector<SchemaId>& branches = document_[list].elements;
  if (branches.empty()) return document_.error(id, "allOf", "it must not be empty");
  const bool is_alone = !has_any(id, kObjectKeywords) && !has_any(id, kTypeKeywords);
  if (branches.size() == 1 && is_alone) return schema(branches[0]);
  ObjectParts parts;
  if (!is_alone) BALLAST_CHECK(add_object_parts(id, parts));
  for (const SchemaId branch : branches) BALLAST_CHECK(add_object_parts(follow(branch), parts));
  BALLAST_CHECK(settle_required(id, parts));
  return object(id, parts);
}

SchemaId SchemaCompiler::follow(SchemaId id) const {
  for (size_t i = 0; i < kLongestReferenceChain; ++i) {
    const auto reference = document_.find(id, "$ref");
    const auto target = reference ? document_.resolve(document_[*reference].text) : std::nullopt;
    if (!target) return id;
    id = *target;
  }
  return id;
}

// ---------------------------------------------------------------- what tells schemas apart

unsigned SchemaCompiler::possible_types(SchemaId id, size_t depth) const {
  if (depth > kLongestReferenceChain || ++comparisons_ > kMostSchemaComparisons) return kAll;
  if (document_[id].type == JsonType::kTrue) return kAll;
  if (document_[id].type == JsonType::kFalse) return 0;
  id = follow(id);
  const unsigned null = is_true(id, "nullable") ? unsigned{kNull} : 0U;
  if (const auto values = possible_values(id)) {
    unsigned found = null;
    for (const SchemaId value : *values) {
      constexpr unsigned kBits[] = {kObject, kArray, kString, kNumber, kBoolean, kBoolean, kNull};
      found |= kBits[static_cast<size_t>(document_[value].type)];
    }
    return found;
  }
  constexpr std::pair<std::string_view, unsigned> kNames[] = {
      {"object", kObject},  {"array", kArray},     {"string", kString}, {"number", kNumber},
      {"integer", kNumber}, {"boolean", kBoolean}, {"null", kNull}};
  const auto named = types(id);
  if (named && !named->empty()) {
    unsigned found = null;
    for (const std::string& type : *named)
      found |= std::ranges::find(kNames, type, &std::pair<std::string_view, unsigned>::first)->second;
    return found;
  }
  for (const std::string_view keyword : {"anyOf", "oneOf"}) {
    const auto branches = document_.find(id, keyword);
    if (!branches) continue;
    unsigned found = null;
    for (const SchemaId branch : document_[*branches].elements) found |= possible_types(branch, depth + 1);
    return found;
  }
  return kAll;
}

std::optional<std::vector<SchemaId>> SchemaCompiler::possible_values(SchemaId id) const {
  id = follow(id);
  const auto list = document_.find(id, "enum"), single = document_.find(id, "const");
  if (!list && !single) return std::nullopt;
  if (!list) return std::vector<SchemaId>{*single};
  std::vector<SchemaId> values = document_[*list].elements;
  if (single) std::erase_if(values, [&](SchemaId value) { return !document_.equal(value, *single); });
  return values;
}

bool SchemaCompiler::are_disjoint(SchemaId a, SchemaId b) const {
  a = follow(a);
  b = follow(b);
  const unsigned common = possible_types(a, 0) & possible_types(b, 0);
  if (common == 0) return true;
  const auto no_common_value = [&](SchemaId x, SchemaId y) {
    const auto left = possible_values(x), right = possible_values(y);
    if (!left || !right || is_true(x, "nullable") || is_true(y, "nullable")) return false;
    return std::ranges::none_of(*left, [&](SchemaId value) {
      return std::ranges::any_of(*right, [&](SchemaId other) {
        return ++comparisons_ > kMostSchemaComparisons || document_.equal(value, other);
      });
    });
  };
  if (no_common_value(a, b)) return true;
  if (common != kObject) return false;
  const auto requires_name = [&](SchemaId id, std::string_view name) {
    const auto list = document_.find(id, "required");
    return list && std::ranges::any_of(document_[*list].elements, [&](SchemaId element) {
             return document_[element].type == JsonType::kString && document_[element].text == name;
           });
  };
  const auto left = document_.find(a, "properties"), right = document_.find(b, "properties");
  if (!left || !right) return false;
  return std::ranges::any_of(document_[*left].members, [&](const auto& member) {
    const auto other = document_.find(*right, member.first);
    return other && requires_name(a, member.first) && requires_name(b, member.first) &&
           no_common_value(member.second, *other);
  });
}

// ---------------------------------------------------------------- types

Result<std::vector<std::string>> SchemaCompiler::types(SchemaId id) const {
  const auto found = document_.find(id, "type");
  if (!found) return std::vector<std::string>();
  std::vector<SchemaId> names = {*found};
  if (document_[*found].type == JsonType::kArray) names = document_[*found].elements;
  constexpr std::string_view kKnown[] = {"object", "array", "string", "number", "integer", "boolean", "null"};
  std::vector<std::string> list;
  for (const SchemaId name : names) {
    const auto& value = document_[name];
    if (value.type != JsonType::kString || std::ranges::find(kKnown, value.text) == std::end(kKnown)) {
      return document_.error(id, "type",
                             fmt::format("{} is no type; types are object, array, string, number, integer, "
                                         "boolean and null",
                                         document_.to_json(name)));
    }
    if (std::ranges::find(list, value.text) == list.end()) list.push_back(value.text);
  }
  if (list.empty()) return document_.error(id, "type", "it must not be empty");
  return list;
}

// Where a schema names no type, keywords that only matter to one say which is meant.
Result<ExprId> SchemaCompiler::typed(SchemaId id) {
  BALLAST_TRY(std::vector<std::string> list, types(id));
  if (list.empty()) {
    if (has_any(id, kObjectKeywords)) list.emplace_back("object");
    if (has_any(id, kArrayKeywords)) list.emplace_back("array");
    if (has_any(id, kStringKeywords)) list.emplace_back("string");
    if (has_any(id, kNumberKeywords)) list.emplace_back("number");
  }
  if (list.empty()) return json_.any_value();
  // A whole number is a number: both at once would match each in two ways.
  if (std::ranges::find(list, "number") != list.end()) std::erase(list, "integer");
  std::vector<ExprId> ways;
  for (const std::string& type : list) {
    BALLAST_TRY(const ExprId way, of_type(id, type));
    ways.push_back(way);
  }
  return draft_.choice(std::move(ways));
}

Result<ExprId> SchemaCompiler::of_type(SchemaId id, std::string_view type) {
  if (type == "object") {
    ObjectParts parts;
    BALLAST_CHECK(add_object_parts(id, parts));
    BALLAST_CHECK(settle_required(id, parts));
    return object(id, parts);
  }
  if (type == "array") return array(id);
  if (type == "string") return string(id);
  if (type == "boolean") return draft_.texts({"false", "true"});
  if (type == "null") return draft_.text("null");
  return number(id, type == "integer");
}

}  // namespace ballast
