// The values of one type as expressions of a grammar: objects, arrays, strings, numbers.
#include <fmt/format.h>

#include <algorithm>

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

// Any names.
Result<ExprId> SchemaCompiler::free_object(const MergedSchema& additional) {
  if (additional.is_anything()) return json_.any_object();
  if (merger_.is_nothing(additional)) return json_.list('{', draft_.empty(), 0, 0, '}');
  BALLAST_TRY(const ExprId value, schema(additional));
  const RuleId rule = draft_.add_rule(document_.pointer(additional.place()));
  draft_.define(rule,
                json_.list('{', draft_.sequence({json_.member_name(json_.any_string()), value}), 0, kUnlimited, '}'));
  return draft_.call(rule);
}

// Properties that cannot have a value are left out. What one schema says of a property alone is not: if it contradicts
// itself, that is a mistake to be told.
Result<std::vector<SchemaCompiler::Member>> SchemaCompiler::members(const MergedSchema& merged,
                                                                    const ObjectParts& parts) {
  std::vector<Member> members;
  for (const ObjectParts::Property& property : parts.properties) {
    BALLAST_TRY(const MergedSchema value, merger_.merge(property.schemas));
    if (value.refusal || (property.schemas.size() > 1 && merger_.is_nothing(value))) {
      if (!property.is_required) continue;
      return document_.error(merged.place(), "required",
                             fmt::format("\"{}\" is required, but no value of this property is valid", property.name));
    }
    BALLAST_TRY(const ExprId expr, schema(value));
    const ExprId name = json_.member_name(draft_.text(quoted_json(property.name)));
    members.push_back({draft_.sequence({name, expr}), property.is_required});
  }
  return members;
}

// A rule for what follows each property: the next ones, of which those that are not required may be left out. Each ends
// with the call of the next, which therefore needs no stack.
Result<ExprId> SchemaCompiler::object(const MergedSchema& merged) {
  BALLAST_TRY(const ObjectParts parts, merger_.object(merged));
  if (parts.properties.empty()) {
    BALLAST_TRY(const MergedSchema additional, merger_.merge(parts.additional));
    return free_object(additional);
  }
  BALLAST_TRY(const std::vector<Member> all, members(merged, parts));
  if (all.empty()) return json_.list('{', draft_.empty(), 0, 0, '}');
  const std::string place = document_.pointer(merged.place());
  const ExprId close = draft_.text("}"), comma = draft_.sequence({draft_.text(","), json_.space()});
  RuleId behind = draft_.add_rule(place);
  draft_.define(behind, draft_.sequence({json_.space(), close}));
  std::vector<ExprId> firsts;  // from the last to the first
  for (size_t i = all.size(); i-- > 0;) {
    const ExprId rest = draft_.call(behind);
    const ExprId member = draft_.sequence({all[i].expr, rest});
    if (all[i].is_required) firsts.clear();  // none of those behind it can be the first
    firsts.push_back(member);
    if (i == 0) break;
    behind = draft_.add_rule(place);
    const ExprId with_comma = draft_.sequence({comma, member});
    draft_.define(behind, all[i].is_required ? with_comma : draft_.choice({with_comma, rest}));
  }
  if (std::ranges::none_of(all, &Member::is_required)) firsts.push_back(close);
  const RuleId whole = draft_.add_rule(place);
  draft_.define(whole, draft_.sequence({draft_.text("{"), json_.space(), draft_.choice(std::move(firsts))}));
  return draft_.call(whole);
}

// ---------------------------------------------------------------- arrays

Result<ExprId> SchemaCompiler::array(const MergedSchema& merged) {
  BALLAST_TRY(const ArrayParts parts, merger_.array(merged));
  if (parts.least > parts.most) {
    return document_.error(merged.place(), "minItems",
                           fmt::format("{} items are required, but only {} are allowed", parts.least, parts.most));
  }
  if (parts.most == 0) return json_.list('[', draft_.empty(), 0, 0, ']');
  BALLAST_TRY(const MergedSchema rest, merger_.merge(parts.rest));
  if (!parts.first.empty()) return tuple(merged, parts, rest);
  BALLAST_TRY(const ExprId item, schema(rest));
  const RuleId rule = draft_.add_rule(document_.pointer(merged.place()));
  draft_.define(rule, json_.list('[', item, parts.least, parts.most, ']'));
  return draft_.call(rule);
}

// What follows each element is a rule, as for objects. Behind the first elements only as many come as are required, or
// as `rest` says.
Result<ExprId> SchemaCompiler::tuple(const MergedSchema& merged, const ArrayParts& parts, const MergedSchema& rest) {
  const ExprId close = draft_.text("]"), comma = draft_.sequence({draft_.text(","), json_.space()});
  const ExprId end = draft_.sequence({json_.space(), close});
  const auto size = std::min(static_cast<uint32_t>(parts.first.size()), parts.most);
  const uint32_t more_least = parts.least > size ? parts.least - size : 0;
  uint32_t more_most = parts.most == kUnlimited ? kUnlimited : parts.most - size;
  if (!parts.has_rest) more_most = more_least;
  ExprId behind = end;
  if (more_most > 0) {
    BALLAST_TRY(const ExprId item, schema(rest));
    behind = draft_.sequence({draft_.repeat(draft_.sequence({comma, item}), more_least, more_most), end});
  }
  for (uint32_t i = size; i-- > 1;) {
    BALLAST_TRY(const MergedSchema element, merger_.merge(parts.first[i]));
    BALLAST_TRY(const ExprId expr, schema(element));
    const RuleId rule = draft_.add_rule(document_.pointer(merged.place()));
    const ExprId with_comma = draft_.sequence({comma, expr, behind});
    draft_.define(rule, i < parts.least ? with_comma : draft_.choice({end, with_comma}));
    behind = draft_.call(rule);
  }
  BALLAST_TRY(const MergedSchema element, merger_.merge(parts.first[0]));
  BALLAST_TRY(const ExprId expr, schema(element));
  const ExprId items = draft_.sequence({expr, behind});
  const ExprId begin = draft_.sequence({draft_.text("["), json_.space()});
  return draft_.sequence({begin, parts.least == 0 ? draft_.choice({close, items}) : items});
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

Result<ExprId> SchemaCompiler::string(const MergedSchema& merged) {
  BALLAST_TRY(const StringParts parts, merger_.string(merged));
  if (parts.keyword == "pattern") return pattern(parts.at, parts.keyword, parts.text);
  if (parts.keyword == "format") {
    if (const auto known = format_pattern(parts.text)) return pattern(parts.at, parts.keyword, *known);
    return document_.error(parts.at, parts.keyword,
                           fmt::format("the format \"{}\" is not supported; supported are date, time, date-time, uuid, "
                                       "email and ipv4",
                                       parts.text),
                           ErrorCode::kUnsupported);
  }
  if (!parts.is_limited()) return json_.any_string();
  if (parts.least > parts.most) {
    return document_.error(merged.place(), "minLength",
                           fmt::format("it is {}, more than \"maxLength\", {}", parts.least, parts.most));
  }
  const RuleId rule = draft_.add_rule(document_.pointer(merged.place()));
  draft_.define(rule, json_.string_of_length(parts.least, parts.most));
  return draft_.call(rule);
}

// ---------------------------------------------------------------- numbers

Result<ExprId> SchemaCompiler::number(const MergedSchema& merged, bool is_integer) {
  BALLAST_TRY(const NumberParts parts, merger_.number(merged, is_integer));
  if (!parts.is_bounded) return is_integer ? json_.integer() : json_.number();
  if (parts.is_nothing()) {
    return document_.error(
        merged.place(), "",
        fmt::format("no {} within +-{} is within its bounds", is_integer ? "integer" : "number", kLargestExact));
  }
  const NumberBounds& bounds = parts.bounds;
  const RuleId rule = draft_.add_rule(document_.pointer(merged.place()));
  draft_.define(rule, is_integer ? integer_range(draft_, bounds.least, bounds.most) : number_range(draft_, bounds));
  return draft_.call(rule);
}

}  // namespace ballast
