#include "ballast/params/buffer.h"

#include <algorithm>
#include <limits>

#include "ballast/base/checked.h"

namespace ballast {

namespace {

// From here on a page more or less does not matter, and giving memory back to the system does.
constexpr uint64_t kPaged = 64 << 10;

}  // namespace

uint64_t Buffer::capacity_for(uint64_t bytes) {
  const uint64_t unit = bytes < kPaged ? kAlignment : Pages::page_size();
  return checked_align_up(std::max<uint64_t>(bytes, 1), unit).value_or(std::numeric_limits<uint64_t>::max());
}

uint64_t Buffer::bytes_within(uint64_t capacity) {
  return capacity - capacity % (capacity < kPaged ? kAlignment : Pages::page_size());
}

void Buffer::allocate(uint64_t bytes) {
  const uint64_t capacity = capacity_for(bytes);
  if (capacity > std::numeric_limits<size_t>::max() / 2) return;
  if (bytes < kPaged) {
    small_.reset(static_cast<std::byte*>(
        ::operator new (static_cast<size_t>(capacity), std::align_val_t{kAlignment}, std::nothrow)));
  } else {
    pages_.resize(static_cast<size_t>(capacity));
  }
  capacity_ = data() == nullptr ? 0 : capacity;
}

void Buffer::resize(uint64_t bytes) {
  if (capacity_for(bytes) == capacity_) return;
  small_.reset();
  if (bytes < kPaged) pages_ = Pages();
  capacity_ = 0;
  allocate(bytes);
}

}  // namespace ballast
