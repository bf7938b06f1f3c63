#include "bindings/core/arena.h"

#include <memory>
#include <new>

namespace ballast::core {

Arena* Arena::make(void* block, size_t size) {
  constexpr size_t kUnit = sizeof(Header);
  const size_t whole = size;
  void* aligned = block;
  if (block == nullptr || std::align(alignof(Header), sizeof(Arena), aligned, size) == nullptr) return nullptr;
  const size_t own = (sizeof(Arena) + kUnit - 1) / kUnit * kUnit;
  const size_t units = (size - (own < size ? own : size)) / kUnit;
  if (units < 2 || units > UINT32_MAX) return nullptr;
  auto* begin = reinterpret_cast<Header*>(static_cast<std::byte*>(aligned) + own);
  return ::new (aligned) Arena(begin, begin + units, whole, whole - size + own);
}

Arena::Arena(Header* begin, Header* end, size_t total, size_t before)
    : begin_(begin), end_(end), first_free_(begin), total_(total), before_(before), peak_(before) {
  ::new (begin) Header{static_cast<uint32_t>(end - begin), kFree};
}

void Arena::join_free(Header* block) {
  for (Header* next = block + block->units; next < end_ && next->call == kFree; next = block + block->units) {
    block->units += next->units;
  }
}

void* Arena::allocate(size_t size) {
  const size_t most = static_cast<size_t>(end_ - begin_) * sizeof(Header);
  if (size > most - sizeof(Header)) return nullptr;
  const auto units = static_cast<uint32_t>(1 + (size + sizeof(Header) - 1) / sizeof(Header));
  bool first = true;
  for (Header* block = first_free_; block < end_; block += block->units) {
    if (block->call != kFree) continue;
    join_free(block);
    if (first) first_free_ = block;
    first = false;
    if (block->units < units) continue;
    if (block->units > units) ::new (block + units) Header{block->units - units, kFree};
    block->units = units;
    block->call = call_;
    if (block == first_free_) first_free_ = block + units;
    const size_t used = before_ + static_cast<size_t>(block + units - begin_) * sizeof(Header);
    if (used > peak_) peak_ = used;
    return block + 1;
  }
  return nullptr;
}

void Arena::release(void* pointer) {
  Header* block = static_cast<Header*>(pointer) - 1;
  block->call = kFree;
  if (block < first_free_) first_free_ = block;
}

bool Arena::owns(const void* pointer) const { return pointer >= begin_ && pointer < end_; }

void Arena::roll_back() {
  for (Header* block = begin_; block < end_; block += block->units) {
    if (block->call != call_) continue;
    block->call = kFree;
    if (block < first_free_) first_free_ = block;
  }
}

namespace {

Call* innermost_call = nullptr;

}  // namespace

Call* running_call() { return innermost_call; }
void set_running_call(Call* call) { innermost_call = call; }

void leave_call(size_t wanted, const char* defect) {
  Call* call = innermost_call;
  if (call == nullptr) __builtin_trap();
  call->wanted = wanted;
  call->defect = defect;
  std::longjmp(call->out, 1);
}

}  // namespace ballast::core
