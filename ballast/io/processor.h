// What the processor has that compilers and Highway do not tell.
#pragma once

namespace ballast {

// The instructions that multiply bytes and add up four neighbours at once: AVX-512 VNNI, or NEON's dot products.
bool has_dot_products();

// Whether this process may multiply tiles (AMX) of bytes and of bf16 numbers, which AVX-512 rounds floats to: Linux
// lends their registers to those who ask, which this does.
bool may_use_tiles();

}  // namespace ballast
