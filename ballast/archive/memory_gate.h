// A bound on the memory that threads working side by side take for whole payloads.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <mutex>

namespace ballast {

// Payloads that must be inflated or reordered cost memory of their size. A thread that needs one waits at the gate
// until it fits beside those inside; one that is larger than the limit goes in alone.
class MemoryGate {
 public:
  static constexpr uint64_t kDefaultLimit = uint64_t{64} << 20;

  explicit MemoryGate(uint64_t limit = kDefaultLimit) : limit_(limit) {}

  // Holds `bytes` until it is destroyed. A thread must hold only one pass at a time.
  class Pass {
   public:
    Pass(MemoryGate& gate, uint64_t bytes) : gate_(gate), bytes_(bytes) {
      std::unique_lock lock(gate_.mutex_);
      gate_.left_.wait(lock, [&] { return gate_.has_room_for(bytes_); });
      gate_.held_ += bytes_;
    }
    ~Pass() {
      const std::lock_guard lock(gate_.mutex_);
      gate_.held_ -= bytes_;
      gate_.left_.notify_all();
    }
    Pass(const Pass&) = delete;
    Pass& operator=(const Pass&) = delete;

   private:
    MemoryGate& gate_;
    uint64_t bytes_;
  };

 private:
  bool has_room_for(uint64_t bytes) const { return held_ == 0 || (held_ <= limit_ && bytes <= limit_ - held_); }

  std::mutex mutex_;
  std::condition_variable left_;
  uint64_t limit_;
  uint64_t held_ = 0;
};

}  // namespace ballast
