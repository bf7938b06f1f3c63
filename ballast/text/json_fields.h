// The fields of a small JSON object in any order.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "ballast/base/json.h"

namespace ballast {

// Views of the text it was read from. Of two fields with one name the last counts; null is as good as absent.
class JsonFields {
 public:
  // `where` names the object in errors.
  static Result<JsonFields> parse(std::string_view json, std::string where);

  std::optional<std::string_view> raw(std::string_view key) const;
  bool has(std::string_view key) const { return raw(key).has_value(); }

  // kCorrupt where the field is of another type, or absent and no other value is given for that.
  Result<std::string> text(std::string_view key) const;
  Result<std::string> text(std::string_view key, std::string absent) const;
  Result<bool> flag(std::string_view key, bool absent) const;
  Result<uint64_t> number(std::string_view key, uint64_t absent) const;
  Result<uint64_t> number(std::string_view key) const;
  // The elements of a list; none where it is absent.
  Result<std::vector<std::string_view>> list(std::string_view key) const;

  const std::string& where() const { return where_; }
  Error corrupt(std::string_view what) const;
  Error unsupported(std::string_view what) const;

 private:
  struct Field {
    std::string key;
    std::string_view value;
  };
  std::string where_;
  std::vector<Field> fields_;
};

// The elements of a JSON array, as they are written.
Result<std::vector<std::string_view>> json_elements(std::string_view json, const std::string& where);

}  // namespace ballast
