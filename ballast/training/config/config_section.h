// One table of a configuration while it is being understood: typed values with ranges, and words about what is wrong.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "ballast/training/config/config_tree.h"

namespace ballast {

// Bounds of a number. `above` excludes the least itself.
struct RealRange {
  double least = 0;
  double most = 1e308;
  bool above = false;
  bool below = false;  // excludes the most
};

// Every get marks its key as known. Errors are kInvalidArgument: "run.toml:12: [optimizer] lr is -1; it must be above
// 0". A key that is absent or null gives the default.
class ConfigSection {
 public:
  // `table` may be null: a section that is not there has defaults only. All must outlive the section. `folder`: what
  // paths in the file start from.
  ConfigSection(const std::string& file, const std::string& folder, std::string title, const ConfigValue* table);

  bool has(std::string_view key);
  const ConfigValue* find(std::string_view key);

  Result<uint64_t> count(std::string_view key, uint64_t otherwise, uint64_t least = 0, uint64_t most = INT64_MAX);
  Result<double> real(std::string_view key, double otherwise, const RealRange& range = {});
  Result<bool> truth(std::string_view key, bool otherwise);
  Result<std::string> text(std::string_view key, std::string otherwise);
  // One of these words; `otherwise` empty: it must be given.
  Result<std::string> choice(std::string_view key, std::string_view otherwise,
                             const std::vector<std::string_view>& words);
  // A path, from the folder of the file unless it came with the command line.
  Result<std::string> path(std::string_view key);
  // One path or a list of them.
  Result<std::vector<std::string>> paths(std::string_view key);
  // One text or a list of them.
  Result<std::vector<std::string>> texts(std::string_view key);
  Result<std::vector<uint64_t>> counts(std::string_view key, uint64_t least);
  Result<std::pair<double, double>> two_reals(std::string_view key, std::pair<double, double> otherwise,
                                              const RealRange& range);

  // Other words that people use for a key, so that they are told the right one.
  void also_called(std::string_view alias, std::string_view key) { aliases_.emplace_back(alias, key); }
  // A key that exists but means nothing here; `where` says where it does: "type = \"adam\"".
  void foreign(std::string_view key, std::string where) { foreign_.emplace_back(key, std::move(where)); }

  // The first key that nothing asked for, with what was probably meant.
  Status finish() const;

  Error error(std::string_view key, std::string_view what) const;
  Error wrong(std::string_view key, const ConfigValue& value, std::string_view wanted) const;
  const std::string& title() const { return title_; }

 private:
  std::string resolve(const ConfigValue& value) const;
  std::string place(uint64_t line) const;

  const std::string& file_;
  const std::string& folder_;
  std::string title_;
  const ConfigValue* table_;
  std::vector<std::string> known_;
  std::vector<std::pair<std::string, std::string>> aliases_;
  std::vector<std::pair<std::string, std::string>> foreign_;
};

}  // namespace ballast
