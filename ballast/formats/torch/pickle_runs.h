// Lists, dicts and sets that grow while a pickle is read.
#pragma once

#include <deque>
#include <vector>

#include "ballast/formats/torch/pickle.h"

namespace ballast {

// A container's values lie in runs of places, one for each time that it was added to: moving what it had would take
// quadratic time. Until join() the `number` of its node holds the first and the last of its runs.
class PickleRuns {
 public:
  using Node = PickleTree::Node;

  static Node empty(PickleKind kind);

  // `count` places from `first` on belong to the container, too. False, and nothing changes but its count, where that
  // would take more than `most` runs of all containers.
  [[nodiscard]] bool add(Node& container, uint32_t first, size_t count, uint64_t most);
  // What a container or tuple holds so far, in order.
  std::vector<PickleValue> held(const Node& container, const std::vector<PickleValue>& places) const;
  // Puts the runs of each container together: its `number` is its first place from then on.
  void join(std::deque<Node>& nodes, std::vector<PickleValue>& places) const;

 private:
  struct Run {
    uint32_t first;
    uint32_t count;
    uint32_t next;
  };

  std::vector<Run> runs_;
};

}  // namespace ballast
