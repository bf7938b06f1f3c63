#include <fmt/format.h>

#include <bit>
#include <cstring>
#include <mutex>
#include <new>
#include <optional>

#include "ballast/base/checked.h"
#include "ballast/ops/tensor.h"

namespace ballast {

namespace {

constexpr std::align_val_t kAlignment{64};
constexpr size_t kSmallest = 64;

// Capacities are powers of two: few classes, so that a block finds its next user soon. Of a large block, pages that
// nobody touches cost nothing.
size_t class_of(size_t capacity) { return static_cast<size_t>(std::countr_zero(capacity)); }

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

struct Workspace::State {
  mutable std::mutex mutex;
  std::array<WorkspaceBlock*, 64> free{};  // by class
  uint64_t held = 0;
  uint64_t allocations = 0;

  WorkspaceBlock* take_free(size_t capacity) {
    const std::lock_guard lock(mutex);
    WorkspaceBlock*& head = free[class_of(capacity)];
    WorkspaceBlock* const block = head;
    if (block != nullptr) head = block->next;
    return block;
  }

  WorkspaceBlock* allocate(Workspace* home, size_t capacity) {
    auto* block = new (std::nothrow) WorkspaceBlock;
    if (block == nullptr) return nullptr;
    block->home = home;
    block->capacity = capacity;
    block->data = static_cast<std::byte*>(::operator new(capacity, kAlignment, std::nothrow));
    if (block->data == nullptr) {
      delete block;
      return nullptr;
    }
    const std::lock_guard lock(mutex);
    held += capacity;
    ++allocations;
    return block;
  }
};

Workspace::Workspace() : state_(std::make_unique<State>()) {}

Workspace::~Workspace() {
  for (WorkspaceBlock* block : state_->free) {
    while (block != nullptr) {
      WorkspaceBlock* const next = block->next;
      ::operator delete(block->data, kAlignment);
      delete block;
      block = next;
    }
  }
}

Result<Tensor> Workspace::make(const Dims& dims, DType dtype) {
  constexpr uint64_t kMost = uint64_t{1} << 46;  // beyond any address space, and short of where bit_ceil ends
  const auto bytes = byte_count(dims, dtype);
  WorkspaceBlock* block = nullptr;
  if (bytes && *bytes <= kMost) {
    const size_t capacity = std::bit_ceil(std::max<size_t>(*bytes, kSmallest));
    block = state_->take_free(capacity);
    if (block == nullptr) block = state_->allocate(this, capacity);
  }
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
  std::memset(tensor.writable<std::byte>(), 0, tensor.bytes().size());
  return tensor;
}

Result<Tensor> Workspace::from(std::span<const float> values, const Dims& dims) {
  if (byte_count(dims, DType::kF32) != values.size_bytes()) {
    return make_error(ErrorCode::kInvalidArgument,
                      fmt::format("{} values do not fill a tensor {}", values.size(), dims.to_string()));
  }
  BALLAST_TRY(Tensor tensor, make(dims));
  if (!values.empty()) std::memcpy(tensor.writable<float>(), values.data(), values.size_bytes());
  return tensor;
}

uint64_t Workspace::peak_bytes() const {
  const std::lock_guard lock(state_->mutex);
  return state_->held;
}

uint64_t Workspace::allocations() const {
  const std::lock_guard lock(state_->mutex);
  return state_->allocations;
}

void Workspace::give_back(WorkspaceBlock* block) {
  const std::lock_guard lock(state_->mutex);
  WorkspaceBlock*& head = state_->free[class_of(block->capacity)];
  block->next = head;
  head = block;
}

}  // namespace ballast
