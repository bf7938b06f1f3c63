// Large memory straight from the operating system: what is given back is gone from the process at once, which the heap
// does not promise.
#pragma once

#include <cstddef>
#include <utility>

namespace ballast {

class Pages {
 public:
  Pages() = default;
  // Zeroed and not yet backed by memory; is empty() where there is none.
  explicit Pages(size_t bytes);
  ~Pages();
  Pages(Pages&& other) noexcept : data_(std::exchange(other.data_, nullptr)), size_(std::exchange(other.size_, 0)) {}
  Pages& operator=(Pages&& other) noexcept {
    std::swap(data_, other.data_);
    std::swap(size_, other.size_);
    return *this;
  }

  static size_t page_size();

  bool empty() const { return data_ == nullptr; }
  std::byte* data() const { return data_; }
  size_t size() const { return size_; }  // a multiple of the page size

  // Becomes so many bytes with whatever content, keeping the memory it has as far as it is needed. Where that cannot be
  // done it is empty() afterwards.
  void resize(size_t bytes);

 private:
  std::byte* data_ = nullptr;
  size_t size_ = 0;
};

}  // namespace ballast
