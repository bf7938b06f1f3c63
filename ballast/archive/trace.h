// Two traces compared: activations that a model left behind step by step. Where do they part, and how does it go on?
#pragma once

#include <optional>
#include <vector>

#include "ballast/archive/diff.h"

namespace ballast {

struct TraceReport {
  std::vector<size_t> order;  // every entry of the diff, in the order of the steps
  // The order of execution was told by the names; otherwise it is the order in which A stores its tensors.
  bool by_names = false;
  std::optional<size_t> first_beyond;  // entry: the first step on both sides that differs beyond the tolerance
  std::optional<size_t> largest;       // entry: the step of the largest error that is finite
};

// gpt.rs stores its traces sorted by name; where all names are those of its models, the steps follow the order in
// which these run. Any other file is taken to be stored in order. What only B has stands behind the step that
// it follows there.
TraceReport order_trace(const Archive& a, const Archive& b, const DiffReport& diff);

}  // namespace ballast
