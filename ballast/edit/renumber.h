// Gaps in the numbers of names closed: fc.0, fc.2, fc.4 become fc.0, fc.1, fc.2.
#pragma once

#include <string>
#include <vector>

#include "ballast/archive/convert.h"

namespace ballast {

struct RenumberOptions {
  // Regular expressions over what stands before a number, without the dot: "encoder.layers". Numbers there are kept.
  std::vector<std::string> except;
};

// For ConvertOptions::edits. PyTorch numbers every layer of a Sequential, Burn only those with parameters. Every number
// between dots is looked at beside those with the same path before it, at each position of a name separately; their
// order is kept. A number that no program would write (with a leading zero, beyond 64 bits) is no number here.
PlanEdit renumber_tensors(RenumberOptions options = {});

}  // namespace ballast
