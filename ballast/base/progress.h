// Long work tells how far it is, and asks whether to go on, through one callback.
#pragma once

#include <cstdint>
#include <functional>
#include <string_view>

#include "ballast/base/result.h"

namespace ballast {

struct ProgressUpdate {
  std::string_view activity;  // "writing", "hashing", ...
  uint64_t done;              // bytes
  uint64_t total;             // bytes; 0 when unknown
};

// Called from the thread that started the work, at least every few MiB. Returning false cancels the work, which then
// fails with ErrorCode::kCancelled and leaves nothing behind. An empty callback means "go on in silence".
using Progress = std::function<bool(const ProgressUpdate&)>;

inline Status report_progress(const Progress& progress, const ProgressUpdate& update) {
  if (!progress || progress(update)) return {};
  return make_error(ErrorCode::kCancelled, "interrupted");
}

}  // namespace ballast
