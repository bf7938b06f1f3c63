#include "ballast/edit/filter.h"

#include <fmt/format.h>

#include <algorithm>

#include "ballast/archive/pattern.h"

namespace ballast {

PathFilter PathFilter::all() {
  PathFilter filter;
  filter.all_ = true;
  return filter;
}

PathFilter& PathFilter::add_path(std::string name) {
  paths_.insert(std::move(name));
  return *this;
}

Status PathFilter::add_pattern(const std::string& expression) {
  BALLAST_TRY(Pattern pattern, Pattern::compile(expression));
  patterns_.push_back(std::make_shared<const Pattern>(std::move(pattern)));
  return {};
}

PathFilter& PathFilter::add_predicate(Predicate predicate) {
  predicates_.push_back(std::move(predicate));
  return *this;
}

PathFilter& PathFilter::merge(const PathFilter& other) {
  all_ = all_ || other.all_;
  paths_.insert(other.paths_.begin(), other.paths_.end());
  patterns_.insert(patterns_.end(), other.patterns_.begin(), other.patterns_.end());
  predicates_.insert(predicates_.end(), other.predicates_.begin(), other.predicates_.end());
  return *this;
}

Result<bool> PathFilter::matches(const TensorInfo& tensor) const {
  if (all_ || paths_.contains(tensor.name)) return true;
  for (const auto& pattern : patterns_) {
    BALLAST_TRY(const bool found, pattern->found_in(tensor.name));
    if (found) return true;
  }
  return std::ranges::any_of(predicates_, [&](const Predicate& predicate) { return predicate(tensor); });
}

PlanEdit keep_matching(PathFilter filter) {
  return [filter = std::move(filter)](WritePlan& plan, std::vector<std::string>& notes) -> Status {
    WritePlan kept;
    const size_t before = plan.providers.size();
    for (size_t i = 0; i < before; ++i) {
      BALLAST_TRY(const bool wanted, filter.matches(plan.description.tensors[i]));
      if (wanted) kept.add_tensor(std::move(plan.description.tensors[i]), std::move(plan.providers[i]));
    }
    plan.description.tensors = std::move(kept.description.tensors);
    plan.providers = std::move(kept.providers);
    notes.push_back(fmt::format("the filter took {} of {} tensors", plan.providers.size(), before));
    return {};
  };
}

}  // namespace ballast
