#include "ballast/models/random_image.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>

namespace ballast {

namespace {

class ChaCha8 {
 public:
  explicit ChaCha8(uint64_t seed) {
    for (uint32_t& word : key_) {
      seed = seed * 6364136223846793005U + 11634580027462260723U;
      const auto shifted = static_cast<uint32_t>(((seed >> 18) ^ seed) >> 27);
      word = std::rotr(shifted, static_cast<int>(seed >> 59));
    }
  }

  uint32_t next() {
    if (used_ == block_.size()) refill();
    return block_[used_++];
  }

 private:
  using Block = std::array<uint32_t, 16>;

  static void quarter_round(Block& s, size_t a, size_t b, size_t c, size_t d) {
    s[a] += s[b], s[d] = std::rotl(s[d] ^ s[a], 16);
    s[c] += s[d], s[b] = std::rotl(s[b] ^ s[c], 12);
    s[a] += s[b], s[d] = std::rotl(s[d] ^ s[a], 8);
    s[c] += s[d], s[b] = std::rotl(s[b] ^ s[c], 7);
  }

  void refill() {
    Block start = {0x61707865, 0x3320646e, 0x79622d32, 0x6b206574};
    std::ranges::copy(key_, start.begin() + 4);
    start[12] = static_cast<uint32_t>(counter_);
    start[13] = static_cast<uint32_t>(counter_ >> 32);
    ++counter_;
    block_ = start;
    for (int round = 0; round < 4; ++round) {
      for (size_t i = 0; i < 4; ++i) quarter_round(block_, i, 4 + i, 8 + i, 12 + i);
      for (size_t i = 0; i < 4; ++i) quarter_round(block_, i, 4 + (i + 1) % 4, 8 + (i + 2) % 4, 12 + (i + 3) % 4);
    }
    for (size_t i = 0; i < block_.size(); ++i) block_[i] += start[i];
    used_ = 0;
  }

  std::array<uint32_t, 8> key_{};
  Block block_{};
  size_t used_ = 16;
  uint64_t counter_ = 0;
};

}  // namespace

std::vector<float> seeded_normals(uint64_t seed, uint64_t count) {
  ChaCha8 stream(seed);
  const auto uniform = [&stream] { return static_cast<float>(stream.next() >> 8) * 0x1p-24F; };
  std::vector<float> values;
  values.reserve(count + 1);
  while (values.size() < count) {
    const float u1 = std::max(uniform(), 1.1754944e-38F);
    const float angle = 2.0F * 3.14159265358979323846F * uniform();
    const float radius = std::sqrt(-2.0F * std::log(u1));
    values.push_back(radius * std::cos(angle));
    values.push_back(radius * std::sin(angle));
  }
  values.resize(count);
  return values;
}

}  // namespace ballast
