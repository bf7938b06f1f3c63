#include "tests/support/mutation.h"

#include <fmt/format.h>

#include <chrono>
#include <random>

namespace ballast::testing {

namespace {

void read_everything(const Archive& archive, const std::string& what) {
  for (size_t i = 0; i < archive.tensors().size(); ++i) {
    const auto payload = archive.payload(i);
    if (payload) {
      EXPECT_EQ(payload->bytes().size(), archive.tensors()[i].byte_size) << what;
      continue;
    }
    // Only what lies inside the payload may be found wrong this late: a checksum, a compressed stream.
    EXPECT_EQ(payload.error().code, ErrorCode::kCorrupt) << what << ": " << payload.error().message;
    EXPECT_TRUE(archive.extent(i).crc32 || archive.extent(i).deflated) << what << ": " << payload.error().message;
  }
}

ByteVector random_damage(ByteSpan bytes, std::mt19937_64& random) {
  ByteVector out(bytes.begin(), bytes.end());
  const auto below = [&](size_t limit) { return static_cast<size_t>(random() % limit); };
  const size_t changes = 1 + below(4);
  for (size_t i = 0; i < changes && !out.empty(); ++i) {
    const auto at = out.begin() + static_cast<ptrdiff_t>(below(out.size()));
    switch (below(5)) {
      case 0: *at = static_cast<std::byte>(random()); break;
      case 1: *at = std::byte{0xFF}; break;
      case 2: out.erase(at, at + static_cast<ptrdiff_t>(1 + below(static_cast<size_t>(out.end() - at)))); break;
      case 3: out.insert(at, 1 + below(16), static_cast<std::byte>(random())); break;
      default: std::fill_n(at, std::min<ptrdiff_t>(8, out.end() - at), std::byte{0xFF}); break;
    }
  }
  return out;
}

}  // namespace

void expect_survives(const Opener& open, const std::string& what) {
  const auto start = std::chrono::steady_clock::now();
  Findings strict = Findings::stop_at_first_error();
  const auto archive = open(strict);
  Findings collecting = Findings::collect_all();
  const auto verified = open(collecting);
  const std::chrono::duration<double> taken = std::chrono::steady_clock::now() - start;
  EXPECT_LT(taken.count(), 2.0) << what;  // two openings
  if (archive) {
    EXPECT_TRUE(verified) << what << ": verify refuses what opens";
    EXPECT_FALSE(collecting.has_errors()) << what << ": verify finds errors in what opens";
    read_everything(*archive, what);
  } else {
    EXPECT_FALSE(archive.error().message.empty()) << what;
    EXPECT_TRUE(!verified || collecting.has_errors())
        << what << ": verify accepts what does not open: " << archive.error().message;
  }
}

void expect_survives(const FormatDriver& driver, ByteSpan bytes, const std::string& what) {
  const auto source = MemorySource::borrowing(bytes, "damaged");
  expect_survives([&](Findings& findings) { return driver.open({source, "damaged", "", nullptr}, findings); }, what);
}

void expect_survives_truncation(const FormatDriver& driver, ByteSpan bytes) {
  for (size_t length = 0; length < bytes.size(); ++length) {
    expect_survives(driver, bytes.first(length), fmt::format("cut to {} of {} bytes", length, bytes.size()));
    if (::testing::Test::HasFailure()) return;
  }
}

void expect_survives_bit_flips(const FormatDriver& driver, ByteSpan bytes, size_t header_bytes) {
  ByteVector damaged(bytes.begin(), bytes.end());
  for (size_t bit = 0; bit < std::min(header_bytes, bytes.size()) * 8; ++bit) {
    const auto mask = static_cast<std::byte>(1U << (bit % 8));
    damaged[bit / 8] ^= mask;
    expect_survives(driver, damaged, fmt::format("bit {} of byte {} flipped", bit % 8, bit / 8));
    damaged[bit / 8] ^= mask;
    if (::testing::Test::HasFailure()) return;
  }
}

void expect_survives_random_damage(const FormatDriver& driver, ByteSpan bytes, unsigned rounds, uint64_t seed) {
  std::mt19937_64 random(seed);
  for (unsigned round = 0; round < rounds; ++round) {
    const ByteVector damaged = random_damage(bytes, random);
    expect_survives(driver, damaged, fmt::format("seed {}, round {}", seed, round));
    if (::testing::Test::HasFailure()) return;
  }
}

}  // namespace ballast::testing
