// What the processor has that compilers and Highway do not tell.
#pragma once

namespace ballast {

// The instructions that multiply bytes and add up four neighbours at once: AVX-512 VNNI, or NEON's dot products.
bool has_dot_products();

}  // namespace ballast
