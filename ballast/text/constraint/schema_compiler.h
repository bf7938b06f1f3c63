// The parts of a JSON Schema, one after the other, as rules of a grammar.
#pragma once

#include <optional>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "ballast/text/constraint/grammar_draft.h"
#include "ballast/text/constraint/json_grammar.h"
#include "ballast/text/constraint/schema_document.h"

namespace ballast {

class SchemaCompiler {
 public:
  // The document must outlive it.
  explicit SchemaCompiler(const SchemaDocument& document) : document_(document), json_(draft_) {}
  Result<std::shared_ptr<const Grammar>> compile();

 private:
  using Keywords = std::span<const std::string_view>;

  // Types of values, as bits. Integers are numbers.
  enum TypeBit : unsigned { kObject = 1, kArray = 2, kString = 4, kNumber = 8, kBoolean = 16, kNull = 32, kAll = 63 };

  // What an object may hold: of one schema, or of several that apply together.
  struct ObjectParts {
    std::vector<std::pair<std::string, SchemaId>> properties;
    std::set<std::string, std::less<>> required;
    std::optional<SchemaId> additional;  // a schema, or whether there may be any
  };

  // Of any schema.
  Result<ExprId> schema(SchemaId id);
  Result<ExprId> schema_object(SchemaId id);
  Result<ExprId> reference(SchemaId id, SchemaId target);
  Result<RuleId> rule_of(SchemaId id);
  Result<ExprId> literals(SchemaId id);
  Result<ExprId> any_of(SchemaId id, std::string_view keyword);
  Result<ExprId> all_of(SchemaId id, SchemaId branches);
  Result<ExprId> typed(SchemaId id);
  Result<ExprId> of_type(SchemaId id, std::string_view type);
  Result<std::vector<std::string>> types(SchemaId id) const;

  // Of one type of values.
  Result<ExprId> object(SchemaId id, const ObjectParts& parts);
  Status add_object_parts(SchemaId id, ObjectParts& parts) const;
  Status settle_required(SchemaId id, ObjectParts& parts) const;
  Result<ExprId> free_object(const ObjectParts& parts);
  Result<ExprId> array(SchemaId id);
  Result<ExprId> tuple(std::span<const SchemaId> first, std::optional<SchemaId> rest, uint32_t least, uint32_t most);
  Result<ExprId> string(SchemaId id);
  Result<ExprId> pattern(SchemaId at, std::string_view keyword, std::string_view expression);
  Result<ExprId> number(SchemaId id, bool is_integer);

  // What keywords hold.
  Status check_keywords(SchemaId id) const;
  // Refuses those of these that are there.
  Status refuse(SchemaId id, Keywords keywords, std::string_view beside) const;
  bool has_any(SchemaId id, Keywords keywords) const;
  Result<std::optional<uint64_t>> find_count(SchemaId id, std::string_view keyword) const;
  Result<std::optional<double>> find_number(SchemaId id, std::string_view keyword) const;
  Result<std::optional<SchemaId>> find_list(SchemaId id, std::string_view keyword) const;
  bool is_true(SchemaId id, std::string_view keyword) const;
  bool is_false(SchemaId id) const { return document_[id].type == JsonType::kFalse; }

  // Whether no value is accepted by both. "No" may mean "not known".
  bool are_disjoint(SchemaId a, SchemaId b) const;
  unsigned possible_types(SchemaId id, size_t depth) const;
  std::optional<std::vector<SchemaId>> possible_values(SchemaId id) const;
  SchemaId follow(SchemaId id) const;

  const SchemaDocument& document_;
  GrammarDraft draft_;
  JsonGrammar json_;
  std::unordered_map<SchemaId, RuleId> rules_;
  mutable uint64_t comparisons_ = 0;  // a schema could ask for any number of them
  std::vector<SchemaId> undefined_;   // schemas whose rules are named and not written yet
};

}  // namespace ballast
