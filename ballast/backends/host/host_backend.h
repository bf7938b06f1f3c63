// A backend of the machine's own memory: inner loops in a table, called by the implementations in this folder.
#pragma once

#include "ballast/backends/host/kernel_table.h"
#include "ballast/ops/backend.h"

namespace ballast {

struct HostBackend : Backend {
  KernelTable<float> f32;
  KernelTable<double> f64;  // may be empty
};

// Every functional and routine on the kernels of the context's backend, which must be a HostBackend.
void add_host_implementations(Registry& registry);

}  // namespace ballast
