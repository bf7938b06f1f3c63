// Pages out of a device's memory, within a limit. A page that nobody has any more waits here for the next who needs
// one.
#pragma once

#include <algorithm>
#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "ballast/base/result.h"
#include "ballast/ops/kv_pages.h"

namespace ballast {

// Owned by the pool and by every page that is out, so that a page may outlive its pool.
class KvPageStore : public std::enable_shared_from_this<KvPageStore> {
 public:
  // `most_bytes` 0: no limit but the device's, of whose memory a reserve stays free for what a pass computes.
  KvPageStore(std::shared_ptr<Queue> queue, std::shared_ptr<const KvLayout> layout, uint64_t most_bytes);

  // Uninitialised; comes back by itself when its last owner goes. kOutOfMemory at the limit, or where the device has no
  // room.
  Result<KvPage> take(size_t group);
  // Returns the pages that nobody has to the device.
  void trim();

  Queue& queue() const { return *queue_; }
  uint64_t pages_out(size_t group) const { return groups_[group].out; }
  uint64_t peak_bytes() const { return peak_bytes_; }  // taken from the device at once

 private:
  struct Group {
    std::vector<std::unique_ptr<DeviceMemory>> free;  // has room for all pages: giving one back must not allocate
    uint64_t all = 0;                                 // free or out
    uint64_t out = 0;
  };

  Status allocate(size_t group);
  void give_back(size_t group, DeviceMemory* memory) noexcept;
  bool return_one();  // to the device
  // Bytes that a page of so many must leave free on the device; absent where it needs to leave none.
  std::optional<uint64_t> missing_reserve(uint64_t bytes) const;
  bool fits(uint64_t bytes) const {
    return most_bytes_ == 0 || (bytes <= most_bytes_ && bytes_ <= most_bytes_ - bytes);
  }

  const std::shared_ptr<Queue> queue_;  // keeps the device alive, and so goes after all memory
  const std::shared_ptr<const KvLayout> layout_;
  const uint64_t most_bytes_;
  std::vector<Group> groups_;
  uint64_t bytes_ = 0, peak_bytes_ = 0;
};

// Room for so many elements: adding them does not allocate. Grows by factors, so that growing by one is cheap.
template <typename T>
void make_room(std::vector<T>& elements, size_t size) {
  if (elements.capacity() < size) elements.reserve(std::max(size, 2 * elements.capacity()));
}

}  // namespace ballast
