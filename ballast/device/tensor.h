// The values that models compute with: dense, row-major, in memory of a device that goes back to its workspace by
// itself.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <initializer_list>
#include <memory>
#include <span>
#include <string>

#include "ballast/base/bytes.h"
#include "ballast/base/dtype.h"
#include "ballast/base/result.h"
#include "ballast/device/device.h"

namespace ballast {

// Dimensions of an activation: few, and never on the heap.
class Dims {
 public:
  static constexpr size_t kMaxRank = 6;

  Dims() = default;
  Dims(std::initializer_list<uint64_t> dims) : Dims(std::span(dims.begin(), dims.size())) {}
  explicit Dims(std::span<const uint64_t> dims);  // at most kMaxRank

  size_t rank() const { return rank_; }
  uint64_t operator[](size_t axis) const { return dims_[axis]; }
  uint64_t& operator[](size_t axis) { return dims_[axis]; }
  // From the end: 0 is the last dimension.
  uint64_t back(size_t from_end = 0) const { return dims_[rank_ - 1 - from_end]; }
  std::span<const uint64_t> span() const { return {dims_.data(), rank_}; }
  uint64_t count() const;
  // Product of all dimensions but the last; 1 for a vector.
  uint64_t leading() const;
  std::string to_string() const;  // "[2, 3]"
  friend bool operator==(const Dims& a, const Dims& b);

 private:
  std::array<uint64_t, kMaxRank> dims_{};
  size_t rank_ = 0;
};

struct WorkspaceState;

// A piece of a workspace. Counted, so that tensors can share it; the last one gives it back.
struct WorkspaceBlock {
  std::atomic<uint32_t> references{0};
  WorkspaceState* home = nullptr;  // there as long as one of its blocks is
  std::unique_ptr<DeviceMemory> memory;
  WorkspaceBlock* next = nullptr;  // while it is free
  // The tape that follows this memory, and its place there. Only that tape, on its one thread, looks at these.
  const void* tape = nullptr;
  uint32_t tape_slot = 0;
};

// A tensor is a value: copying it shares the memory, and what is shared is not written to.
class Tensor {
 public:
  Tensor() = default;
  Tensor(const Tensor& other);
  Tensor(Tensor&& other) noexcept { swap(other); }
  Tensor& operator=(Tensor other) noexcept {
    swap(other);
    return *this;
  }
  ~Tensor();

  const Dims& dims() const { return dims_; }
  DType dtype() const { return dtype_; }
  uint64_t count() const { return dims_.count(); }
  bool empty() const { return block_ == nullptr; }
  // Whether another tensor has the same memory.
  bool is_shared() const { return block_ != nullptr && block_->references.load(std::memory_order_acquire) > 1; }
  bool shares_memory_with(const Tensor& other) const { return block_ != nullptr && block_ == other.block_; }
  // Null where the tensor is empty.
  const Device* device() const;

  uint64_t byte_size() const { return count() * dtype_info(dtype_).bits / 8; }
  // Copies the elements to the host, behind all work that was put into their queue. `out` has as many bytes as they.
  Status read(MutableByteSpan out) const;
  // Replaces the elements by those that `from` has, as many bytes as they. Only for the tensor's owner: it must not be
  // shared.
  void write(ByteSpan from);
  // Where the elements lie, when all work that was put into their queue is done; null where the host cannot reach them.
  // For HostValues (host_values.h).
  Result<const std::byte*> host_view() const;

  // The same elements under other dimensions, whose count must be the same.
  Tensor reshaped(const Dims& dims) const;

 private:
  friend struct HostAccess;    // host_access.h
  friend struct DeviceAccess;  // device_access.h
  friend class Workspace;
  friend class Tape;
  void swap(Tensor& other) noexcept;

  Dims dims_;
  DType dtype_ = DType::kF32;
  WorkspaceBlock* block_ = nullptr;
};

// Memory for activations, recycled: once a model has run, running it again allocates nothing. What is recycled may
// still be in use by work that was put into the workspace's queue, which is why everything that touches its tensors
// goes through that queue. Tensors may outlive the workspace. One thread at a time, but tensors may be dropped on any
// thread.
class Workspace {
 public:
  Workspace() : Workspace(host_queue()) {}
  explicit Workspace(std::shared_ptr<Queue> queue);
  ~Workspace();
  Workspace(const Workspace&) = delete;
  Workspace& operator=(const Workspace&) = delete;

  // Uninitialised. kOutOfMemory where the device has no room for it, another error where it is lost.
  Result<Tensor> make(const Dims& dims, DType dtype = DType::kF32);
  Result<Tensor> zeros(const Dims& dims, DType dtype = DType::kF32);
  // The same elements in memory of their own; `x` is of this workspace or of another with the same queue.
  Result<Tensor> copy(const Tensor& x);
  Result<Tensor> from(std::span<const float> values, const Dims& dims);
  // As many bytes as the elements have.
  Result<Tensor> from_bytes(ByteSpan bytes, const Dims& dims, DType dtype);

  Queue& queue() const;
  // For what must outlive the workspace.
  const std::shared_ptr<Queue>& shared_queue() const;
  uint64_t peak_bytes() const;   // of memory held: blocks stay until the workspace goes
  uint64_t allocations() const;  // of memory, ever: constant in a decode loop

 private:
  WorkspaceState* state_;  // its blocks own it too
};

}  // namespace ballast
