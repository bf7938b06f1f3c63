#include "ballast/io/signal_table.h"

#include <dirent.h>
#include <fcntl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <cerrno>
#include <cstring>

#include "ballast/io/file.h"

namespace ballast {

namespace {

enum class SlotState : int { kFree, kFilling, kLive, kRemoving, kRemoved };

struct Slot {
  std::atomic<SlotState> state{SlotState::kFree};
  pid_t process;
  int folder;
  Temporary kind;
  char name[256];
};
static_assert(std::atomic<SlotState>::is_always_lock_free, "a signal handler must not wait for a lock");

// Zero-initialised, so it costs no start-up code and no memory until used.
constinit std::array<Slot, 1024> table{};

void remove_tree_on_signal(int parent, const char* name, int depth);

void remove_entries_on_signal(int folder, int depth) {
  alignas(dirent64) char buffer[4096];
  // Not readdir: it allocates, and the signal may have come in the middle of an allocation.
  for (long size; (size = ::syscall(SYS_getdents64, folder, buffer, sizeof(buffer))) > 0;) {
    for (long at = 0; at < size;) {
      const auto* entry = reinterpret_cast<const dirent64*>(buffer + at);
      at += entry->d_reclen;
      if (std::strcmp(entry->d_name, ".") == 0 || std::strcmp(entry->d_name, "..") == 0) continue;
      if (::unlinkat(folder, entry->d_name, 0) != 0 && depth > 0) {
        remove_tree_on_signal(folder, entry->d_name, depth - 1);
      }
    }
  }
}

void remove_tree_on_signal(int parent, const char* name, int depth) {
  // Other threads write on: what one of them adds after the first look is found by the next.
  constexpr int kLooks = 3;
  const int folder = ::openat(parent, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
  for (int look = 0; folder >= 0 && look < kLooks; ++look) {
    ::lseek(folder, 0, SEEK_SET);
    remove_entries_on_signal(folder, depth);
    if (::unlinkat(parent, name, AT_REMOVEDIR) == 0) break;
  }
  if (folder >= 0) ::close(folder);
}

void remove_on_signal(Temporary kind) {
  constexpr int kDepth = 16;  // far more than any folder of a model has, and little of a handler's stack
  const pid_t self = ::getpid();
  for (Slot& slot : table) {
    if (slot.state.load() != SlotState::kLive || slot.kind != kind) continue;
    SlotState expected = SlotState::kLive;
    if (!slot.state.compare_exchange_strong(expected, SlotState::kRemoving)) continue;
    if (slot.process == self && slot.kind == Temporary::kFile) ::unlinkat(slot.folder, slot.name, 0);
    else if (slot.process == self) remove_tree_on_signal(slot.folder, slot.name, kDepth);
    slot.state.store(SlotState::kRemoved);
  }
}

}  // namespace

int enter_signal_table(int folder, const std::string& name, Temporary kind) {
  if (name.size() >= sizeof(Slot::name)) return -1;
  for (size_t i = 0; i < table.size(); ++i) {
    Slot& slot = table[i];
    SlotState expected = SlotState::kFree;
    if (!slot.state.compare_exchange_strong(expected, SlotState::kFilling)) continue;
    slot.process = ::getpid();
    slot.folder = folder;
    slot.kind = kind;
    std::memcpy(slot.name, name.c_str(), name.size() + 1);
    slot.state.store(SlotState::kLive);
    return static_cast<int>(i);
  }
  return -1;
}

void leave_signal_table(int slot) {
  if (slot < 0) return;
  std::atomic<SlotState>& state = table[static_cast<size_t>(slot)].state;
  SlotState expected = SlotState::kLive;
  if (state.compare_exchange_strong(expected, SlotState::kFree)) return;
  // A handler took it. While one is still at work on another thread, the slot must not change under it: it is lost,
  // which is no matter in a process that is about to end.
  expected = SlotState::kRemoved;
  state.compare_exchange_strong(expected, SlotState::kFree);
}

void remove_temporaries_on_signal() noexcept {
  const int saved_errno = errno;
  remove_on_signal(Temporary::kFile);
  remove_on_signal(Temporary::kFolder);  // last, so that they are empty sooner
  errno = saved_errno;
}

}  // namespace ballast
