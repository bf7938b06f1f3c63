// What stands behind the handles of the C interface.
//
// A handle is no address but a number: which slot of one table, and which generation of that slot. A handle that was
// closed, or that never was one, is therefore found out instead of read. Its top bits are those of no address, so that
// collectors of other languages never take it for memory of theirs.
#pragma once

#include <ballast.h>

#include <cstdint>
#include <deque>
#include <memory>
#include <mutex>

#include "ballast/base/result.h"

namespace ballast::c {

enum class HandleKind : uint8_t {
  kNone,
  kError,
  kBuffer,
  kCancel,
  kArchive,
  kTensor,
  kWriter,
  kConversion,
  kFindings,
  kDiff,
  kTokenizer,
  kTokens,
  kTextModel,
  kEngine,
  kChat,
  kEmbedder,
  kImageModel,
  kDiagnosis,
  kStatistics,
  kConstraint,
};

// Any number of threads may use it.
class HandleTable {
 public:
  // Never destroyed: threads of the program may outlive its static objects.
  static HandleTable& instance();

  uintptr_t add(HandleKind kind, std::shared_ptr<void> object);
  // Null where it is closed, of another kind, or none.
  std::shared_ptr<void> find(uintptr_t handle, HandleKind kind);
  // What it held, so that the caller destroys it without the table's lock.
  std::shared_ptr<void> remove(uintptr_t handle, HandleKind kind) noexcept;
  size_t open();

 private:
  struct Slot {
    std::shared_ptr<void> object;
    uint32_t generation = 1;
    HandleKind kind = HandleKind::kNone;  // kNone: free
    uint32_t next_free = 0;
  };
  Slot* slot_of(uintptr_t handle, HandleKind kind);

  std::mutex mutex_;
  std::deque<Slot> slots_;
  uint32_t first_free_ = 0;  // slots number from 1
  size_t open_ = 0;
};

// Which object a type of handle stands for; each file says it of its own.
template <typename Handle>
struct HandleTraits;

Error not_a_handle(const char* what);

// The object, alive while the result is, even if another thread closes the handle meanwhile.
template <typename Handle>
Result<std::shared_ptr<typename HandleTraits<Handle>::Object>> use(const Handle* handle) {
  using Traits = HandleTraits<Handle>;
  auto object = HandleTable::instance().find(reinterpret_cast<uintptr_t>(handle), Traits::kKind);
  if (object == nullptr) return not_a_handle(Traits::kName);
  return std::static_pointer_cast<typename Traits::Object>(std::move(object));
}

template <typename Handle>
Handle* hand_out(std::shared_ptr<typename HandleTraits<Handle>::Object> object) {
  return reinterpret_cast<Handle*>(HandleTable::instance().add(HandleTraits<Handle>::kKind, std::move(object)));
}

template <typename Handle>
void drop(Handle* handle) noexcept {
  HandleTable::instance().remove(reinterpret_cast<uintptr_t>(handle), HandleTraits<Handle>::kKind);
}

}  // namespace ballast::c
