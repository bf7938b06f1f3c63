// A model's config object, field by field.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "ballast/base/result.h"

namespace ballast {

// The members of one JSON object. Unknown ones are ignored, as gpt.rs ignores them; of two with the same name the last
// counts. NaN and infinities, which Python writes, are values of fields that nobody reads as a number. Errors name the
// model kind and the path of the field.
class ConfigReader {
 public:
  // `text`: an object, or null, which has no fields. `kind` may be empty where it is not known yet.
  static Result<ConfigReader> parse(std::string_view kind, std::string_view text);

  bool has(std::string_view field) const;  // and is not null
  Result<uint64_t> count(std::string_view field) const;
  Result<uint64_t> count_or(std::string_view field, uint64_t otherwise) const;
  Result<double> number(std::string_view field) const;
  Result<double> number_or(std::string_view field, double otherwise) const;
  Result<bool> truth_or(std::string_view field, bool otherwise) const;
  Result<std::string> text(std::string_view field) const;
  Result<std::string> text_or(std::string_view field, std::string otherwise) const;
  Result<ConfigReader> object(std::string_view field) const;
  // Lists; as long as the text of the config at most.
  Result<std::vector<uint64_t>> counts(std::string_view field) const;
  Result<std::vector<double>> numbers(std::string_view field) const;
  Result<std::vector<std::string>> texts(std::string_view field) const;
  // The field's JSON; nullopt when absent.
  std::optional<std::string_view> raw(std::string_view field) const;

  Error error(std::string_view field, std::string_view what) const;

 private:
  ConfigReader(std::string kind, std::string path) : kind_(std::move(kind)), path_(std::move(path)) {}
  static Result<ConfigReader> parse_at(std::string_view kind, std::string path, std::string_view text);
  Result<std::string_view> require(std::string_view field) const;
  template <typename T, typename Read>
  Result<std::vector<T>> list(std::string_view field, std::string_view what, const Read& read) const;

  std::string kind_;
  std::string path_;  // of this object inside the config: "runtime.weight_streaming."; empty for the whole
  std::map<std::string, std::string, std::less<>> fields_;  // raw JSON
};

}  // namespace ballast
