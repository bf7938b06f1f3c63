// What a workspace and the blocks it has given out have in common.
#pragma once

#include <array>
#include <memory>
#include <mutex>

#include "ballast/device/tensor.h"

namespace ballast {

// Belongs to its workspace and to every block that a tensor has: the last of them deletes it.
struct WorkspaceState {
  explicit WorkspaceState(std::shared_ptr<Queue> queue_) : queue(std::move(queue_)) {}

  // The device's error where it gives no memory.
  Result<WorkspaceBlock*> take(uint64_t capacity);
  // The workspace goes, and with it the blocks that nobody has.
  static void close(WorkspaceState* state);
  static void give_back(WorkspaceBlock* block);

  const std::shared_ptr<Queue> queue;
  std::mutex mutex;
  std::array<WorkspaceBlock*, 64> free{};  // by the power of two that is their capacity
  uint64_t blocks_out = 0;                 // that tensors have
  bool is_closed = false;
  uint64_t held = 0, most_held = 0;
  uint64_t allocations = 0;

 private:
  WorkspaceBlock* take_free(uint64_t capacity);
  Result<WorkspaceBlock*> allocate(uint64_t capacity);
  bool return_free();  // to the device
};

}  // namespace ballast
