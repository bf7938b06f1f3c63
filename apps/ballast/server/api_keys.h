// The keys that clients must show. Only digests of them are kept.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "ballast/base/hash.h"
#include "ballast/base/result.h"

namespace ballast::cli {

class ApiKeys {
 public:
  // A line each, "name:key" or "key", which is then called "key 1" and so on. Empty lines and those that begin with #
  // are skipped. `source` is where the text comes from, for errors; they never quote a key.
  static Result<ApiKeys> parse(std::string_view text, std::string_view source);

  Status add(std::string name, std::string_view key, std::string_view source);
  bool empty() const { return keys_.empty(); }
  size_t size() const { return keys_.size(); }
  // Names of keys that are too short to withstand guessing.
  const std::vector<std::string>& short_names() const { return short_names_; }

  // The name of this key; nullopt where it is none of them. Takes equally long for every key that was tried, whether or
  // not it is right, and however much of it is.
  std::optional<std::string> find(std::string_view key) const;

 private:
  struct Key {
    std::string name;
    Digest digest;
  };
  std::vector<Key> keys_;
  std::vector<std::string> short_names_;
};

// Of a file; it is an error where the file is missing, has no key in it, or is larger than any such file is.
Result<ApiKeys> read_api_keys(const std::string& path);
// Whether others than its owner may read the file.
bool is_readable_by_others(const std::string& path);

// The key of "Bearer KEY", in any case of the first word; nullopt for another scheme.
std::optional<std::string_view> bearer_key(std::string_view authorization);

}  // namespace ballast::cli
