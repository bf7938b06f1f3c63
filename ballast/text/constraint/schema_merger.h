// Schemas that apply together, because of allOf, $ref or keywords beside each other, and what they say as one.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "ballast/text/constraint/number_range.h"
#include "ballast/text/constraint/schema_document.h"

namespace ballast {

// Types of values, as bits. "number" is both kinds of numbers.
struct ValueTypes {
  enum Bit : unsigned {
    kObject = 1,
    kArray = 2,
    kString = 4,
    kInteger = 8,
    kFraction = 16,
    kNumber = kInteger | kFraction,
    kBoolean = 32,
    kNull = 64,
    kAll = 127
  };
};

// A value is valid where all of `plain` accept it, each by its own keywords, and of each list in `choices` (of anyOf or
// oneOf) as many schemas as that keyword wants.
struct MergedSchema {
  std::vector<SchemaId> plain{};
  std::vector<SchemaId> choices{};
  std::optional<SchemaId> refusal{};  // one of the schemas is false
  bool has_reference = false;

  bool is_anything() const { return plain.empty() && choices.empty() && !refusal; }
  SchemaId place() const { return refusal ? *refusal : plain.empty() ? choices.front() : plain.front(); }
};

// What the schemas say together about the values of one type.
struct ObjectParts {
  struct Property {
    std::string name;
    std::vector<SchemaId> schemas{};  // its value must satisfy all of them
    bool is_required;
  };
  std::vector<Property> properties{};  // in the order of the schemas; those that are only required come last
  std::vector<SchemaId> additional{};  // what the values of all other properties must satisfy
};
struct ArrayParts {
  std::vector<std::vector<SchemaId>> first{};  // of each of the first elements
  std::vector<SchemaId> rest{};                // of all behind them
  bool has_rest = false;                       // something is said about them
  uint32_t least = 0, most = 0;                // elements
};
struct StringParts {
  uint32_t least = 0, most = 0;  // characters
  std::string_view keyword{};    // pattern, format or nothing
  SchemaId at = 0;               // where it is
  std::string_view text{};       // what it says
  bool is_limited() const { return least > 0 || most != UINT32_MAX; }
};
struct NumberParts {
  NumberBounds bounds{};
  bool is_bounded = false;
  bool is_nothing() const;  // within what is exact
};

// Errors name the keyword and its place.
class SchemaMerger {
 public:
  // The document must outlive it.
  explicit SchemaMerger(const SchemaDocument& document) : document_(document) {}

  // Follows $ref and allOf. Keywords that change what is valid and are not known are kUnsupported.
  Result<MergedSchema> merge(std::span<const SchemaId> schemas) { return merge({}, schemas); }
  Result<MergedSchema> merge(MergedSchema base, std::span<const SchemaId> schemas);

  // No value is valid. False may mean that this is not known.
  bool is_nothing(const MergedSchema& merged, size_t depth = 0);

  // All of the following look at `plain` alone.
  // The values that enum and const leave; nullopt where there is neither.
  Result<std::optional<std::vector<SchemaId>>> values(const MergedSchema& merged);
  // What `type` allows; all without it.
  Result<unsigned> named_types(const MergedSchema& merged) const;
  // Where no type is named, keywords that only matter to one say which is meant. Types of which no value is known to be
  // valid are left out, unless they are all there are.
  Result<unsigned> types_to_write(const MergedSchema& merged);
  Result<ObjectParts> object(const MergedSchema& merged);
  Result<ArrayParts> array(const MergedSchema& merged, size_t depth = 0);
  Result<StringParts> string(const MergedSchema& merged) const;
  // Whole bounds only, unless for integers.
  Result<NumberParts> number(const MergedSchema& merged, bool is_integer) const;

  Result<std::optional<SchemaId>> find_list(SchemaId id, std::string_view keyword) const;

 private:
  using Keywords = std::span<const std::string_view>;
  struct Walk {  // through schemas that lead to others
    std::vector<SchemaId> path{};
    std::set<SchemaId> seen{};
  };

  struct PropertyIndex {
    std::unordered_map<std::string_view, size_t> places{};  // in ObjectParts::properties
    std::set<std::string_view> required{};
  };
  struct Elements {  // of a list, as one schema has them
    std::span<const SchemaId> first{};
    std::optional<SchemaId> rest{};
  };

  Status add(SchemaId id, Walk& walk, MergedSchema& merged);
  Status add_combined(SchemaId id, Walk& walk, MergedSchema& merged);
  Result<bool> is_plain(SchemaId id);
  Status check_keywords(SchemaId id) const;
  Result<SchemaId> target_of(SchemaId id, SchemaId reference) const;
  bool contradicts_itself(const MergedSchema& merged, size_t depth);
  unsigned possible_types(const MergedSchema& merged, size_t depth);
  bool is_object_possible(const MergedSchema& merged, size_t depth);

  Result<bool> accepts_literal(SchemaId id, SchemaId value);
  Result<bool> accepts_text(SchemaId id, std::string_view text) const;
  Result<bool> accepts_number(SchemaId id, double number) const;
  Result<bool> is_listed(SchemaId id, SchemaId value);
  Status refuse_beside_literals(SchemaId id, Keywords keywords) const;
  unsigned type_of_value(SchemaId value) const;

  Result<unsigned> own_types(SchemaId id) const;
  bool has_any(SchemaId id, Keywords keywords) const;
  Result<std::optional<uint32_t>> find_count(SchemaId id, std::string_view keyword) const;
  Result<std::optional<double>> find_number(SchemaId id, std::string_view keyword) const;
  // The largest `least` and the smallest `most`.
  Result<std::pair<uint32_t, uint32_t>> find_limits(const MergedSchema& merged, std::string_view least,
                                                    std::string_view most) const;
  Status add_properties(SchemaId id, PropertyIndex& index, ObjectParts& parts) const;
  Result<Elements> elements_of(SchemaId id) const;
  Error not_beside(SchemaId id, std::string_view keyword, std::string_view other) const;
  Status refuse_lengths(const MergedSchema& merged, std::string_view beside) const;
  Status add_number_bounds(SchemaId id, bool is_integer, NumberParts& parts) const;
  Status add_additional(SchemaId id, ObjectParts& parts);

  // Schemas could ask for any number of steps. Looking for a keyword takes as long as there are members.
  bool spend(uint64_t steps);
  uint64_t cost_of(SchemaId id) const { return 1 + document_[id].members.size() / 8; }
  uint64_t cost_of_comparing(SchemaId list, SchemaId value) const;
  Error too_much(SchemaId at) const;

  const SchemaDocument& document_;
  std::unordered_map<SchemaId, bool> known_;  // schemas whose keywords were checked: whether they are in `plain`
  std::map<std::pair<std::vector<SchemaId>, std::vector<SchemaId>>, bool> contradictions_;  // what is_nothing() found
  size_t remembered_ = 0;
  uint64_t steps_ = 0;
};

}  // namespace ballast
