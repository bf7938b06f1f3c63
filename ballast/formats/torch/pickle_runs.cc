#include "ballast/formats/torch/pickle_runs.h"

namespace ballast {

namespace {

constexpr uint32_t kNoRun = UINT32_MAX;

uint64_t first_and_last(uint32_t first, uint32_t last) { return uint64_t{last} << 32 | first; }

uint32_t first_run(uint64_t number) { return static_cast<uint32_t>(number); }

uint32_t last_run(uint64_t number) { return static_cast<uint32_t>(number >> 32); }

}  // namespace

PickleTree::Node PickleRuns::empty(PickleKind kind) { return {.kind = kind, .number = first_and_last(kNoRun, kNoRun)}; }

bool PickleRuns::add(Node& container, uint32_t first, size_t count, uint64_t most) {
  const uint32_t last = last_run(container.number);
  container.count += static_cast<uint32_t>(count);
  if (last != kNoRun && runs_[last].first + runs_[last].count == first) {
    runs_[last].count += static_cast<uint32_t>(count);
    return true;
  }
  if (count == 0) return true;
  if (runs_.size() >= most) return false;
  const auto run = static_cast<uint32_t>(runs_.size());
  runs_.push_back({first, static_cast<uint32_t>(count), kNoRun});
  if (last != kNoRun) runs_[last].next = run;
  container.number = first_and_last(last == kNoRun ? run : first_run(container.number), run);
  return true;
}

std::vector<PickleValue> PickleRuns::held(const Node& container, const std::vector<PickleValue>& places) const {
  std::vector<PickleValue> found;
  if (container.kind == PickleKind::kTuple) {
    const auto begin = places.begin() + static_cast<ptrdiff_t>(container.number);
    found.assign(begin, begin + container.count);
    return found;
  }
  found.reserve(container.count);
  for (uint32_t run = first_run(container.number); run != kNoRun; run = runs_[run].next) {
    const auto begin = places.begin() + runs_[run].first;
    found.insert(found.end(), begin, begin + runs_[run].count);
  }
  return found;
}

void PickleRuns::join(std::deque<Node>& nodes, std::vector<PickleValue>& places) const {
  for (Node& node : nodes) {
    if (node.kind != PickleKind::kList && node.kind != PickleKind::kDict && node.kind != PickleKind::kSet) continue;
    const uint32_t first = first_run(node.number), last = last_run(node.number);
    node.number = first == kNoRun ? 0 : runs_[first].first;
    if (first == last) continue;
    const size_t moved = places.size();
    for (uint32_t run = first; run != kNoRun; run = runs_[run].next) {
      for (uint32_t i = 0; i < runs_[run].count; ++i) {
        const PickleValue place = places[runs_[run].first + i];
        places.push_back(place);
      }
    }
    node.number = moved;
  }
}

}  // namespace ballast
