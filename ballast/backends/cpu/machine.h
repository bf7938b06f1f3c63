// What this machine can do at best, measured: the yardsticks of benchmarks.
#pragma once

#include "ballast/io/thread_pool.h"

namespace ballast {

struct MachineSpeed {
  double read_bytes_per_second = 0;  // from memory, all threads together
  double flops = 0;                  // multiply-adds of f32, two operations each, all threads together
};

// Takes about half a second and 256 MiB; no reading speed where there is no memory for it.
MachineSpeed measure_machine(ThreadPool& threads);

}  // namespace ballast
