// What schemas say about the values of one type: objects, arrays, strings, numbers.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "ballast/text/constraint/number_range.h"
#include "ballast/text/constraint/regex.h"
#include "ballast/text/constraint/schema_compiler.h"

namespace ballast {

namespace {

// ---------------------------------------------------------------- formats

// Years from 1 on, with the right number of days for each month.
constexpr std::string_view kDatePattern =
    "(?:(?:000[1-9]|00[1-9]\\d|0[1-9]\\d\\d|[1-9]\\d{3})-(?:(?:0[13578]|1[02])-(?:0[1-9]|[12]\\d|3[01])|"
    "(?:0[469]|11)-(?:0[1-9]|[12]\\d|30)|02-(?:0[1-9]|1\\d|2[0-8]))|"
    "(?:\\d\\d(?:0[48]|[2468][048]|[13579][26])|(?:0[48]|[2468][048]|[13579][26])00)-02-29)";
constexpr std::string_view kTimePattern =
    "(?:[01]\\d|2[0-3]):[0-5]\\d:[0-5]\\d(?:\\.\\d{1,6})?(?:Z|[+-](?:[01]\\d|2[0-3]):[0-5]\\d)";
constexpr std::string_view kUuidPattern = "[0-9a-fA-F]{8}(?:-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}";
constexpr std::string_view kEmailPattern =
    "[A-Za-z0-9_+-]{1,24}(?:\\.[A-Za-z0-9_+-]{1,12}){0,3}@"
    "(?:[A-Za-z0-9](?:[A-Za-z0-9-]{0,22}[A-Za-z0-9])?\\.){1,4}[A-Za-z]{2,12}";
constexpr std::string_view kIpv4Pattern =
    "(?:(?:25[0-5]|2[0-4]\\d|1\\d\\d|[1-9]?\\d)\\.){3}(?:25[0-5]|2[0-4]\\d|1\\d\\d|[1-9]?\\d)";

std::optional<std::string> format_pattern(std::string_view format) {
  if (format == "date") return std::string(kDatePattern);
  if (format == "time") return std::string(kTimePattern);
  if (format == "date-time") return fmt::format("{}T{}", kDatePattern, kTimePattern);
  if (format == "uuid") return std::string(kUuidPattern);
  if (format == "email") return std::string(kEmailPattern);
  if (format == "ipv4") return std::string(kIpv4Pattern);
  return std::nullopt;
}

}  // namespace

// ---------------------------------------------------------------- objects

Status SchemaCompiler::add_object_parts(SchemaId id, ObjectParts& parts) const {
  if (document_[id].type == JsonType::kTrue) return {};
  if (document_[id].type != JsonType::kObject) return document_.error(id, "", "it must be the schema of an object");
  BALLAST_CHECK(check_keywords(id));
  const bool is_branch = !parts.properties.empty() || parts.additional || !parts.required.empty();
  const auto additional = document_.find(id, "additionalProperties");
  if (const auto properties = document_.find(id, "properties")) {
    if (document_[*properties].type != JsonType::kObject)
      return document_.error(id, "properties", "it must be an object");
    for (const auto& [name, property] : document_[*properties].members) parts.properties.emplace_back(name, property);
  }
  BALLAST_TRY(const auto required, find_list(id, "required"));
  for (const SchemaId name : required ? document_[*required].elements : std::vector<SchemaId>()) {
    if (document_[name].type != JsonType::kString) return document_.error(id, "required", "it must be a list of names");
    parts.required.insert(document_[name].text);
  }
  if ((additional && is_branch && document_[*additional].type != JsonType::kTrue) || (parts.additional && is_branch)) {
    return document_.error(id, "additionalProperties",
                           "\"additionalProperties\" in one of several schemas that apply together is not supported",
                           ErrorCode::kUnsupported);
  }
  if (additional && document_[*additional].type != JsonType::kTrue) parts.additional = additional;
  return {};
}

// Names that are required and have no schema come last, with that of additional properties.
Status SchemaCompiler::settle_required(SchemaId id, ObjectParts& parts) const {
  std::set<std::string, std::less<>> known;
  for (const auto& [name, property] : parts.properties) {
    if (!known.insert(name).second) {
      return document_.error(id, "allOf",
                             fmt::format("the property \"{}\" in two of the schemas is not supported", name),
                             ErrorCode::kUnsupported);
    }
  }
  std::erase_if(parts.properties, [&](const auto& property) {
    return is_false(property.second) && !parts.required.contains(property.first);
  });
  for (const std::string& name : parts.required) {
    if (known.contains(name)) continue;
    if (parts.additional && is_false(*parts.additional)) {
      return document_.error(id, "required",
                             fmt::format("\"{}\" is required, but no property of this name is allowed", name));
    }
    parts.properties.emplace_back(name, parts.additional.value_or(kUnlimited));
  }
  return {};
}

// Any names.
Result<ExprId> SchemaCompiler::free_object(const ObjectParts& parts) {
  if (!parts.additional) return json_.any_object();
  if (is_false(*parts.additional)) return json_.list('{', draft_.empty(), 0, 0, '}');
  BALLAST_TRY(const ExprId value, schema(*parts.additional));
  const RuleId rule = draft_.add_rule(document_.pointer(*parts.additional));
  draft_.define(rule,
                json_.list('{', draft_.sequence({json_.member_name(json_.any_string()), value}), 0, kUnlimited, '}'));
  return draft_.call(rule);
}

// A rule for what follows each property: the next ones, of which those that are not required may be left out. Each ends
// with the call of the next, which therefore needs no stack.
Result<ExprId> SchemaCompiler::object(SchemaId id, const ObjectParts& parts) {
  if (parts.properties.empty()) return free_object(parts);
  const std::string place = document_.pointer(id);
  const ExprId close = draft_.text("}"), comma = draft_.sequence({draft_.text(","), json_.space()});
  const RuleId last = draft_.add_rule(place);
  draft_.define(last, draft_.sequence({json_.space(), close}));
  RuleId behind = last;
  std::vector<ExprId> firsts;  // from the last to the first
  for (size_t i = parts.properties.size(); i-- > 0;) {
    const auto& [name, property] = parts.properties[i];
    const bool is_required = parts.required.contains(name);
    ExprId value = 0;
    if (property == kUnlimited) value = json_.any_value();
    else BALLAST_CHECK(assign(value, schema(property)));
    const ExprId rest = draft_.call(behind);
    const ExprId member = draft_.sequence({json_.member_name(draft_.text(quoted_json(name))), value, rest});
    if (is_required) firsts.clear();  // none of those behind it can be the first
    firsts.push_back(member);
    if (i == 0) break;
    const RuleId here = draft_.add_rule(place);
    const ExprId with_comma = draft_.sequence({comma, member});
    draft_.define(here, is_required ? with_comma : draft_.choice({with_comma, rest}));
    behind = here;
  }
  const bool may_be_empty = std::ranges::none_of(
      parts.properties, [&](const auto& property) { return parts.required.contains(property.first); });
  if (may_be_empty) firsts.push_back(close);
  const RuleId whole = draft_.add_rule(place);
  draft_.define(whole, draft_.sequence({draft_.text("{"), json_.space(), draft_.choice(std::move(firsts))}));
  return draft_.call(whole);
}

// ---------------------------------------------------------------- arrays

Result<ExprId> SchemaCompiler::array(SchemaId id) {
  BALLAST_TRY(const auto least, find_count(id, "minItems"));
  BALLAST_TRY(const auto most, find_count(id, "maxItems"));
  const auto from = static_cast<uint32_t>(least.value_or(0));
  const auto to = most ? static_cast<uint32_t>(*most) : kUnlimited;
  if (from > to) return document_.error(id, "minItems", fmt::format("it is {}, more than \"maxItems\", {}", from, to));
  BALLAST_TRY(auto first, find_list(id, "prefixItems"));
  auto rest = document_.find(id, "items");
  if (rest && document_[*rest].type == JsonType::kArray) {  // how older schemas write prefixItems
    if (first)
      return document_.error(id, "items", "a list beside \"prefixItems\" is not supported", ErrorCode::kUnsupported);
    first = rest;
    rest = document_.find(id, "additionalItems");
  }
  if (first) return tuple(document_[*first].elements, rest, from, to);
  if (rest && is_false(*rest)) {
    if (from > 0) return document_.error(id, "minItems", "items are required, but \"items\" allows none");
    return json_.list('[', draft_.empty(), 0, 0, ']');
  }
  ExprId item = 0;
  if (rest) BALLAST_CHECK(assign(item, schema(*rest)));
  else item = json_.any_value();
  const RuleId rule = draft_.add_rule(document_.pointer(id));
  draft_.define(rule, json_.list('[', item, from, to, ']'));
  return draft_.call(rule);
}

// What follows each element is a rule, as for objects. Behind the first elements only as many come as are required, or
// as `rest` says.
Result<ExprId> SchemaCompiler::tuple(std::span<const SchemaId> first, std::optional<SchemaId> rest, uint32_t least,
                                     uint32_t most) {
  const ExprId close = draft_.text("]"), comma = draft_.sequence({draft_.text(","), json_.space()});
  const ExprId end = draft_.sequence({json_.space(), close});
  const auto size = static_cast<uint32_t>(first.size());
  const uint32_t more_least = least > size ? least - size : 0;
  uint32_t more_most = most == kUnlimited ? kUnlimited : most > size ? most - size : 0;
  if (!rest) more_most = more_least;
  ExprId behind = end;
  if (more_most > 0 && !(rest && is_false(*rest))) {
    ExprId item = 0;
    if (rest) BALLAST_CHECK(assign(item, schema(*rest)));
    else item = json_.any_value();
    behind = draft_.sequence({draft_.repeat(draft_.sequence({comma, item}), more_least, more_most), end});
  } else if (more_least > 0) {
    return document_.error(*rest, "", fmt::format("{} items are required, but only {} are allowed", least, size));
  }
  if (size == 0) {
    return document_.error(SchemaDocument::kRoot, "", "an empty \"prefixItems\" is not supported",
                           ErrorCode::kUnsupported);
  }
  for (uint32_t i = size; i-- > 0;) {
    if (i >= most) continue;
    BALLAST_TRY(const ExprId element, schema(first[i]));
    const ExprId next = draft_.sequence({element, behind});
    if (i == 0) {
      const ExprId begin = draft_.sequence({draft_.text("["), json_.space()});
      return draft_.sequence({begin, least == 0 ? draft_.choice({close, next}) : next});
    }
    const RuleId rule = draft_.add_rule(document_.pointer(first[i]));
    const ExprId with_comma = draft_.sequence({comma, next});
    draft_.define(rule, i < least ? with_comma : draft_.choice({end, with_comma}));
    behind = draft_.call(rule);
  }
  return json_.list('[', draft_.empty(), 0, 0, ']');  // there may be none at all
}

// ---------------------------------------------------------------- strings

Result<ExprId> SchemaCompiler::pattern(SchemaId at, std::string_view keyword, std::string_view expression) {
  const RegexOptions options{.where = fmt::format("schema: {}/{}", document_.pointer(at), keyword),
                             .json = &json_,
                             .is_search = keyword == "pattern"};
  BALLAST_TRY(const ExprId inside, parse_regex(draft_, expression, options));
  const RuleId rule = draft_.add_rule(fmt::format("{}/{}", document_.pointer(at), keyword));
  draft_.define(rule, draft_.sequence({draft_.text("\""), inside, draft_.text("\"")}));
  return draft_.call(rule);
}

Result<ExprId> SchemaCompiler::string(SchemaId id) {
  BALLAST_TRY(const auto least, find_count(id, "minLength"));
  BALLAST_TRY(const auto most, find_count(id, "maxLength"));
  constexpr std::string_view kLengths[] = {"minLength", "maxLength"}, kFormat[] = {"format"};
  for (const std::string_view keyword : {"pattern", "format"}) {
    const auto found = document_.find(id, keyword);
    if (!found) continue;
    if (document_[*found].type != JsonType::kString) return document_.error(id, keyword, "it must be a text");
    const std::string& text = document_[*found].text;
    BALLAST_CHECK(refuse(id, kLengths, keyword));
    if (keyword == "pattern") BALLAST_CHECK(refuse(id, kFormat, keyword));
    if (keyword == "pattern") return pattern(id, keyword, text);
    if (const auto known = format_pattern(text)) return pattern(id, keyword, *known);
    return document_.error(id, keyword,
                           fmt::format("the format \"{}\" is not supported; supported are date, time, date-time, uuid, "
                                       "email and ipv4",
                                       text),
                           ErrorCode::kUnsupported);
  }
  if (!least && !most) return json_.any_string();
  const auto from = static_cast<uint32_t>(least.value_or(0));
  const auto to = most ? static_cast<uint32_t>(*most) : kUnlimited;
  if (from > to)
    return document_.error(id, "minLength", fmt::format("it is {}, more than \"maxLength\", {}", from, to));
  const RuleId rule = draft_.add_rule(document_.pointer(id));
  draft_.define(rule, json_.string_of_length(from, to));
  return draft_.call(rule);
}

// ---------------------------------------------------------------- numbers

Result<ExprId> SchemaCompiler::number(SchemaId id, bool is_integer) {
  struct Bound {
    std::string_view keyword;
    bool is_least, is_exclusive;
  };
  constexpr Bound kBounds[] = {{"minimum", true, false},
                               {"exclusiveMinimum", true, true},
                               {"maximum", false, false},
                               {"exclusiveMaximum", false, true}};
  constexpr double kMostExclusive = 1e9;  // up to here six digits of a fraction are exact enough
  NumberBounds bounds;
  bool is_bounded = false;
  for (const Bound& bound : kBounds) {
    BALLAST_TRY(const auto value, find_number(id, bound.keyword));
    if (!value) continue;
    is_bounded = true;
    double whole = bound.is_least ? std::ceil(*value) : std::floor(*value);
    const bool is_whole = whole == *value;
    if (!is_integer && (!is_whole || (bound.is_exclusive && std::abs(whole) > kMostExclusive))) {
      return document_.error(id, bound.keyword,
                             "bounds of numbers must be whole, and exclusive ones within +-1000000000; "
                             "others are supported for \"integer\" only",
                             ErrorCode::kUnsupported);
    }
    if (is_integer && is_whole && bound.is_exclusive) whole += bound.is_least ? 1 : -1;
    const auto limit = static_cast<int64_t>(std::clamp(whole, -1e17, 1e17));
    const bool is_open = bound.is_exclusive && !is_integer;
    if (bound.is_least && (limit > bounds.least || (limit == bounds.least && is_open))) {
      bounds.least = limit;
      bounds.above_least = is_open;
    } else if (!bound.is_least && (limit < bounds.most || (limit == bounds.most && is_open))) {
      bounds.most = limit;
      bounds.below_most = is_open;
    }
  }
  if (!is_bounded) return is_integer ? json_.integer() : json_.number();
  const bool is_nothing =
      bounds.least > bounds.most || (bounds.least == bounds.most && (bounds.above_least || bounds.below_most));
  if (is_nothing || bounds.least > kLargestExact || bounds.most < -kLargestExact) {
    return document_.error(
        id, "",
        fmt::format("no {} within +-{} is within its bounds", is_integer ? "integer" : "number", kLargestExact));
  }
  const RuleId rule = draft_.add_rule(document_.pointer(id));
  draft_.define(rule, is_integer ? integer_range(draft_, bounds.least, bounds.most) : number_range(draft_, bounds));
  return draft_.call(rule);
}

}  // namespace ballast
