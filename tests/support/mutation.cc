#include "tests/support/mutation.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <ctime>
#include <random>

#include "ballast/base/checked.h"
#include "tests/support/emulation.h"
#include "tests/support/memory_meter.h"

namespace ballast::testing {

namespace {

constexpr uint64_t kFreeMemory = 16 << 20;
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
constexpr double kPatience = 30;  // seconds; instrumented code is many times slower
#else
constexpr double kPatience = 2;
#endif

// Of this thread alone: a busy machine must not make a test fail, and a hang takes processor time.
double processor_seconds() {
  timespec now{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return static_cast<double>(now.tv_sec) + static_cast<double>(now.tv_nsec) * 1e-9;
}

// Opens once, within time and memory.
Result<Archive> open_within_limits(const FormatDriver& driver, ByteSpan bytes, Findings& findings) {
  OpenRequest request;
  request.source = MemorySource::borrowing(bytes, "mutant");
  const double start = processor_seconds();
  const MemoryMeter meter;
  auto opened = driver.open(request, findings);
  const uint64_t peak = meter.peak();
  EXPECT_LE(peak, 4 * bytes.size() + kFreeMemory);
  if (!is_emulated()) {
    EXPECT_LT(processor_seconds() - start, kPatience);
  }
  return opened;
}

ByteVector mutate(ByteSpan bytes, std::mt19937_64& random) {
  ByteVector mutant(bytes.begin(), bytes.end());
  const auto below = [&](size_t limit) { return static_cast<size_t>(random() % std::max<size_t>(limit, 1)); };
  for (size_t changes = 1 + below(4); changes > 0 && !mutant.empty(); --changes) {
    const auto at = mutant.begin() + static_cast<ptrdiff_t>(below(mutant.size()));
    const auto length = static_cast<ptrdiff_t>(std::min<size_t>(1 + below(16), static_cast<size_t>(mutant.end() - at)));
    switch (below(4)) {
      case 0: std::generate(at, at + length, [&] { return static_cast<std::byte>(random()); }); break;
      case 1: std::fill(at, at + length, below(2) == 0 ? std::byte{0} : std::byte{0xFF}); break;
      case 2: mutant.erase(at, at + length); break;
      default: {
        const ByteVector repeated(at, at + length);
        mutant.insert(at, repeated.begin(), repeated.end());
      }
    }
  }
  return mutant;
}

}  // namespace

void truncations(ByteSpan bytes, const MutantVisitor& visit) {
  for (size_t size = 0; size < bytes.size(); size += one_in()) {
    // A copy of its own, so that a sanitizer sees every read behind the end.
    const ByteVector mutant(bytes.begin(), bytes.begin() + static_cast<ptrdiff_t>(size));
    visit(mutant, fmt::format("cut after {} of {} bytes", size, bytes.size()));
  }
}

void bit_flips(ByteSpan bytes, size_t header, const MutantVisitor& visit) {
  ByteVector mutant(bytes.begin(), bytes.end());
  for (size_t flip = 0; flip < 8 * std::min(header, bytes.size()); flip += one_in()) {
    const size_t at = flip / 8, bit = flip % 8;
    mutant[at] ^= std::byte{1} << bit;
    visit(mutant, fmt::format("bit {} of byte {} flipped", bit, at));
    mutant[at] ^= std::byte{1} << bit;
  }
}

void random_mutations(ByteSpan bytes, uint64_t seed, int rounds, const MutantVisitor& visit) {
  std::mt19937_64 random(seed);
  const int tried = std::max(1, rounds / static_cast<int>(one_in()));
  for (int round = 0; round < tried; ++round) {
    const ByteVector mutant = mutate(bytes, random);
    visit(mutant, fmt::format("random mutation {} of seed {}", round, seed));
  }
}

uint64_t fresh_seed() { return std::random_device()(); }

void expect_sound(const Archive& archive) {
  EXPECT_TRUE(find_duplicate_names(archive.tensors()).empty());
  for (size_t i = 0; i < archive.tensors().size(); ++i) {
    const TensorInfo& tensor = archive.tensors()[i];
    EXPECT_EQ(archive.find(tensor.name), i) << tensor.name;
    if (has_fixed_size(tensor.dtype)) {
      EXPECT_EQ(packed_size(tensor.shape, tensor.dtype), tensor.byte_size) << tensor.name;
    }
    const auto payload = archive.payload(i);
    // A container's checksum may still refuse a payload; what is given must be whole.
    if (payload) {
      EXPECT_EQ(payload->bytes().size(), tensor.byte_size) << tensor.name;
    } else {
      const bool too_large = payload.error().code == ErrorCode::kOutOfMemory && !checked_size(tensor.byte_size);
      EXPECT_TRUE(too_large || payload.error().code == ErrorCode::kCorrupt) << payload.error().message;
    }
  }
}

bool check_survives(const FormatDriver& driver, ByteSpan bytes, const std::string& what) {
  const ::testing::ScopedTrace trace(__FILE__, __LINE__, what);
  Findings first = Findings::stop_at_first_error();
  const auto opened = open_within_limits(driver, bytes, first);
  if (opened) {
    expect_sound(*opened);
  } else {
    EXPECT_FALSE(opened.error().message.empty());
  }
  Findings all = Findings::collect_all();
  const auto verified = open_within_limits(driver, bytes, all);
  EXPECT_EQ(opened.has_value(), verified.has_value() && !all.has_errors())
      << (opened ? "only verify finds an error" : opened.error().message);
  return opened.has_value();
}

}  // namespace ballast::testing
