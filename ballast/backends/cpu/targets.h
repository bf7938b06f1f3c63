// The instruction sets that kernels are compiled for. Each costs build time, so: one for every machine, and those that
// differ in width. Must come before any header of Highway.
#pragma once

#if defined(__x86_64__) || defined(__i386__)
// The lowest bits are what later processors add to AVX-512, under names that not every version of Highway has.
#define HWY_DISABLED_TARGETS (HWY_SSSE3 | 0xFF)
#else
#define HWY_DISABLED_TARGETS (HWY_SVE | HWY_SVE2 | HWY_SVE_256 | HWY_SVE2_128)
#endif

// Before a loop of constant length whose body keeps an array in registers.
#if defined(__clang__)
#define BALLAST_UNROLL _Pragma("clang loop unroll(full)")
#else
#define BALLAST_UNROLL _Pragma("GCC unroll 16")
#endif
