// How far long work is, with its rate and the time left. On a terminal only; silent everywhere else.
#pragma once

#include <chrono>
#include <string>

#include "apps/ballast/terminal/interrupt.h"
#include "apps/ballast/terminal/terminal.h"
#include "ballast/base/progress.h"

namespace ballast::cli {

enum class ProgressUnit : unsigned char { kBytes, kTokens, kPrompts };

// Lives while the work runs and, drawing or not, makes it cancellable. Its line is gone when it is destroyed.
class ProgressBar {
 public:
  // `terminal`: what stands behind standard error.
  explicit ProgressBar(const Terminal& terminal, ProgressUnit unit = ProgressUnit::kBytes);
  ~ProgressBar();
  ProgressBar(const ProgressBar&) = delete;
  ProgressBar& operator=(const ProgressBar&) = delete;

  // Takes the line away until the next update: something else is about to be printed.
  void clear();

  // For the library. Must not outlive the bar.
  Progress callback() {
    return [this](const ProgressUpdate& update) { return on_update(update); };
  }

 private:
  using Clock = std::chrono::steady_clock;

  bool on_update(const ProgressUpdate& update);
  void draw(const ProgressUpdate& update, Clock::time_point now);
  std::string amount(uint64_t count) const;
  // "1.2 of 8.66 KiB", "512 of 2,048 tokens"
  std::string part_of(uint64_t done, uint64_t total) const;

  Terminal terminal_;
  ProgressUnit unit_;
  CancelScope cancel_;
  std::string activity_;
  Clock::time_point activity_start_;
  uint64_t done_at_start_ = 0;
  Clock::time_point next_draw_;
  bool drawn_ = false;
};

}  // namespace ballast::cli
