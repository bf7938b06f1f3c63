#include "ballast/io/pages.h"

#include <sys/mman.h>
#include <unistd.h>

#include <cstdint>

namespace ballast {

namespace {

// 0 when it does not fit.
size_t whole_pages(size_t bytes) {
  const size_t page = Pages::page_size();
  return bytes > SIZE_MAX - page ? 0 : (bytes + page - 1) / page * page;
}

}  // namespace

size_t Pages::page_size() {
  static const auto kPage = static_cast<size_t>(::sysconf(_SC_PAGESIZE));
  return kPage;
}

Pages::Pages(size_t bytes) {
  const size_t size = whole_pages(bytes);
  if (size == 0) return;
  void* address = ::mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (address == MAP_FAILED) return;
  data_ = static_cast<std::byte*>(address);
  size_ = size;
}

Pages::~Pages() {
  if (data_ != nullptr) ::munmap(data_, size_);
}

void Pages::resize(size_t bytes) {
  const size_t size = whole_pages(bytes);
  if (size == size_) return;
#ifdef MREMAP_MAYMOVE
  if (!empty() && size != 0) {
    void* address = ::mremap(data_, size_, size, MREMAP_MAYMOVE);
    if (address != MAP_FAILED) {
      data_ = static_cast<std::byte*>(address);
      size_ = size;
      return;
    }
  }
#endif
  { const Pages released = std::move(*this); }  // first, so that both are never there at once
  *this = Pages(bytes);
}

}  // namespace ballast
