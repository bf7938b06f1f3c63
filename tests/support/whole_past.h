// The past of one sequence with pages for every position, for tests of what reads and writes it.
#pragma once

#include <memory>

#include "ballast/device/device.h"
#include "ballast/ops/kv_pages.h"

namespace ballast::testing {

inline KvPast whole_past(const KvShape& shape, Device& device = *host_device()) {
  KvPast past;
  past.layout = std::make_shared<const KvLayout>(*KvLayout::make(shape));
  for (const KvGroup& group : past.layout->groups()) {
    auto& pages = past.pages.emplace_back();
    for (uint64_t at = 0; at < shape.most_positions; at += kPagePositions) {
      pages.emplace_back(std::move(*device.allocate(group.page_bytes)));
    }
  }
  return past;
}

}  // namespace ballast::testing
