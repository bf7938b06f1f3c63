#include "ballast/device/tensor.h"

#include <fmt/format.h>

#include <algorithm>

#include "ballast/device/workspace_state.h"

namespace ballast {

Dims::Dims(std::span<const uint64_t> dims) : rank_(std::min(dims.size(), kMaxRank)) {
  std::copy_n(dims.begin(), rank_, dims_.begin());
}

uint64_t Dims::count() const {
  uint64_t product = 1;
  for (const uint64_t dim : span()) product *= dim;
  return product;
}

uint64_t Dims::leading() const {
  uint64_t product = 1;
  for (size_t axis = 0; axis + 1 < rank_; ++axis) product *= dims_[axis];
  return product;
}

std::string Dims::to_string() const { return fmt::format("[{}]", fmt::join(span(), ", ")); }

bool operator==(const Dims& a, const Dims& b) { return std::ranges::equal(a.span(), b.span()); }

Tensor::Tensor(const Tensor& other) : dims_(other.dims_), dtype_(other.dtype_), block_(other.block_) {
  if (block_ != nullptr) block_->references.fetch_add(1, std::memory_order_relaxed);
}

Tensor::~Tensor() {
  // Acquire, so that whoever recycles the memory comes after everyone who read it.
  if (block_ != nullptr && block_->references.fetch_sub(1, std::memory_order_acq_rel) == 1) {
    WorkspaceState::give_back(block_);
  }
}

void Tensor::swap(Tensor& other) noexcept {
  std::swap(dims_, other.dims_);
  std::swap(dtype_, other.dtype_);
  std::swap(block_, other.block_);
}

Status Tensor::read(MutableByteSpan out) const {
  if (block_ == nullptr) return {};
  Queue& queue = *block_->home->queue;
  queue.copy_out({block_->memory.get()}, out);
  return queue.finish();
}

void Tensor::write(ByteSpan from) {
  if (block_ != nullptr) block_->home->queue->copy_in({block_->memory.get()}, from);
}

Result<const std::byte*> Tensor::host_view() const {
  if (block_ == nullptr || block_->memory->host_address() == nullptr) return static_cast<const std::byte*>(nullptr);
  BALLAST_CHECK(block_->home->queue->finish());
  return static_cast<const std::byte*>(block_->memory->host_address());
}

const Device* Tensor::device() const { return block_ != nullptr ? &block_->home->queue->device() : nullptr; }

Tensor Tensor::reshaped(const Dims& dims) const {
  Tensor other = *this;
  other.dims_ = dims;
  return other;
}

}  // namespace ballast
