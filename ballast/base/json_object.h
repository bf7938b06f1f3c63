// The members of one JSON object as raw texts: for model configs, of which only some members matter.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "ballast/base/result.h"

namespace ballast {

class JsonObject {
 public:
  // Python's NaN and Infinity are taken too. `where` names the text in errors, which are all kInvalidArgument. The text
  // must outlive the object.
  static Result<JsonObject> parse(std::string_view text, std::string where);

  // The raw text of a member; of two of the same name the last counts, as for Python and serde. null counts as absent.
  std::optional<std::string_view> find(std::string_view key) const;

  // Absent members give nullopt, members of another type an error.
  Result<std::optional<uint64_t>> whole(std::string_view key) const;
  Result<std::optional<double>> real(std::string_view key) const;
  Result<std::optional<std::string>> text(std::string_view key) const;
  Result<std::optional<bool>> boolean(std::string_view key) const;
  Result<std::optional<JsonObject>> object(std::string_view key) const;

  const std::string& where() const { return where_; }

 private:
  explicit JsonObject(std::string where) : where_(std::move(where)) {}
  Error wrong_type(std::string_view key, std::string_view raw, std::string_view wanted) const;

  std::string where_;
  std::vector<std::pair<std::string, std::string_view>> members_;
};

// A number as Python writes it: the shortest text that gives the same value back, with a point or an exponent.
std::string python_real(double value);

}  // namespace ballast
