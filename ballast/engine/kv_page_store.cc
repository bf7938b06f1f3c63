#include "ballast/engine/kv_page_store.h"

#include <fmt/format.h>

namespace ballast {

namespace {

// Of a device's memory: parameters that are not uploaded yet and activations need some too.
constexpr uint64_t kSmallestReserve = uint64_t{512} << 20;
constexpr uint64_t kReservedPart = 20;

}  // namespace

KvPageStore::KvPageStore(std::shared_ptr<Queue> queue, std::shared_ptr<const KvLayout> layout, uint64_t most_bytes)
    : queue_(std::move(queue)),
      layout_(std::move(layout)),
      most_bytes_(most_bytes),
      groups_(layout_->groups().size()) {}

Result<KvPage> KvPageStore::take(size_t group) {
  Group& pages = groups_[group];
  if (pages.free.empty()) BALLAST_CHECK(allocate(group));
  DeviceMemory* const memory = pages.free.back().release();
  pages.free.pop_back();
  ++pages.out;
  // Where there is no memory for its count, shared_ptr calls the deleter: the page is free again and nothing leaks.
  return KvPage(memory, [store = shared_from_this(), group](DeviceMemory* page) { store->give_back(group, page); });
}

void KvPageStore::give_back(size_t group, DeviceMemory* memory) noexcept {
  --groups_[group].out;
  groups_[group].free.emplace_back(memory);
}

Status KvPageStore::allocate(size_t group) {
  Group& pages = groups_[group];
  const uint64_t bytes = layout_->groups()[group].page_bytes;
  // Pages of other groups have another size: free ones only help by going back to the device.
  while (!fits(bytes) && return_one()) {
  }
  if (!fits(bytes)) {
    return make_error(ErrorCode::kOutOfMemory, fmt::format("a page of {} bytes does not fit: {} of {} bytes are in use",
                                                           bytes, bytes_, most_bytes_));
  }
  auto reserve = missing_reserve(bytes);
  while (reserve && return_one()) reserve = missing_reserve(bytes);
  if (reserve) {
    return make_error(
        ErrorCode::kOutOfMemory,
        fmt::format("{}: a page of {} bytes of keys and values would leave less than {} bytes of its memory "
                    "for what the model computes: use a smaller model or shorter texts, or give the KV "
                    "cache a budget of its own",
                    queue_->device().name(), bytes, *reserve));
  }
  make_room(pages.free, pages.all + 1);
  auto memory = queue_->device().allocate(bytes);
  while (!memory && memory.error().code == ErrorCode::kOutOfMemory && return_one()) {
    memory = queue_->device().allocate(bytes);
  }
  if (!memory) return std::move(memory).error();
  pages.free.push_back(*std::move(memory));
  ++pages.all;
  bytes_ += bytes;
  peak_bytes_ = std::max(peak_bytes_, bytes_);
  return {};
}

std::optional<uint64_t> KvPageStore::missing_reserve(uint64_t bytes) const {
  if (most_bytes_ != 0) return std::nullopt;
  const Device& device = queue_->device();
  const auto free = device.free_memory();
  const uint64_t reserve = std::max(kSmallestReserve, device.limits().memory / kReservedPart);
  if (!free || (*free >= reserve && *free - reserve >= bytes)) return std::nullopt;
  return reserve;
}

bool KvPageStore::return_one() {
  for (Group& group : groups_) {
    if (group.free.empty()) continue;
    bytes_ -= group.free.back()->bytes();
    group.free.pop_back();
    --group.all;
    return true;
  }
  return false;
}

void KvPageStore::trim() {
  while (return_one()) {
  }
}

}  // namespace ballast
