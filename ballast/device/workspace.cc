#include <fmt/format.h>

#include <bit>
#include <new>
#include <optional>

#include "ballast/base/checked.h"
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

WorkspaceBlock* WorkspaceState::take(uint64_t capacity) {
  WorkspaceBlock* const block = take_free(capacity);
  return block != nullptr ? block : allocate(capacity);
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

WorkspaceBlock* WorkspaceState::allocate(uint64_t capacity) {
  auto memory = queue->device().allocate(capacity);
  if (!memory) return nullptr;
  auto* block = new (std::nothrow) WorkspaceBlock;
  if (block == nullptr) return nullptr;
  block->home = this;
  block->memory = *std::move(memory);
  const std::lock_guard lock(mutex);
  held += capacity;
  ++allocations;
  ++blocks_out;
  return block;
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

Workspace::Workspace(std::shared_ptr<Queue> queue) : state_(new WorkspaceState(std::move(queue))) {}

Workspace::~Workspace() { WorkspaceState::close(state_); }

Result<Tensor> Workspace::make(const Dims& dims, DType dtype) {
  constexpr uint64_t kMost = uint64_t{1} << 62;  // short of where bit_ceil ends
  const auto bytes = byte_count(dims, dtype);
  WorkspaceBlock* const block =
      bytes && *bytes <= kMost ? state_->take(std::bit_ceil(std::max(*bytes, kSmallest))) : nullptr;
  if (block == nullptr) {
    return make_error(ErrorCode::kOutOfMemory,
                      fmt::format("no memory for a tensor {} {}", dtype_name(dtype), dims.to_string()));
  }
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
  return state_->held;
}

uint64_t Workspace::allocations() const {
  const std::lock_guard lock(state_->mutex);
  return state_->allocations;
}

}  // namespace ballast
