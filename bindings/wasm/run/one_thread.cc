// Of io what computing needs, where there is one thread and no operating system.
#include <cstdlib>
#include <cstring>

#include "ballast/io/pages.h"
#include "ballast/io/processor.h"
#include "ballast/io/thread_pool.h"

namespace ballast {

struct ThreadPool::State {};

ThreadPool::ThreadPool(unsigned /*threads*/) {}
ThreadPool::~ThreadPool() = default;
unsigned ThreadPool::size() const { return 1; }

void ThreadPool::run(size_t count, size_t /*grain*/, Call call, const void* body) {
  if (count != 0) call(body, 0, count);
}

bool has_dot_products() { return false; }
bool may_use_tiles() { return false; }

namespace {
constexpr size_t kPage = 64 << 10;
}  // namespace

size_t Pages::page_size() { return kPage; }

Pages::Pages(size_t bytes) {
  if (bytes == 0 || bytes > SIZE_MAX - kPage) return;
  const size_t size = (bytes + kPage - 1) / kPage * kPage;
  void* const memory = std::aligned_alloc(64, size);
  if (memory == nullptr) return;
  data_ = static_cast<std::byte*>(std::memset(memory, 0, size));
  size_ = size;
}

Pages::~Pages() { std::free(data_); }

void Pages::resize(size_t bytes) {
  if (bytes <= size_ && bytes > size_ - kPage) return;
  { const Pages released = std::move(*this); }  // first, so that both are never there at once
  *this = Pages(bytes);
}

}  // namespace ballast
