// The block of memory that a caller of ballast_core.h gives, and how an allocation that fails leaves a call.
//
// operator new draws from the arena of the call that is running. Where that is full it cannot return, and without
// exceptions it cannot throw either: it jumps to the beginning of the call (enter.h), which gives back everything that
// the call allocated. No destructor runs on the way, and none has to: what they would free is in the arena, and the
// core holds nothing else (no files, no locks).
#pragma once

#include <csetjmp>
#include <cstddef>
#include <cstdint>

namespace ballast::core {

// First fit over blocks that lie side by side, each behind a header: fragmentation matters more than speed in 64 KiB.
// Finding room takes time by the number of blocks behind the first free one.
class Arena {
 public:
  // In the block itself, behind it the memory that it manages; null where the block is too small even for that.
  static Arena* make(void* block, size_t size);

  // Null where there is no room.
  void* allocate(size_t size);
  void release(void* pointer);
  bool owns(const void* pointer) const;

  size_t peak() const { return peak_; }
  size_t size() const { return total_; }

  // Calls are numbered, so that one that fails can give back what it allocated.
  void begin_call() { ++call_; }
  void roll_back();

 private:
  struct alignas(std::max_align_t) Header {
    uint32_t units;  // of the block with its header, in headers
    uint32_t call;   // which call allocated it; kFree: it is free
  };
  static constexpr uint32_t kFree = 0;

  Arena(Header* begin, Header* end, size_t total, size_t before);
  void join_free(Header* block);

  Header* begin_;
  Header* end_;
  Header* first_free_;  // no block before it is free
  size_t total_;
  size_t before_;  // bytes of the caller's block in front of begin_
  size_t peak_;
  uint32_t call_ = kFree;
};

// The call that is running.
struct Call {
  Arena* arena;
  Call* outer;
  size_t wanted = 0;             // what the allocation that failed asked for
  const char* defect = nullptr;  // set where no allocation failed, but the standard library gave up
  std::jmp_buf out;
};
Call* running_call();
void set_running_call(Call* call);

// Leaves the running call. Ends the program where none is running, which is a defect.
[[noreturn]] void leave_call(size_t wanted, const char* defect);

}  // namespace ballast::core
