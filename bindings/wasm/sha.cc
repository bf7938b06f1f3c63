// archive/sha.h without OpenSSL, as FIPS 180-4 describes the two.
#include "ballast/archive/sha.h"

#include <array>
#include <bit>

namespace ballast {

namespace {

constexpr size_t kShaBlock = 64;

constexpr std::array<uint32_t, 64> kSha256Constants = {
    0x428a2f98, 0x71374491, 0xb5c0fbcf, 0xe9b5dba5, 0x3956c25b, 0x59f111f1, 0x923f82a4, 0xab1c5ed5,
    0xd807aa98, 0x12835b01, 0x243185be, 0x550c7dc3, 0x72be5d74, 0x80deb1fe, 0x9bdc06a7, 0xc19bf174,
    0xe49b69c1, 0xefbe4786, 0x0fc19dc6, 0x240ca1cc, 0x2de92c6f, 0x4a7484aa, 0x5cb0a9dc, 0x76f988da,
    0x983e5152, 0xa831c66d, 0xb00327c8, 0xbf597fc7, 0xc6e00bf3, 0xd5a79147, 0x06ca6351, 0x14292967,
    0x27b70a85, 0x2e1b2138, 0x4d2c6dfc, 0x53380d13, 0x650a7354, 0x766a0abb, 0x81c2c92e, 0x92722c85,
    0xa2bfe8a1, 0xa81a664b, 0xc24b8b70, 0xc76c51a3, 0xd192e819, 0xd6990624, 0xf40e3585, 0x106aa070,
    0x19a4c116, 0x1e376c08, 0x2748774c, 0x34b0bcb5, 0x391c0cb3, 0x4ed8aa4a, 0x5b9cca4f, 0x682e6ff3,
    0x748f82ee, 0x78a5636f, 0x84c87814, 0x8cc70208, 0x90befffa, 0xa4506ceb, 0xbef9a3f7, 0xc67178f2};

uint32_t load_big_endian(const std::byte* from) {
  uint32_t word = 0;
  for (size_t i = 0; i < 4; ++i) word = word << 8 | static_cast<uint32_t>(from[i]);
  return word;
}

}  // namespace

struct ShaHasher::State {
  Kind kind;
  std::array<uint32_t, 8> words;
  std::array<std::byte, kShaBlock> block;
  uint64_t length = 0;

  explicit State(Kind which) : kind(which) {
    words = kind == Kind::kSha1
                ? std::array<uint32_t, 8>{0x67452301, 0xefcdab89, 0x98badcfe, 0x10325476, 0xc3d2e1f0, 0, 0, 0}
                : std::array<uint32_t, 8>{0x6a09e667, 0xbb67ae85, 0x3c6ef372, 0xa54ff53a,
                                          0x510e527f, 0x9b05688c, 0x1f83d9ab, 0x5be0cd19};
  }

  void take_block() {
    if (kind == Kind::kSha1) take_sha1();
    else take_sha256();
  }

  void take_sha1() {
    std::array<uint32_t, 80> w{};
    for (size_t i = 0; i < 16; ++i) w[i] = load_big_endian(block.data() + 4 * i);
    for (size_t i = 16; i < 80; ++i) w[i] = std::rotl(w[i - 3] ^ w[i - 8] ^ w[i - 14] ^ w[i - 16], 1);
    auto [a, b, c, d, e, unused_f, unused_g, unused_h] = words;
    for (size_t i = 0; i < 80; ++i) {
      const uint32_t f = i < 20 ? (b & c) | (~b & d) : i < 40 || i >= 60 ? b ^ c ^ d : (b & c) | (b & d) | (c & d);
      const uint32_t k = i < 20 ? 0x5a827999 : i < 40 ? 0x6ed9eba1 : i < 60 ? 0x8f1bbcdc : 0xca62c1d6;
      const uint32_t next = std::rotl(a, 5) + f + e + k + w[i];
      e = d;
      d = c;
      c = std::rotl(b, 30);
      b = a;
      a = next;
    }
    const std::array<uint32_t, 5> more = {a, b, c, d, e};
    for (size_t i = 0; i < more.size(); ++i) words[i] += more[i];
  }

  void take_sha256() {
    std::array<uint32_t, 64> w{};
    for (size_t i = 0; i < 16; ++i) w[i] = load_big_endian(block.data() + 4 * i);
    for (size_t i = 16; i < 64; ++i) {
      const uint32_t s0 = std::rotr(w[i - 15], 7) ^ std::rotr(w[i - 15], 18) ^ (w[i - 15] >> 3);
      const uint32_t s1 = std::rotr(w[i - 2], 17) ^ std::rotr(w[i - 2], 19) ^ (w[i - 2] >> 10);
      w[i] = w[i - 16] + s0 + w[i - 7] + s1;
    }
    std::array<uint32_t, 8> v = words;
    for (size_t i = 0; i < 64; ++i) {
      const uint32_t s1 = std::rotr(v[4], 6) ^ std::rotr(v[4], 11) ^ std::rotr(v[4], 25);
      const uint32_t choice = (v[4] & v[5]) ^ (~v[4] & v[6]);
      const uint32_t one = v[7] + s1 + choice + kSha256Constants[i] + w[i];
      const uint32_t s0 = std::rotr(v[0], 2) ^ std::rotr(v[0], 13) ^ std::rotr(v[0], 22);
      const uint32_t two = s0 + ((v[0] & v[1]) ^ (v[0] & v[2]) ^ (v[1] & v[2]));
      v = {one + two, v[0], v[1], v[2], v[3] + one, v[4], v[5], v[6]};
    }
    for (size_t i = 0; i < v.size(); ++i) words[i] += v[i];
  }

  void add(ByteSpan bytes) {
    for (const std::byte byte : bytes) {
      block[length++ % kShaBlock] = byte;
      if (length % kShaBlock == 0) take_block();
    }
  }
};

ShaHasher::ShaHasher(Kind kind) : state_(std::make_unique<State>(kind)) {}
ShaHasher::~ShaHasher() = default;
ShaHasher::ShaHasher(ShaHasher&&) noexcept = default;
ShaHasher& ShaHasher::operator=(ShaHasher&&) noexcept = default;

void ShaHasher::update(ByteSpan bytes) { state_->add(bytes); }

std::string ShaHasher::finish_hex() {
  const uint64_t bits = state_->length * 8;
  const std::byte mark{0x80};
  state_->add(ByteSpan(&mark, 1));
  const std::byte zero{0};
  while (state_->length % kShaBlock != kShaBlock - 8) state_->add(ByteSpan(&zero, 1));
  std::array<std::byte, 8> size;
  for (size_t i = 0; i < 8; ++i) size[i] = static_cast<std::byte>(bits >> (56 - 8 * i));
  state_->add(size);
  std::array<std::byte, 32> digest;
  for (size_t i = 0; i < digest.size(); ++i) {
    digest[i] = static_cast<std::byte>(state_->words[i / 4] >> (24 - 8 * (i % 4)));
  }
  return to_hex(ByteSpan(digest).first(state_->kind == Kind::kSha1 ? 20 : 32));
}

}  // namespace ballast
