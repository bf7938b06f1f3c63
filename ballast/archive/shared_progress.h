// Progress of work that several threads share.
#pragma once

#include <atomic>
#include <thread>

#include "ballast/base/progress.h"

namespace ballast {

// Counts the bytes done by all threads, but reports only on the thread that made it, as Progress promises. Once the
// callback has asked to stop, add() fails on every thread. The maker calls add(0) before the work, because other
// threads may leave nothing for it to do, and after, so that the last report is of everything.
class SharedProgress {
 public:
  // `progress` must outlive it.
  SharedProgress(const Progress& progress, std::string_view activity, uint64_t total)
      : progress_(progress), activity_(activity), total_(total) {}

  Status add(uint64_t bytes) {
    const uint64_t done = done_.fetch_add(bytes, std::memory_order_relaxed) + bytes;
    if (cancelled_.load(std::memory_order_relaxed)) return make_error(ErrorCode::kCancelled, "interrupted");
    if (std::this_thread::get_id() != owner_) return {};
    Status status = report_progress(progress_, {activity_, done, total_});
    if (!status) cancelled_.store(true, std::memory_order_relaxed);
    return status;
  }

 private:
  const Progress& progress_;
  std::string_view activity_;
  uint64_t total_;
  std::thread::id owner_ = std::this_thread::get_id();
  std::atomic<uint64_t> done_{0};
  std::atomic<bool> cancelled_{false};
};

}  // namespace ballast
