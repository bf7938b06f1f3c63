// How much a model computes and reads, counted while it runs.
#pragma once

#include <cstdint>

#include "ballast/ops/registry.h"

namespace ballast::cli {

struct WorkCount {
  double flops = 0;          // of products and convolutions: a multiply-add is two
  uint64_t param_bytes = 0;  // of the weights in them
};

// Counts every product and convolution that runs under this registry into `count`, which must outlive it. Costs a look
// at the arguments.
Status count_work(Registry& registry, WorkCount& count);

}  // namespace ballast::cli
