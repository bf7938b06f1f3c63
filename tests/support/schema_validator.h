// What a schema accepts, written down without regard to how Ballast enforces it.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <regex>
#include <string>
#include <vector>

#include "ballast/base/utf8.h"
#include "ballast/text/constraint/schema_document.h"

namespace ballast::testing {

// A keyword that it does not know fails the test, rather than being taken for an annotation.
class SchemaValidator {
 public:
  SchemaValidator(const SchemaDocument& schema, const SchemaDocument& value) : schema_(schema), value_(value) {}

  bool accepts(SchemaId schema = SchemaDocument::kRoot, SchemaId value = SchemaDocument::kRoot) const {
    if (schema_[schema].type == JsonType::kTrue) return true;
    if (schema_[schema].type == JsonType::kFalse) return false;
    return knows_all(schema) && combines(schema, value) && lists(schema, value) && has_named_type(schema, value) &&
           follows(schema, value);
  }

 private:
  bool knows_all(SchemaId schema) const {
    static const std::vector<std::string> kKnown = {"$defs",
                                                    "$ref",
                                                    "additionalProperties",
                                                    "allOf",
                                                    "anyOf",
                                                    "const",
                                                    "description",
                                                    "enum",
                                                    "exclusiveMaximum",
                                                    "exclusiveMinimum",
                                                    "format",
                                                    "items",
                                                    "maxItems",
                                                    "maxLength",
                                                    "maximum",
                                                    "minItems",
                                                    "minLength",
                                                    "minimum",
                                                    "nullable",
                                                    "oneOf",
                                                    "pattern",
                                                    "prefixItems",
                                                    "properties",
                                                    "required",
                                                    "title",
                                                    "type"};
    for (const auto& [name, member] : schema_[schema].members) {
      if (std::ranges::find(kKnown, name) != kKnown.end()) continue;
      ADD_FAILURE() << "the validator does not know the keyword " << name;
      return false;
    }
    return true;
  }

  bool combines(SchemaId schema, SchemaId value) const {
    if (const auto reference = schema_.find(schema, "$ref")) {
      if (!accepts(*schema_.resolve(schema_[*reference].text), value)) return false;
    }
    const auto count = [&](SchemaId list) {
      return std::ranges::count_if(schema_[list].elements, [&](SchemaId branch) { return accepts(branch, value); });
    };
    const auto all = schema_.find(schema, "allOf"), any = schema_.find(schema, "anyOf"),
               one = schema_.find(schema, "oneOf");
    if (all && count(*all) != std::ssize(schema_[*all].elements)) return false;
    return (!any || count(*any) > 0) && (!one || count(*one) == 1);
  }

  bool lists(SchemaId schema, SchemaId value) const {
    if (const auto single = schema_.find(schema, "const"); single && !same(*single, value)) return false;
    const auto list = schema_.find(schema, "enum");
    return !list || std::ranges::any_of(schema_[*list].elements, [&](SchemaId one) { return same(one, value); });
  }
  bool same(SchemaId a, SchemaId b) const {
    if (schema_[a].type == JsonType::kNumber && value_[b].type == JsonType::kNumber)
      return schema_[a].number == value_[b].number;
    return schema_.to_json(a) == value_.to_json(b);
  }

  bool has_named_type(SchemaId schema, SchemaId value) const {
    const auto type = schema_.find(schema, "type");
    if (!type) return true;
    const auto nullable = schema_.find(schema, "nullable");
    if (nullable && schema_[*nullable].type == JsonType::kTrue && value_[value].type == JsonType::kNull) return true;
    const auto& named = schema_[*type];
    if (named.elements.empty()) return has_type(named.text, value);
    return std::ranges::any_of(named.elements, [&](SchemaId one) { return has_type(schema_[one].text, value); });
  }
  bool has_type(const std::string& type, SchemaId value) const {
    static const std::map<std::string, std::vector<JsonType>> kTypes = {
        {"object", {JsonType::kObject}},  {"array", {JsonType::kArray}},
        {"string", {JsonType::kString}},  {"number", {JsonType::kNumber}},
        {"integer", {JsonType::kNumber}}, {"boolean", {JsonType::kTrue, JsonType::kFalse}},
        {"null", {JsonType::kNull}}};
    const auto& allowed = kTypes.at(type);
    const bool is_whole = type != "integer" || std::floor(value_[value].number) == value_[value].number;
    return std::ranges::find(allowed, value_[value].type) != allowed.end() && is_whole;
  }

  bool follows(SchemaId schema, SchemaId value) const {
    switch (value_[value].type) {
      case JsonType::kObject: return object(schema, value);
      case JsonType::kArray: return array(schema, value);
      case JsonType::kString: return string(schema, value_[value].text);
      case JsonType::kNumber: return number(schema, value_[value].number);
      default: return true;
    }
  }
  double limit(SchemaId schema, const char* keyword, double otherwise) const {
    const auto found = schema_.find(schema, keyword);
    return found ? schema_[*found].number : otherwise;
  }
  bool object(SchemaId schema, SchemaId value) const {
    const auto properties = schema_.find(schema, "properties");
    const auto additional = schema_.find(schema, "additionalProperties");
    for (const auto& [name, member] : value_[value].members) {
      const auto known = properties ? schema_.find(*properties, name) : std::nullopt;
      if (known && !accepts(*known, member)) return false;
      if (!known && additional && !accepts(*additional, member)) return false;
    }
    const auto required = schema_.find(schema, "required");
    return !required || std::ranges::all_of(schema_[*required].elements, [&](SchemaId name) {
      return value_.find(value, schema_[name].text).has_value();
    });
  }
  bool array(SchemaId schema, SchemaId value) const {
    const auto& elements = value_[value].elements;
    const auto count = static_cast<double>(elements.size());
    if (count < limit(schema, "minItems", 0) || count > limit(schema, "maxItems", 1e9)) return false;
    const auto first = schema_.find(schema, "prefixItems"), items = schema_.find(schema, "items");
    const size_t prefix = first ? schema_[*first].elements.size() : 0;
    for (size_t i = 0; i < elements.size(); ++i) {
      if (i < prefix && !accepts(schema_[*first].elements[i], elements[i])) return false;
      if (i >= prefix && items && !accepts(*items, elements[i])) return false;
    }
    return true;
  }
  bool number(SchemaId schema, double value) const {
    return value >= limit(schema, "minimum", -1e300) && value <= limit(schema, "maximum", 1e300) &&
           value > limit(schema, "exclusiveMinimum", -1e300) && value < limit(schema, "exclusiveMaximum", 1e300);
  }
  // Formats by what they must consist of.
  bool string(SchemaId schema, const std::string& text) const {
    double length = 0;
    for (const char c : text) length += (static_cast<unsigned char>(c) & 0xC0U) != 0x80 ? 1 : 0;
    if (!is_valid_utf8(text) || length < limit(schema, "minLength", 0) || length > limit(schema, "maxLength", 1e9))
      return false;
    const auto pattern = schema_.find(schema, "pattern");
    if (pattern && !std::regex_search(text, std::regex(schema_[*pattern].text))) return false;
    const auto found = schema_.find(schema, "format");
    return !found || has_format(schema_[*found].text, text);
  }
  static bool has_format(const std::string& format, const std::string& text) {
    const auto only = [&](std::string_view allowed) { return text.find_first_not_of(allowed) == std::string::npos; };
    if (format == "uuid") return text.size() == 36 && text[8] == '-' && only("0123456789abcdefABCDEF-");
    if (format == "ipv4") return std::ranges::count(text, '.') == 3 && only("0123456789.");
    if (format == "email") return std::ranges::count(text, '@') == 1 && text.rfind('.') > text.find('@');
    if (format == "date-time")
      return text.size() >= 20 && text[4] == '-' && text[10] == 'T' && only("0123456789-:TZ.+");
    ADD_FAILURE() << "the validator does not know the format " << format;
    return false;
  }

  const SchemaDocument& schema_;
  const SchemaDocument& value_;
};

}  // namespace ballast::testing
