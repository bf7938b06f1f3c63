// Memory that holds bytes of parameters: aligned to 64, and of a size that is known exactly, because it is counted.
#pragma once

#include <cstdint>
#include <memory>
#include <new>
#include <utility>

#include "ballast/base/bytes.h"
#include "ballast/io/pages.h"

namespace ballast {

class Buffer {
 public:
  static constexpr size_t kAlignment = 64;

  Buffer() = default;
  // For at least so many bytes; is empty() where there is no memory.
  explicit Buffer(uint64_t bytes) { allocate(bytes); }
  Buffer(Buffer&& other) noexcept { *this = std::move(other); }
  Buffer& operator=(Buffer&& other) noexcept {
    std::swap(small_, other.small_);
    std::swap(pages_, other.pages_);
    std::swap(capacity_, other.capacity_);
    return *this;
  }

  // What a buffer for so many bytes occupies. Saturates.
  static uint64_t capacity_for(uint64_t bytes);
  // The most bytes whose buffer occupies no more than this.
  static uint64_t bytes_within(uint64_t capacity);

  bool empty() const { return capacity_ == 0; }
  uint64_t capacity() const { return capacity_; }
  std::byte* data() const { return small_ != nullptr ? small_.get() : pages_.data(); }

  // For at least so many bytes from now on, of any content; keeps memory that it has. Never holds more than the larger
  // of both capacities. May be empty() afterwards.
  void resize(uint64_t bytes);

 private:
  struct Free {
    void operator()(std::byte* memory) const { ::operator delete (memory, std::align_val_t{kAlignment}); }
  };
  void allocate(uint64_t bytes);

  std::unique_ptr<std::byte, Free> small_;
  Pages pages_;
  uint64_t capacity_ = 0;
};

}  // namespace ballast
