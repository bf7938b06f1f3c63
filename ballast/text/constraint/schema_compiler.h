// The parts of a JSON Schema, one after the other, as rules of a grammar.
#pragma once

#include <map>
#include <span>
#include <string_view>
#include <utility>
#include <vector>

#include "ballast/text/constraint/grammar_draft.h"
#include "ballast/text/constraint/json_grammar.h"
#include "ballast/text/constraint/schema_document.h"
#include "ballast/text/constraint/schema_merger.h"

namespace ballast {

class SchemaCompiler {
 public:
  // The document must outlive it.
  explicit SchemaCompiler(const SchemaDocument& document) : document_(document), merger_(document), json_(draft_) {}
  Result<std::shared_ptr<const Grammar>> compile();

 private:
  struct Member {
    ExprId expr;  // with its name
    bool is_required;
  };

  // Of any type.
  Result<ExprId> schema(const MergedSchema& merged);
  Result<RuleId> rule_of(const MergedSchema& merged);
  Result<ExprId> expression(const MergedSchema& merged);
  Result<ExprId> any_of(const MergedSchema& merged);
  Status check_excludes_earlier(const MergedSchema& branch, SchemaId list, size_t index);
  Result<ExprId> literals(const MergedSchema& merged, std::span<const SchemaId> values);
  Result<ExprId> typed(const MergedSchema& merged);

  // Of one type of values.
  Result<ExprId> object(const MergedSchema& merged);
  Result<std::vector<Member>> members(const MergedSchema& merged, const ObjectParts& parts);
  Result<ExprId> free_object(const MergedSchema& additional);
  Result<ExprId> array(const MergedSchema& merged);
  Result<ExprId> tuple(const MergedSchema& merged, const ArrayParts& parts, const MergedSchema& rest);
  Result<ExprId> string(const MergedSchema& merged);
  Result<ExprId> pattern(SchemaId at, std::string_view keyword, std::string_view expression);
  Result<ExprId> number(const MergedSchema& merged, bool is_integer);

  const SchemaDocument& document_;
  SchemaMerger merger_;
  GrammarDraft draft_;
  JsonGrammar json_;
  std::map<std::pair<std::vector<SchemaId>, std::vector<SchemaId>>, RuleId> rules_;  // by what they merge
  std::vector<std::pair<MergedSchema, RuleId>> undefined_;  // whose rules are named and not written yet
  size_t merged_schemas_ = 0;
};

}  // namespace ballast
