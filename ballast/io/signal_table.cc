#include "ballast/io/signal_table.h"

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
  char name[256];
};
static_assert(std::atomic<SlotState>::is_always_lock_free, "a signal handler must not wait for a lock");

// Zero-initialised, so it costs no start-up code and no memory until used.
constinit std::array<Slot, 1024> table{};

}  // namespace

int enter_signal_table(int folder, const std::string& name) {
  if (name.size() >= sizeof(Slot::name)) return -1;
  for (size_t i = 0; i < table.size(); ++i) {
    Slot& slot = table[i];
    SlotState expected = SlotState::kFree;
    if (!slot.state.compare_exchange_strong(expected, SlotState::kFilling)) continue;
    slot.process = ::getpid();
    slot.folder = folder;
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
  const pid_t self = ::getpid();
  for (Slot& slot : table) {
    SlotState expected = SlotState::kLive;
    if (!slot.state.compare_exchange_strong(expected, SlotState::kRemoving)) continue;
    if (slot.process == self) ::unlinkat(slot.folder, slot.name, 0);
    slot.state.store(SlotState::kRemoved);
  }
  errno = saved_errno;
}

}  // namespace ballast
