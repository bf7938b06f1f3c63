// One validator per format serves opening (stop at the first error), `verify` (collect everything) and `doctor`
// (collect everything, and give what is sound).
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "ballast/base/result.h"

namespace ballast {

enum class Severity : uint8_t {
  kNote,     // unusual but sound
  kWarning,  // the file opens, but something is wrong with it that its own reader may not say
  kError,    // the file cannot be trusted; opening fails
};

struct Finding {
  Severity severity;
  std::string code;    // stable word: "overlap", "hole", "padding", "duplicate_name", ...
  uint64_t offset;     // in the file (of a set: the file that `message` names)
  std::string tensor;  // empty when the finding is about the file
  std::string message;
};

// The code of a finding that is no fault of the file: the operating system could not read it. Only rescuing records it.
inline constexpr const char* kReadError = "read_error";

// A validator reports to Findings and stops when told to:
//
//   if (end > size) BALLAST_CHECK(findings.error("truncated", offset, name, "..."));
//
// When opening, error() returns the error at once. When verifying, it records the finding and lets the validator go on
// as far as it can; what cannot be interpreted further is returned as an Error in the ordinary way.
//
// When rescuing, the validator also keeps what it understood before such a point: it calls broken_off() there. Tensors
// that an error() names are `damaged`; whoever rescues leaves them out.
class Findings {
 public:
  // For opening: notes and warnings are dropped unseen, so they cost nothing; the first error is the result.
  static Findings stop_at_first_error() { return Findings(false, false); }
  static Findings collect_all() { return Findings(true, false); }
  static Findings rescue() { return Findings(true, true); }

  bool collects() const { return kMayCollect && collects_; }
  bool rescues() const { return kMayCollect && rescues_; }

  // `as`: the code the error has when opening (kUnsupported for sound files of a kind that is not handled).
  Status error(std::string code, uint64_t offset, std::string tensor, std::string message,
               ErrorCode as = ErrorCode::kCorrupt);
  // An error of the file's layout that leaves the tensor's own bytes what they should be: rescuing keeps it.
  Status layout_error(std::string code, uint64_t offset, std::string tensor, std::string message);
  // Nothing behind `offset` can be interpreted, because of `why`. Gives that error back, unless rescuing, which goes on
  // with what was understood so far.
  Status broken_off(uint64_t offset, Error why);
  // `message` is a callable so that opening never formats texts nobody reads.
  template <typename MakeMessage>
  void warning(const char* code, uint64_t offset, const std::string& tensor, MakeMessage&& message) {
    if (collects()) add({Severity::kWarning, code, offset, tensor, message()});
  }
  template <typename MakeMessage>
  void note(const char* code, uint64_t offset, const std::string& tensor, MakeMessage&& message) {
    if (collects()) add({Severity::kNote, code, offset, tensor, message()});
  }

  const std::vector<Finding>& items() const { return items_; }
  bool has_errors() const { return has_errors_; }
  // Whether rescuing went past a point behind which nothing could be interpreted.
  bool was_broken_off() const { return broken_off_; }
  // Findings beyond the limit of what is kept, and the worst of them.
  uint64_t dropped() const { return dropped_; }
  Severity worst_dropped() const { return worst_dropped_; }
  // When rescuing: every name that an error named, however many, with repetitions.
  const std::vector<std::string>& damaged() const { return damaged_; }

 private:
  // A program on a board opens and does not verify (bindings/core): texts that opening drops are not compiled into it.
#ifdef BALLAST_OPENS_ONLY
  static constexpr bool kMayCollect = false;
#else
  static constexpr bool kMayCollect = true;
#endif
  Findings(bool collects, bool rescues) : collects_(collects), rescues_(rescues) {}
  // A hostile file must not fill memory with complaints about itself.
  static constexpr size_t kMaxFindings = 10'000;
  void add(Finding finding);

  bool collects_;
  bool rescues_;
  bool has_errors_ = false;
  bool broken_off_ = false;
  uint64_t dropped_ = 0;
  Severity worst_dropped_ = Severity::kNote;
  std::vector<Finding> items_;
  std::vector<std::string> damaged_;
};

}  // namespace ballast
