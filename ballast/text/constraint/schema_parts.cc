// What schemas that apply together say about the values of one type.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "ballast/text/constraint/schema_merger.h"

namespace ballast {

// ---------------------------------------------------------------- objects

Result<ObjectParts> SchemaMerger::object(const MergedSchema& merged) {
  ObjectParts parts;
  PropertyIndex index;
  for (const SchemaId id : merged.plain) BALLAST_CHECK(add_properties(id, index, parts));
  for (const std::string_view name : index.required) {
    const auto [known, is_new] = index.places.emplace(name, parts.properties.size());
    if (is_new) parts.properties.push_back({.name = std::string(name), .is_required = true});
    else parts.properties[known->second].is_required = true;
  }
  if (!spend(parts.properties.size())) return too_much(merged.place());
  for (const SchemaId id : merged.plain) BALLAST_CHECK(add_additional(id, parts));
  return parts;
}

Status SchemaMerger::add_properties(SchemaId id, PropertyIndex& index, ObjectParts& parts) const {
  if (const auto properties = document_.find(id, "properties")) {
    if (document_[*properties].type != JsonType::kObject)
      return document_.error(id, "properties", "it must be an object");
    for (const auto& [name, property] : document_[*properties].members) {
      const auto [known, is_new] = index.places.emplace(name, parts.properties.size());
      if (is_new) parts.properties.push_back({.name = name, .is_required = false});
      parts.properties[known->second].schemas.push_back(property);
    }
  }
  BALLAST_TRY(const auto names, find_list(id, "required"));
  for (const SchemaId name : names ? document_[*names].elements : std::vector<SchemaId>()) {
    if (document_[name].type != JsonType::kString) return document_.error(id, "required", "it must be a list of names");
    index.required.insert(document_[name].text);
  }
  return {};
}

// It applies to what the same schema does not name, whatever others beside it name.
Status SchemaMerger::add_additional(SchemaId id, ObjectParts& parts) {
  const auto additional = document_.find(id, "additionalProperties");
  if (!additional || document_[*additional].type == JsonType::kTrue) return {};
  if (!spend(parts.properties.size())) return too_much(id);
  std::set<std::string_view> own;
  if (const auto properties = document_.find(id, "properties")) {
    for (const auto& [name, property] : document_[*properties].members) own.insert(name);
  }
  for (ObjectParts::Property& property : parts.properties) {
    if (!own.contains(property.name)) property.schemas.push_back(*additional);
  }
  parts.additional.push_back(*additional);
  return {};
}

// ---------------------------------------------------------------- arrays

Result<ArrayParts> SchemaMerger::array(const MergedSchema& merged, size_t depth) {
  std::vector<Elements> all;
  size_t most_first = 0;
  for (const SchemaId id : merged.plain) {
    BALLAST_TRY(const Elements own, elements_of(id));
    all.push_back(own);
    most_first = std::max(most_first, own.first.size());
  }
  if (!spend(most_first * all.size())) return too_much(merged.place());
  ArrayParts parts;
  parts.first.resize(most_first);
  for (const Elements& own : all) {
    if (own.rest) parts.rest.push_back(*own.rest);
    for (size_t i = 0; i < most_first; ++i) {
      if (i < own.first.size()) parts.first[i].push_back(own.first[i]);
      else if (own.rest) parts.first[i].push_back(*own.rest);
    }
  }
  parts.has_rest = !parts.rest.empty();
  BALLAST_TRY(const auto limits, find_limits(merged, "minItems", "maxItems"));
  parts.least = limits.first;
  parts.most = limits.second;
  // There can be none behind one that cannot be.
  for (size_t i = 0; i <= most_first && i < parts.most; ++i) {
    BALLAST_TRY(const MergedSchema element, merge(i < most_first ? parts.first[i] : parts.rest));
    if (is_nothing(element, depth)) parts.most = static_cast<uint32_t>(i);
  }
  return parts;
}

Result<SchemaMerger::Elements> SchemaMerger::elements_of(SchemaId id) const {
  BALLAST_TRY(auto first, find_list(id, "prefixItems"));
  auto rest = document_.find(id, "items");
  if (rest && document_[*rest].type == JsonType::kArray) {  // how older schemas write prefixItems
    if (first)
      return document_.error(id, "items", "a list beside \"prefixItems\" is not supported", ErrorCode::kUnsupported);
    first = rest;
    rest = document_.find(id, "additionalItems");
  }
  if (!first) return Elements{.rest = rest};
  return Elements{.first = document_[*first].elements, .rest = rest};
}

// ---------------------------------------------------------------- strings

Result<StringParts> SchemaMerger::string(const MergedSchema& merged) const {
  BALLAST_TRY(const auto limits, find_limits(merged, "minLength", "maxLength"));
  StringParts parts{.least = limits.first, .most = limits.second};
  for (const SchemaId id : merged.plain) {
    for (const std::string_view keyword : {"pattern", "format"}) {
      const auto found = document_.find(id, keyword);
      if (!found) continue;
      if (document_[*found].type != JsonType::kString) return document_.error(id, keyword, "it must be a text");
      const std::string_view text = document_[*found].text;
      if (parts.keyword == keyword && parts.text == text) continue;
      if (!parts.keyword.empty()) return not_beside(id, keyword, parts.keyword);
      parts.keyword = keyword;
      parts.at = id;
      parts.text = text;
    }
  }
  if (!parts.keyword.empty()) BALLAST_CHECK(refuse_lengths(merged, parts.keyword));
  return parts;
}

Status SchemaMerger::refuse_lengths(const MergedSchema& merged, std::string_view beside) const {
  for (const SchemaId id : merged.plain) {
    for (const std::string_view keyword : {"minLength", "maxLength"}) {
      if (document_.find(id, keyword)) return not_beside(id, keyword, beside);
    }
  }
  return {};
}

Error SchemaMerger::not_beside(SchemaId id, std::string_view keyword, std::string_view other) const {
  return document_.error(id, keyword, fmt::format("\"{}\" beside \"{}\" is not supported", keyword, other),
                         ErrorCode::kUnsupported);
}

// ---------------------------------------------------------------- numbers

bool NumberParts::is_nothing() const {
  return bounds.least > bounds.most || (bounds.least == bounds.most && (bounds.above_least || bounds.below_most)) ||
         bounds.least > kLargestExact || bounds.most < -kLargestExact;
}

Result<NumberParts> SchemaMerger::number(const MergedSchema& merged, bool is_integer) const {
  NumberParts parts;
  for (const SchemaId id : merged.plain) BALLAST_CHECK(add_number_bounds(id, is_integer, parts));
  return parts;
}

Status SchemaMerger::add_number_bounds(SchemaId id, bool is_integer, NumberParts& parts) const {
  struct Bound {
    std::string_view keyword;
    bool is_least, is_exclusive;
  };
  constexpr Bound kBounds[] = {{"minimum", true, false},
                               {"exclusiveMinimum", true, true},
                               {"maximum", false, false},
                               {"exclusiveMaximum", false, true}};
  constexpr double kMostExclusive = 1e9;  // up to here six digits of a fraction are exact enough
  NumberBounds& bounds = parts.bounds;
  for (const Bound& bound : kBounds) {
    BALLAST_TRY(const auto value, find_number(id, bound.keyword));
    if (!value) continue;
    parts.is_bounded = true;
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
  return {};
}

}  // namespace ballast
