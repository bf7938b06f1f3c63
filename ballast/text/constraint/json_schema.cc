#include "ballast/text/constraint/json_schema.h"

#include <fmt/format.h>

#include "ballast/text/constraint/grammar.h"
#include "ballast/text/constraint/schema_compiler.h"

namespace ballast {

namespace {

// Schemas of all rules, each as often as it is in one: several schemas that apply together, each with alternatives,
// have many combinations.
constexpr size_t kMostMergedSchemas = 400'000;

}  // namespace

Result<std::shared_ptr<const Grammar>> compile_json_schema(std::string_view schema) {
  BALLAST_TRY(const SchemaDocument document, SchemaDocument::parse(schema));
  return SchemaCompiler(document).compile();
}

Result<std::shared_ptr<const Grammar>> SchemaCompiler::compile() {
  const RuleId root = draft_.add_rule("the schema");
  constexpr SchemaId kRoot = SchemaDocument::kRoot;
  BALLAST_TRY(const MergedSchema merged, merger_.merge(std::span(&kRoot, 1)));
  BALLAST_TRY(const ExprId whole, schema(merged));
  draft_.define(root, draft_.sequence({json_.space(), whole}));
  while (!undefined_.empty()) {
    const auto [next, rule] = std::move(undefined_.back());
    undefined_.pop_back();
    BALLAST_TRY(const ExprId expr, expression(next));
    draft_.define(rule, expr);
  }
  return draft_.compile(root, "schema");
}

// What references lead to, and what several schemas say, may contain itself, so it becomes a rule.
Result<ExprId> SchemaCompiler::schema(const MergedSchema& merged) {
  if (merged.refusal) return document_.error(*merged.refusal, "", "the schema is false, so no value is valid");
  if (merged.is_anything()) return json_.any_value();
  if (!merged.has_reference && merged.plain.size() + merged.choices.size() == 1) return expression(merged);
  BALLAST_TRY(const RuleId rule, rule_of(merged));
  return draft_.call(rule);
}

Result<RuleId> SchemaCompiler::rule_of(const MergedSchema& merged) {
  auto key = std::pair(merged.plain, merged.choices);
  const auto known = rules_.find(key);
  if (known != rules_.end()) return known->second;
  const SchemaId place = merged.place();
  merged_schemas_ += merged.plain.size() + merged.choices.size();
  if (merged_schemas_ > kMostMergedSchemas) {
    return document_.error(place, "", "schemas that apply together have too many combinations",
                           ErrorCode::kUnsupported);
  }
  const std::string pointer = document_.pointer(place);
  const RuleId rule = draft_.add_rule(pointer.empty() ? "the whole" : pointer);
  rules_.emplace(std::move(key), rule);
  undefined_.emplace_back(merged, rule);
  return rule;
}

Result<ExprId> SchemaCompiler::expression(const MergedSchema& merged) {
  if (!merged.choices.empty()) return any_of(merged);
  BALLAST_TRY(const auto values, merger_.values(merged));
  return values ? literals(merged, *values) : typed(merged);
}

Result<ExprId> SchemaCompiler::literals(const MergedSchema& merged, std::span<const SchemaId> values) {
  std::vector<std::string> texts;
  for (const SchemaId value : values) texts.push_back(document_.to_json(value));
  if (!texts.empty()) return draft_.texts(std::move(texts));
  return document_.error(merged.place(), "", "no value of \"enum\" or \"const\" is valid");
}

// Each of the alternatives with all that is beside them.
Result<ExprId> SchemaCompiler::any_of(const MergedSchema& merged) {
  MergedSchema rest = merged;
  const SchemaId list = rest.choices.back();
  rest.choices.pop_back();
  const std::vector<SchemaId>& branches = document_[list].elements;
  const bool is_one_of = document_[list].name == "oneOf";
  std::vector<ExprId> ways;
  for (size_t i = 0; i < branches.size(); ++i) {
    BALLAST_TRY(const MergedSchema branch, merger_.merge(rest, std::span(&branches[i], 1)));
    if (merger_.is_nothing(branch)) continue;
    if (is_one_of) BALLAST_CHECK(check_excludes_earlier(branch, list, i));
    BALLAST_TRY(const ExprId way, schema(branch));
    ways.push_back(way);
  }
  if (!ways.empty()) return draft_.choice(std::move(ways));
  return document_.error(list, "", "no value is valid: what is beside the schemas leaves none of them");
}

Status SchemaCompiler::check_excludes_earlier(const MergedSchema& branch, SchemaId list, size_t index) {
  for (size_t other = 0; other < index; ++other) {
    const SchemaId earlier = document_[list].elements[other];
    BALLAST_TRY(const MergedSchema both, merger_.merge(branch, std::span(&earlier, 1)));
    if (merger_.is_nothing(both)) continue;
    return document_.error(
        list, "",
        fmt::format("the schemas {} and {} may accept the same value, which \"oneOf\" forbids; give them different "
                    "types, or a required property with different \"const\", or use \"anyOf\"",
                    other, index),
        ErrorCode::kUnsupported);
  }
  return {};
}

Result<ExprId> SchemaCompiler::typed(const MergedSchema& merged) {
  BALLAST_TRY(const unsigned types, merger_.types_to_write(merged));
  std::vector<ExprId> ways;
  const auto add = [&](unsigned bits, auto&& write) -> Status {
    if ((types & bits) == 0) return {};
    BALLAST_TRY(const ExprId way, write());
    ways.push_back(way);
    return {};
  };
  BALLAST_CHECK(add(ValueTypes::kObject, [&] { return object(merged); }));
  BALLAST_CHECK(add(ValueTypes::kArray, [&] { return array(merged); }));
  BALLAST_CHECK(add(ValueTypes::kString, [&] { return string(merged); }));
  BALLAST_CHECK(add(ValueTypes::kNumber, [&] { return number(merged, (types & ValueTypes::kFraction) == 0); }));
  if ((types & ValueTypes::kBoolean) != 0) ways.push_back(draft_.texts({"false", "true"}));
  if ((types & ValueTypes::kNull) != 0) ways.push_back(draft_.text("null"));
  return draft_.choice(std::move(ways));
}

}  // namespace ballast
