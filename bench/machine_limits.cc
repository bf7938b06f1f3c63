// machine_limits THREADS [LIMIT...]: what this machine does at best, for scripts/bench_peers, which measures it between
// the turns of the programs it compares. Prints {"read": B/s, "f32": FLOP/s, "vnni": OP/s, "amx-bf16": FLOP/s,
// "amx-int8": OP/s}, a multiply-add being two operations; null where the processor has no such instruction. Without
// LIMITs: all of them.
#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "ballast/backends/cpu/machine.h"
#include "ballast/io/processor.h"

#if defined(__x86_64__)
#include <cpuid.h>
#include <immintrin.h>
#endif

namespace ballast {
namespace {

constexpr int kRounds = 5;
constexpr size_t kPieces = 8;  // a thread
constexpr size_t kSteps = 1 << 18;

// Keeps a result that nobody asks for from being left out.
std::atomic<int> kept{0};

// Operations per second of the best round: what others do on the machine only adds time.
double best_rate(ThreadPool& threads, double operations_of_piece, const std::function<void()>& piece) {
  const size_t pieces = threads.size() * kPieces;
  double best = 0;
  for (int round = 0; round < kRounds; ++round) {
    const auto start = std::chrono::steady_clock::now();
    threads.for_ranges(pieces, 1, [&](size_t begin, size_t end) {
      for (size_t i = begin; i < end; ++i) piece();
    });
    const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
    best = std::max(best, operations_of_piece * static_cast<double>(pieces) / seconds);
  }
  return best;
}

#if defined(__x86_64__)

constexpr size_t kChains = 16;  // more than latency times units of any processor, fewer than registers

__attribute__((target("avx512f,avx512vnni"))) void multiply_bytes() {
  __m512i sums[kChains];
  for (auto& sum : sums) sum = _mm512_setzero_si512();
  __m512i a = _mm512_set1_epi8(3), b = _mm512_set1_epi8(5);
  for (size_t step = 0; step < kSteps; ++step) {
#pragma GCC unroll 16
    for (auto& sum : sums) sum = _mm512_dpbusd_epi32(sum, a, b);
    asm volatile("" : "+v"(a), "+v"(b));  // the products are not known before
  }
  __m512i total = _mm512_setzero_si512();
  for (const auto& sum : sums) total = _mm512_add_epi32(total, sum);
  alignas(64) int32_t out[16];
  _mm512_store_si512(out, total);
  kept = out[0];
}

std::optional<double> vnni(ThreadPool& threads) {
  if (!has_dot_products()) return std::nullopt;
  return best_rate(threads, 2.0 * 64 * kChains * kSteps, multiply_bytes);
}

// Eight tiles of 16 rows of 64 bytes: four sums, two left and two right factors.
struct alignas(64) TileShapes {
  uint8_t palette = 1, start_row = 0, reserved[14] = {};
  uint16_t row_bytes[16] = {64, 64, 64, 64, 64, 64, 64, 64};
  uint8_t rows[16] = {16, 16, 16, 16, 16, 16, 16, 16};
};

template <bool kBytes>
__attribute__((target("amx-tile,amx-bf16,amx-int8"))) void multiply_tiles() {
  const TileShapes shapes;
  alignas(64) static const std::byte zeros[1024] = {};
  alignas(64) int32_t out[256];
  _tile_loadconfig(&shapes);
  _tile_zero(0);
  _tile_zero(1);
  _tile_zero(2);
  _tile_zero(3);
  _tile_loadd(4, zeros, 64);
  _tile_loadd(5, zeros, 64);
  _tile_loadd(6, zeros, 64);
  _tile_loadd(7, zeros, 64);
  for (size_t step = 0; step < kSteps / 4; ++step) {
    if constexpr (kBytes) {
      _tile_dpbssd(0, 4, 6);
      _tile_dpbssd(1, 4, 7);
      _tile_dpbssd(2, 5, 6);
      _tile_dpbssd(3, 5, 7);
    } else {
      _tile_dpbf16ps(0, 4, 6);
      _tile_dpbf16ps(1, 4, 7);
      _tile_dpbf16ps(2, 5, 6);
      _tile_dpbf16ps(3, 5, 7);
    }
  }
  _tile_stored(0, out, 64);
  _tile_release();
  kept = out[0];
}

std::optional<double> amx_bf16(ThreadPool& threads) {
  if (!may_use_tiles()) return std::nullopt;
  return best_rate(threads, 2.0 * 16 * 16 * 32 * kSteps, multiply_tiles<false>);
}

std::optional<double> amx_int8(ThreadPool& threads) {
  if (!may_use_tiles()) return std::nullopt;
  return best_rate(threads, 2.0 * 16 * 16 * 64 * kSteps, multiply_tiles<true>);
}

#else

std::optional<double> vnni(ThreadPool&) { return std::nullopt; }
std::optional<double> amx_bf16(ThreadPool&) { return std::nullopt; }
std::optional<double> amx_int8(ThreadPool&) { return std::nullopt; }

#endif

struct Limit {
  std::string_view name;
  std::optional<double> (*measure)(ThreadPool& threads);
};

constexpr Limit kLimits[] = {
    {"read",
     [](ThreadPool& threads) -> std::optional<double> { return measure_machine(threads).read_bytes_per_second; }},
    {"f32", [](ThreadPool& threads) -> std::optional<double> { return measure_machine(threads).flops; }},
    {"vnni", vnni},
    {"amx-bf16", amx_bf16},
    {"amx-int8", amx_int8},
};

int print_limits(unsigned count, const std::vector<std::string_view>& wanted) {
  for (const std::string_view name : wanted) {
    if (std::ranges::none_of(kLimits, [&](const Limit& limit) { return limit.name == name; })) {
      fmt::print(stderr, "machine_limits: there is no limit \"{}\"\n", name);
      return 2;
    }
  }
  if (count < 1) {
    fmt::print(stderr, "usage: machine_limits THREADS [read|f32|vnni|amx-bf16|amx-int8...]\n");
    return 2;
  }
  ThreadPool threads(count);
  std::vector<std::string> parts;
  for (const Limit& limit : kLimits) {
    if (!wanted.empty() && std::ranges::find(wanted, limit.name) == wanted.end()) continue;
    const auto rate = limit.measure(threads);
    parts.push_back(fmt::format("\"{}\": {}", limit.name, rate ? fmt::format("{:.0f}", *rate) : "null"));
  }
  fmt::print("{{{}}}\n", fmt::join(parts, ", "));
  return 0;
}

}  // namespace
}  // namespace ballast

int main(int count, char** arguments) {
  const unsigned threads = count > 1 ? static_cast<unsigned>(std::atoi(arguments[1])) : 0;
  return ballast::print_limits(threads, {arguments + std::min(count, 2), arguments + count});
}
