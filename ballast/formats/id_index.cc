#include "ballast/formats/id_index.h"

#include <algorithm>
#include <atomic>
#include <string>
#include <vector>

#include "ballast/base/near_miss.h"

namespace ballast {

namespace {

struct IdRow {
  BaseParamId id;
  size_t position;
};

using IdRows = std::vector<IdRow>;

IdRows rows_by_id(std::span<const TensorInfo> tensors) {
  IdRows rows;
  rows.reserve(tensors.size());
  for (size_t i = 0; i < tensors.size(); ++i) rows.push_back({base_param_id(tensors[i].name), i});
  std::ranges::stable_sort(rows, {}, [](const IdRow& row) { return row.id.bytes; });
  return rows;
}

}  // namespace

// Threads that ask first at the same time each compute all ids, and one result stays: this layer has no locks.
struct IdIndex::Lazy {
  Lazy() = default;
  ~Lazy() { delete rows.load(); }
  Lazy(const Lazy&) = delete;
  Lazy& operator=(const Lazy&) = delete;

  const IdRows& rows_of(std::span<const TensorInfo> tensors) {
    if (const IdRows* there = rows.load(std::memory_order_acquire)) return *there;
    auto mine = std::make_unique<const IdRows>(rows_by_id(tensors));
    const IdRows* before = nullptr;
    if (!rows.compare_exchange_strong(before, mine.get(), std::memory_order_acq_rel)) return *before;
    return *mine.release();
  }

  std::atomic<const IdRows*> rows{nullptr};
};

IdIndex::IdIndex() : lazy_(std::make_shared<Lazy>()) {}

std::optional<size_t> IdIndex::find(std::span<const TensorInfo> tensors, const BaseParamId& id) const {
  const IdRows& rows = lazy_->rows_of(tensors);
  const auto found = std::ranges::lower_bound(rows, id.bytes, {}, [](const IdRow& row) { return row.id.bytes; });
  if (found == rows.end() || found->id != id) return std::nullopt;
  return found->position;
}

std::optional<size_t> nearest_id(std::span<const TensorInfo> tensors, const BaseParamId& id) {
  const std::string other_order = id.to_number_hex();
  std::vector<std::string> digits;
  digits.reserve(tensors.size());
  for (size_t i = 0; i < tensors.size(); ++i) {
    digits.push_back(base_param_id(tensors[i].name).to_bytes_hex());
    if (digits.back() == other_order) return i;
  }
  const std::string_view best = nearest(id.to_bytes_hex(), digits);
  if (best.empty()) return std::nullopt;
  return static_cast<size_t>(std::ranges::find(digits, best) - digits.begin());
}

}  // namespace ballast
