// Images of noise, the same everywhere: what gpt.rs feeds a vision model that was given no input.
#pragma once

#include <cstdint>
#include <vector>

namespace ballast {

// `count` numbers of a normal distribution: a ChaCha8 stream keyed by the seed, two words a pair, Box and Muller.
std::vector<float> seeded_normals(uint64_t seed, uint64_t count);

}  // namespace ballast
