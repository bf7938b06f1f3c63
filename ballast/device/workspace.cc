#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <bit>
#include <new>
#include <optional>
#include <string>

#include "ballast/base/checked.h"
#include "ballast/device/device_access.h"
#include "ballast/device/tensor.h"
#include "ballast/device/workspace_state.h"

namespace ballast {

namespace {

constexpr uint64_t kSmallest = 64;

// Capacities are powers of two: few classes, so that a block finds its next user soon. Of a large block, pages that
// nobody touches cost nothing.
size_t class_of(uint64_t capacity) { return static_cast<size_t>(std::countr_zero(capacity)); }

std::optional<uint64_t> byte_count(const Dims& dims, DType dtype) {
  uint64_t bytes = dtype_info(dtype).bits / 8;
  for (const uint64_t dim : dims.span()) {
    const auto product = checked_mul(bytes, dim);
    if (!product) return std::nullopt;
    bytes = *product;
  }
  return bytes;
}

}  // namespace

Result<WorkspaceBlock*> WorkspaceState::take(uint64_t capacity) {
  if (WorkspaceBlock* const block = take_free(capacity)) return block;
  return allocate(capacity);
}

WorkspaceBlock* WorkspaceState::take_free(uint64_t capacity) {
  const std::lock_guard lock(mutex);
  WorkspaceBlock*& head = free[class_of(capacity)];
  WorkspaceBlock* const block = head;
  if (block == nullptr) return nullptr;
  head = block->next;
  ++blocks_out;
  return block;
}

Result<WorkspaceBlock*> WorkspaceState::allocate(uint64_t capacity) {
  auto memory = queue->device().allocate(capacity);
  // Blocks of other capacities only help by going back to the device.
  if (!memory && memory.error().code == ErrorCode::kOutOfMemory && return_free()) {
    memory = queue->device().allocate(capacity);
  }
  if (!memory) return std::move(memory).error();
  auto* block = new (std::nothrow) WorkspaceBlock;
  if (block == nullptr) return make_error(ErrorCode::kOutOfMemory, "the host has no memory left");
  block->home = this;
  block->memory = *std::move(memory);
  const std::lock_guard lock(mutex);
  held += capacity;
  most_held = std::max(most_held, held);
  ++allocations;
  ++blocks_out;
  return block;
}

bool WorkspaceState::return_free() {
  std::array<WorkspaceBlock*, 64> returned{};
  {
    const std::lock_guard lock(mutex);
    std::swap(returned, free);
    for (const WorkspaceBlock* block : returned) {
      for (; block != nullptr; block = block->next) held -= block->memory->bytes();
    }
  }
  const bool are_some = std::ranges::any_of(returned, [](const WorkspaceBlock* block) { return block != nullptr; });
  for (WorkspaceBlock* block : returned) {
    while (block != nullptr) delete std::exchange(block, block->next);
  }
  return are_some;
}

void WorkspaceState::give_back(WorkspaceBlock* block) {
  WorkspaceState* const state = block->home;
  bool is_last = false;
  {
    const std::lock_guard lock(state->mutex);
    --state->blocks_out;
    if (!state->is_closed) {
      WorkspaceBlock*& head = state->free[class_of(block->memory->bytes())];
      block->next = head;
      head = block;
      return;
    }
    is_last = state->blocks_out == 0;
  }
  delete block;
  if (is_last) delete state;
}

void WorkspaceState::close(WorkspaceState* state) {
  bool is_last = false;
  {
    const std::lock_guard lock(state->mutex);
    for (WorkspaceBlock* block : state->free) {
      while (block != nullptr) delete std::exchange(block, block->next);
    }
    state->is_closed = true;
    is_last = state->blocks_out == 0;
  }
  if (is_last) delete state;
}

// A workspace of one block, which is closed already.
Tensor DeviceAccess::adopt(std::shared_ptr<Queue> queue, std::unique_ptr<DeviceMemory> memory, const Dims& dims,
                           DType dtype) {
  auto* const state = new WorkspaceState(std::move(queue));
  state->is_closed = true;
  state->blocks_out = 1;
  auto* const block = new WorkspaceBlock;
  block->references.store(1, std::memory_order_relaxed);
  block->home = state;
  block->memory = std::move(memory);
  Tensor tensor;
  tensor.dims_ = dims;
  tensor.dtype_ = dtype;
  tensor.block_ = block;
  return tensor;
}

Workspace::Workspace(std::shared_ptr<Queue> queue) : state_(new WorkspaceState(std::move(queue))) {}

Workspace::~Workspace() { WorkspaceState::close(state_); }

Result<Tensor> Workspace::make(const Dims& dims, DType dtype) {
  constexpr uint64_t kMost = uint64_t{1} << 62;  // short of where bit_ceil ends
  const auto bytes = byte_count(dims, dtype);
  if (!bytes || *bytes > kMost) {
    return make_error(ErrorCode::kOutOfMemory,
                      fmt::format("no memory for a tensor {} {}", dtype_name(dtype), dims.to_string()));
  }
  auto taken = state_->take(std::bit_ceil(std::max(*bytes, kSmallest)));
  if (!taken) {
    const std::string tensor = fmt::format("a tensor {} {}", dtype_name(dtype), dims.to_string());
    const bool is_lost = taken.error().code != ErrorCode::kOutOfMemory;
    return std::move(taken).error().with_context(
        is_lost ? fmt::format("the device \"{}\" is lost, and cannot make {}", queue().device().name(), tensor)
                : "no memory for " + tensor);
  }
  WorkspaceBlock* const block = *taken;
  block->references.store(1, std::memory_order_relaxed);
  block->tape = nullptr;
  Tensor tensor;
  tensor.dims_ = dims;
  tensor.dtype_ = dtype;
  tensor.block_ = block;
  return tensor;
}

Result<Tensor> Workspace::zeros(const Dims& dims, DType dtype) {
  BALLAST_TRY(Tensor tensor, make(dims, dtype));
  queue().fill({tensor.block_->memory.get()}, *byte_count(dims, dtype), std::byte{0});
  return tensor;
}

Result<Tensor> Workspace::copy(const Tensor& x) {
  BALLAST_TRY(Tensor tensor, make(x.dims(), x.dtype()));
  queue().copy({x.block_->memory.get()}, {tensor.block_->memory.get()}, *byte_count(x.dims(), x.dtype()));
  return tensor;
}

Result<Tensor> Workspace::from(std::span<const float> values, const Dims& dims) {
  if (byte_count(dims, DType::kF32) != values.size_bytes()) {
    return make_error(ErrorCode::kInvalidArgument,
                      fmt::format("{} values do not fill a tensor {}", values.size(), dims.to_string()));
  }
  return from_bytes(std::as_bytes(values), dims, DType::kF32);
}

Result<Tensor> Workspace::from_bytes(ByteSpan bytes, const Dims& dims, DType dtype) {
  BALLAST_TRY(Tensor tensor, make(dims, dtype));
  queue().copy_in({tensor.block_->memory.get()}, bytes);
  return tensor;
}

Queue& Workspace::queue() const { return *state_->queue; }
const std::shared_ptr<Queue>& Workspace::shared_queue() const { return state_->queue; }

uint64_t Workspace::peak_bytes() const {
  const std::lock_guard lock(state_->mutex);
  return state_->most_held;
}

uint64_t Workspace::allocations() const {
  const std::lock_guard lock(state_->mutex);
  return state_->allocations;
}

}  // namespace ballast
