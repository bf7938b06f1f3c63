// The backend `cpu`: vectorised and threaded, its instruction set chosen when the program runs.
#pragma once

#include <string_view>
#include <vector>

#include "ballast/backends/host/host_backend.h"

namespace ballast {

// Every kernel for f32 activations. Beyond the contract of ballast/backends/host/kernel_table.h: products, convolutions
// and attention give a row the same bits alone and among others, and the same bits on every level with fused
// multiply-add. Only fast products (Numerics::kFast) with bf16 weights [N, K] have other bits on the level "amx".
extern const HostBackend kCpuBackend;

// The levels that this machine runs, best first: "amx" (AVX-512 with tiles), "avx512", "avx2", "sse4", "sse2", "neon",
// "scalar".
std::vector<std::string_view> cpu_levels();
// Computes with `level` from now on; an empty one: the best. False where this machine lacks it. For tests and
// measurements: no kernel may be running.
bool use_cpu_level(std::string_view level);

}  // namespace ballast
