// Which tensors are meant: exact names, regular expressions and predicates, any of which may say yes.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <unordered_set>
#include <vector>

#include "ballast/archive/convert.h"

namespace ballast {

class Pattern;  // archive/pattern.h

// Copies share the compiled expressions.
class PathFilter {
 public:
  using Predicate = std::function<bool(const TensorInfo& tensor)>;

  PathFilter() = default;  // matches nothing
  static PathFilter all();

  PathFilter& add_path(std::string name);
  Status add_pattern(const std::string& expression);  // PCRE2, unanchored
  PathFilter& add_predicate(Predicate predicate);
  // From now on matches what either matches.
  PathFilter& merge(const PathFilter& other);

  Result<bool> matches(const TensorInfo& tensor) const;

 private:
  bool all_ = false;
  std::unordered_set<std::string> paths_;
  std::vector<std::shared_ptr<const Pattern>> patterns_;
  std::vector<Predicate> predicates_;
};

// For ConvertOptions::edits: leaves only what the filter matches.
PlanEdit keep_matching(PathFilter filter);

}  // namespace ballast
