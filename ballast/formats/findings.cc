#include "ballast/formats/findings.h"

#include <algorithm>

namespace ballast {

Status Findings::error(std::string code, uint64_t offset, std::string tensor, std::string message) {
  if (!collects_) return make_error(ErrorCode::kCorrupt, std::move(message));
  add({Severity::kError, std::move(code), offset, std::move(tensor), std::move(message)});
  return {};
}

void Findings::add(Finding finding) {
  if (items_.size() < kMaxFindings) items_.push_back(std::move(finding));
}

bool Findings::has_errors() const {
  return std::ranges::any_of(items_, [](const Finding& f) { return f.severity == Severity::kError; });
}

}  // namespace ballast
