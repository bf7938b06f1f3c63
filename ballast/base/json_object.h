// The members of one JSON object, by name: for configs and settings, of which only some members matter.
//
// Each type of value can be asked for in three ways: count(key) must be there, count_or(key, x) is x where it is
// absent, find_count(key) is nullopt then. null counts as absent, and of two members of one name the last counts, as
// for Python and serde. Errors name the text and the path of the member: config.json: "rope_scaling.factor" is "x", not
// a number.
#pragma once

#include <concepts>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "ballast/base/json.h"

namespace ballast {

// How a text is read, and what its errors are.
struct JsonRules {
  JsonReader::Dialect dialect;
  ErrorCode broken;  // the text is not JSON, or no object
  ErrorCode wrong;   // a member is missing or of another type
};
// What a user or a program of ours says.
inline constexpr JsonRules kSettingsRules = {JsonReader::Dialect::kPython, ErrorCode::kInvalidArgument,
                                             ErrorCode::kInvalidArgument};
// The config of a model. Python writes NaN and Infinity there, but nobody computes with them.
inline constexpr JsonRules kConfigRules = {JsonReader::Dialect::kPython, ErrorCode::kCorrupt,
                                           ErrorCode::kInvalidArgument};
// Files whose own readers take JSON alone.
inline constexpr JsonRules kStrictRules = {JsonReader::Dialect::kStrict, ErrorCode::kCorrupt, ErrorCode::kCorrupt};

// Views of the text it was read from, which must outlive it. Looking up a member takes time by their number.
class JsonObject {
 public:
  // `where` names the text in errors.
  static Result<JsonObject> parse(std::string_view text, std::string where, const JsonRules& rules = kSettingsRules);
  template <std::same_as<std::string> Temporary>
  static Result<JsonObject> parse(Temporary&&, std::string, const JsonRules& = kSettingsRules) = delete;
  // The text may also be null, which has no members.
  static Result<JsonObject> parse_or_null(std::string_view text, std::string where,
                                          const JsonRules& rules = kSettingsRules);
  template <std::same_as<std::string> Temporary>
  static Result<JsonObject> parse_or_null(Temporary&&, std::string, const JsonRules& = kSettingsRules) = delete;

  // The raw text of a member.
  std::optional<std::string_view> find(std::string_view key) const;
  bool has(std::string_view key) const { return find(key).has_value(); }
  // Whether it is there, be it null: some programs mean something by that.
  bool mentions(std::string_view key) const;

  Result<std::string> text(std::string_view key) const;
  Result<std::string> text_or(std::string_view key, std::string otherwise) const;
  Result<std::optional<std::string>> find_text(std::string_view key) const;

  // Whole, from 0 to 2^64-1.
  Result<uint64_t> count(std::string_view key) const;
  Result<uint64_t> count_or(std::string_view key, uint64_t otherwise) const;
  Result<std::optional<uint64_t>> find_count(std::string_view key) const;

  // Finite.
  Result<double> number(std::string_view key) const;
  Result<double> number_or(std::string_view key, double otherwise) const;
  // NaN and infinities too, where the dialect has them.
  Result<std::optional<double>> find_real(std::string_view key) const;

  Result<bool> truth_or(std::string_view key, bool otherwise) const;
  Result<std::optional<bool>> find_truth(std::string_view key) const;

  Result<JsonObject> object(std::string_view key) const;
  Result<std::optional<JsonObject>> find_object(std::string_view key) const;

  // Lists, at most as long as the text.
  Result<std::vector<uint64_t>> counts(std::string_view key) const;
  Result<std::vector<double>> numbers(std::string_view key) const;
  Result<std::vector<std::string>> texts(std::string_view key) const;
  // The raw texts of a list's elements; none where it is absent.
  Result<std::vector<std::string_view>> elements(std::string_view key) const;

  const std::string& where() const { return where_; }
  // <where>: "<path of the member>" <what>
  Error error(std::string_view key, std::string_view what) const;
  // <where>: <what>
  Error corrupt(std::string_view what) const;
  Error unsupported(std::string_view what) const;

 private:
  struct Member {
    std::string key;
    std::string_view raw;
  };

  JsonObject(std::string where, std::string path, const JsonRules& rules)
      : where_(std::move(where)), path_(std::move(path)), rules_(rules) {}
  Status read_members(JsonReader& json);
  const Member* last(std::string_view key) const;
  Error wrong_type(std::string_view key, std::string_view wanted) const;
  template <typename T, typename Read>
  Result<std::optional<T>> find_value(std::string_view key, std::string_view wanted, const Read& read) const;
  template <typename T>
  Result<T> require(std::string_view key, Result<std::optional<T>> found) const;
  template <typename T, typename Read>
  Result<std::vector<T>> list(std::string_view key, std::string_view wanted, const Read& read) const;

  std::string where_;
  std::string path_;  // of this object inside the text: "runtime.weight_streaming."; empty for the whole
  JsonRules rules_;
  std::vector<Member> members_;
};

// The raw texts of the elements of a JSON array.
Result<std::vector<std::string_view>> json_elements(std::string_view json, const std::string& where);

}  // namespace ballast
