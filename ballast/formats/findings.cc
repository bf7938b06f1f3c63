#include "ballast/formats/findings.h"

#include <algorithm>

namespace ballast {

namespace {

// Of the machine, not of the file: a disk that does not answer says nothing about what is on it.
bool is_about_the_machine(ErrorCode code) {
  return code == ErrorCode::kIo || code == ErrorCode::kOutOfMemory || code == ErrorCode::kCancelled;
}

// Bad sectors are what rescuing is for; without memory, or when told to stop, there is nothing to go on with.
bool ends_rescue(ErrorCode code) { return is_about_the_machine(code) && code != ErrorCode::kIo; }

}  // namespace

Status Findings::error(std::string code, uint64_t offset, std::string tensor, std::string message, ErrorCode as) {
  const bool records = rescues() ? !ends_rescue(as) : collects() && !is_about_the_machine(as);
  if (!records) return make_error(as, std::move(message));
  if (as == ErrorCode::kIo) code = kReadError;
  if (rescues() && !tensor.empty()) damaged_.push_back(tensor);
  add({Severity::kError, std::move(code), offset, std::move(tensor), std::move(message)});
  return {};
}

Status Findings::layout_error(std::string code, uint64_t offset, std::string tensor, std::string message) {
  if (!collects()) return make_error(ErrorCode::kCorrupt, std::move(message));
  add({Severity::kError, std::move(code), offset, std::move(tensor), std::move(message)});
  return {};
}

Status Findings::broken_off(uint64_t offset, Error why) {
  if (!rescues() || ends_rescue(why.code)) return why;
  broken_off_ = true;
  add({Severity::kError, why.code == ErrorCode::kIo ? kReadError : "unreadable", offset, "", std::move(why.message)});
  return {};
}

void Findings::add(Finding finding) {
  has_errors_ = has_errors_ || finding.severity == Severity::kError;
  if (items_.size() < kMaxFindings) {
    items_.push_back(std::move(finding));
    return;
  }
  ++dropped_;
  worst_dropped_ = std::max(worst_dropped_, finding.severity);
}

}  // namespace ballast
