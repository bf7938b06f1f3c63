#include "ballast/ops/kv_pages.h"

#include <fmt/format.h>

#include <algorithm>
#include <initializer_list>

#include "ballast/base/checked.h"
#include "ballast/io/guard.h"

namespace ballast {

namespace {

std::optional<uint64_t> product_of(std::initializer_list<uint64_t> factors) {
  std::optional<uint64_t> product = 1;
  for (const uint64_t factor : factors) {
    if (product) product = checked_mul(*product, factor);
  }
  return product;
}

Error no_such_pages(const KvShape& shape, std::string_view why) {
  return make_error(ErrorCode::kInvalidArgument,
                    fmt::format("keys and values of {} layers, {} heads of {} {} and {} positions: {}", shape.layers,
                                shape.kv_heads, shape.head_dim, dtype_name(shape.dtype), shape.most_positions, why));
}

Status check_shape(const KvShape& shape) {
  if (shape.dtype != DType::kF32 && shape.dtype != DType::kF16 && shape.dtype != DType::kF64) {
    return no_such_pages(shape, "they are f32, f16 or f64");
  }
  if (shape.layers == 0 || shape.kv_heads == 0 || shape.head_dim == 0 || shape.most_positions == 0) {
    return no_such_pages(shape, "there is nothing to hold");
  }
  if (!shape.windows.empty() && shape.windows.size() != shape.layers) {
    return no_such_pages(shape, fmt::format("there are {} windows", shape.windows.size()));
  }
  return {};
}

// Of a text that grows position by position. The last query and what it sees before it, a window of positions, begin
// anywhere in a page.
uint64_t pages_held(const KvGroup& group, uint64_t positions, uint64_t besides) {
  const uint64_t all = kv_pages_for(positions);
  const auto seen = group.window == 0 ? std::nullopt : checked_add(group.window - 1, besides);
  return seen ? std::min(all, kv_pages_for(*seen) + 1) : all;
}

}  // namespace

Result<KvLayout> KvLayout::make(const KvShape& shape) {
  return guarded([&]() -> Result<KvLayout> {
    BALLAST_CHECK(check_shape(shape));
    const uint64_t element = dtype_info(shape.dtype).bits / 8;
    const auto plane = product_of({element, shape.head_dim, kPagePositions, shape.kv_heads});
    const auto page = plane ? product_of({*plane, 2, shape.layers}) : std::nullopt;
    if (!page) return no_such_pages(shape, fmt::format("{} positions of them are no number of bytes", kPagePositions));
    KvLayout layout;
    layout.shape_ = shape;
    layout.row_bytes_ = element * shape.head_dim;
    layout.plane_bytes_ = *plane;
    layout.places_.reserve(shape.layers);
    for (uint64_t layer = 0; layer < shape.layers; ++layer) layout.place(layer);
    return layout;
  });
}

void KvLayout::place(uint64_t layer) {
  // A window as wide as the context sees everything.
  const uint64_t window = shape_.window(layer) >= shape_.most_positions ? 0 : shape_.window(layer);
  auto group = std::ranges::find(groups_, window, &KvGroup::window);
  if (group == groups_.end()) group = groups_.insert(group, KvGroup{.window = window, .layers = {}});
  places_.push_back({static_cast<uint64_t>(group - groups_.begin()), group->layers.size()});
  group->layers.push_back(layer);
  group->page_bytes += 2 * plane_bytes_;
}

std::optional<uint64_t> KvLayout::bytes_for(uint64_t positions, uint64_t besides) const {
  std::optional<uint64_t> sum = 0;
  for (const KvGroup& group : groups_) {
    const auto bytes = checked_mul(pages_held(group, positions, besides), group.page_bytes);
    sum = sum && bytes ? checked_add(*sum, *bytes) : std::nullopt;
  }
  return sum;
}

}  // namespace ballast
