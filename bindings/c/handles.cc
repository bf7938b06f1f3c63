#include "bindings/c/handles.h"

#include <string>

namespace ballast::c {

namespace {

static_assert(sizeof(uintptr_t) == 8, "a handle has 24 bits of slot, 24 of generation and 16 of mark");

constexpr unsigned kSlotBits = 24;
constexpr unsigned kMarkShift = 48;
constexpr uint32_t kLargest = (1U << kSlotBits) - 1;  // of slots and of generations
// Neither all zeros nor all ones, as the top bits of every address are.
constexpr uintptr_t kMark = 0x0BA1;

uintptr_t handle_of(uint32_t slot, uint32_t generation) {
  return kMark << kMarkShift | uintptr_t{generation} << kSlotBits | slot;
}

}  // namespace

HandleTable& HandleTable::instance() {
  static HandleTable& table = *new HandleTable;
  return table;
}

uintptr_t HandleTable::add(HandleKind kind, std::shared_ptr<void> object) {
  const std::lock_guard lock(mutex_);
  if (first_free_ == 0) {
    if (slots_.size() == kLargest) throw std::bad_alloc();
    slots_.emplace_back();
    first_free_ = static_cast<uint32_t>(slots_.size());
  }
  const uint32_t number = first_free_;
  Slot& slot = slots_[number - 1];
  first_free_ = slot.next_free;
  slot.object = std::move(object);
  slot.kind = kind;
  slot.next_free = 0;
  ++open_;
  return handle_of(number, slot.generation);
}

HandleTable::Slot* HandleTable::slot_of(uintptr_t handle, HandleKind kind) {
  const auto number = static_cast<uint32_t>(handle & kLargest);
  if (number == 0 || number > slots_.size()) return nullptr;
  Slot& slot = slots_[number - 1];
  return slot.kind == kind && handle_of(number, slot.generation) == handle ? &slot : nullptr;
}

std::shared_ptr<void> HandleTable::find(uintptr_t handle, HandleKind kind) {
  const std::lock_guard lock(mutex_);
  const Slot* slot = slot_of(handle, kind);
  return slot != nullptr ? slot->object : nullptr;
}

std::shared_ptr<void> HandleTable::remove(uintptr_t handle, HandleKind kind) noexcept {
  const std::lock_guard lock(mutex_);
  Slot* slot = slot_of(handle, kind);
  if (slot == nullptr) return nullptr;
  std::shared_ptr<void> object = std::move(slot->object);
  slot->kind = HandleKind::kNone;
  --open_;
  // A slot that has had all its generations is never used again: no old handle may come to life.
  if (slot->generation == kLargest) return object;
  ++slot->generation;
  slot->next_free = first_free_;
  first_free_ = static_cast<uint32_t>(handle & kLargest);
  return object;
}

size_t HandleTable::open() {
  const std::lock_guard lock(mutex_);
  return open_;
}

Error not_a_handle(const char* what) {
  return make_error(ErrorCode::kInvalidArgument, std::string("this is no open ") + what + ": NULL, or closed before");
}

}  // namespace ballast::c
