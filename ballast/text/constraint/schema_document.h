// A JSON Schema as a tree of values, each of which knows its place.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "ballast/base/json.h"

namespace ballast {

using SchemaId = uint32_t;

class SchemaDocument {
 public:
  struct Value {
    JsonType type = JsonType::kNull;
    std::string text{};  // of a string, or a number as it is written
    double number = 0;
    std::vector<std::pair<std::string, SchemaId>> members{};  // in order; of two with one name the last
    std::vector<SchemaId> elements{};
    SchemaId parent = 0;
    std::string name{};  // in the parent, as a JSON pointer has it
  };

  static Result<SchemaDocument> parse(std::string_view json);

  static constexpr SchemaId kRoot = 0;
  const Value& operator[](SchemaId id) const { return values_[id]; }
  std::optional<SchemaId> find(SchemaId object, std::string_view key) const;
  // "#" or "#/a/b".
  std::optional<SchemaId> resolve(std::string_view reference) const;
  // "/properties/a"; empty for the root.
  std::string pointer(SchemaId id) const;
  // Compact JSON.
  std::string to_json(SchemaId id) const;
  // As JSON Schema compares: numbers by value, objects in any order.
  bool equal(SchemaId a, SchemaId b) const;

  // schema: <pointer>/<keyword>: <what>
  Error error(SchemaId at, std::string_view keyword, std::string_view what,
              ErrorCode code = ErrorCode::kInvalidArgument) const;

 private:
  Result<SchemaId> read(JsonReader& json, SchemaId parent, std::string name, size_t depth);
  Status read_members(JsonReader& json, SchemaId object, size_t depth);
  void write(SchemaId id, JsonWriter& json) const;

  std::vector<Value> values_;
};

}  // namespace ballast
