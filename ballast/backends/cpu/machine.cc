// Loops that do nothing but read, and nothing but multiply and add.
#include "ballast/backends/cpu/machine.h"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <functional>
#include <memory>
#include <new>

#include "ballast/backends/cpu/targets.h"
// After targets.h.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "ballast/backends/cpu/machine.cc"
#include <hwy/foreach_target.h>
// After foreach_target.h.
#include "ballast/backends/cpu/simd-inl.h"

HWY_BEFORE_NAMESPACE();
namespace ballast::cpu::HWY_NAMESPACE {

constexpr size_t kLineFloats = 16;

// The sum of `lines` cache lines, read as `streams` runs side by side.
float sum_lines(const float* from, size_t lines, size_t streams) {
  constexpr size_t kVectors = kLineFloats / (kLanes < kLineFloats ? kLanes : kLineFloats);
  Vector sums[kVectors];
  BALLAST_UNROLL for (size_t i = 0; i < kVectors; ++i) sums[i] = zeros();
  const size_t each = lines / streams;
  for (size_t line = 0; line < each; ++line) {
    for (size_t stream = 0; stream < streams; ++stream) {
      const float* at = from + (stream * each + line) * kLineFloats;
      BALLAST_UNROLL for (size_t i = 0; i < kVectors; ++i) sums[i] = hn::Add(sums[i], load(at + i * kLanes));
    }
  }
  Vector sum = zeros();
  BALLAST_UNROLL for (size_t i = 0; i < kVectors; ++i) sum = hn::Add(sum, sums[i]);
  return hn::GetLane(sum);
}

constexpr size_t kChains = 12;  // more than latency times units of any processor, fewer than registers

float multiply_add(size_t steps, float seed) {
  Vector sums[kChains];
  BALLAST_UNROLL for (size_t i = 0; i < kChains; ++i) sums[i] = splat(seed + static_cast<float>(i));
  const Vector factor = splat(0.999F), term = splat(seed);
  for (size_t step = 0; step < steps; ++step) {
    BALLAST_UNROLL for (size_t i = 0; i < kChains; ++i) sums[i] = hn::MulAdd(sums[i], factor, term);
  }
  Vector sum = zeros();
  BALLAST_UNROLL for (size_t i = 0; i < kChains; ++i) sum = hn::Add(sum, sums[i]);
  return hn::GetLane(sum);
}

size_t multiply_adds_of(size_t steps) { return steps * kChains * kLanes; }

}  // namespace ballast::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace ballast {

// Where there is one target, Highway's dispatch takes no names of other namespaces.
namespace cpu {

HWY_EXPORT(sum_lines);
HWY_EXPORT(multiply_add);
HWY_EXPORT(multiply_adds_of);

namespace {

float sum(const float* from, size_t lines, size_t streams) {
  return HWY_DYNAMIC_DISPATCH(sum_lines)(from, lines, streams);
}
float compute(size_t steps, float seed) { return HWY_DYNAMIC_DISPATCH(multiply_add)(steps, seed); }
size_t count_of(size_t steps) { return HWY_DYNAMIC_DISPATCH(multiply_adds_of)(steps); }

}  // namespace
}  // namespace cpu

namespace {

// Keeps a result that nobody asks for from being left out.
std::atomic<float> kept{0};

// Of the best of several rounds: what others do on the machine only adds.
double best_seconds(const std::function<void()>& work) {
  double best = 1e9;
  for (int round = 0; round < 5; ++round) {
    const auto start = std::chrono::steady_clock::now();
    work();
    best = std::min(best, std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count());
  }
  return best;
}

double measure_reading(ThreadPool& threads) {
  constexpr size_t kBytes = size_t{256} << 20, kPiece = size_t{1} << 20, kLine = 64;
  const std::unique_ptr<std::byte[]> memory(new (std::nothrow) std::byte[kBytes + kLine]);
  if (!memory) return 0;
  std::byte* begin = memory.get() + (kLine - reinterpret_cast<uintptr_t>(memory.get()) % kLine);
  std::fill(begin, begin + kBytes, std::byte{1});
  double seconds = 1e9;
  for (const size_t streams : {size_t{1}, size_t{8}}) {  // which is faster depends on the machine
    seconds = std::min(seconds, best_seconds([&] {
                         threads.for_ranges(kBytes / kPiece, 1, [&](size_t from, size_t to) {
                           const auto* at = reinterpret_cast<const float*>(begin + from * kPiece);
                           kept = cpu::sum(at, (to - from) * kPiece / kLine, streams);
                         });
                       }));
  }
  return static_cast<double>(kBytes) / seconds;
}

double measure_computing(ThreadPool& threads) {
  constexpr size_t kSteps = 1 << 16;
  const size_t pieces = size_t{threads.size()} * 8;
  const double seconds = best_seconds([&] {
    threads.for_ranges(pieces, 1, [&](size_t from, size_t to) {
      for (size_t i = from; i < to; ++i) {
        kept = cpu::compute(kSteps, 1e-3F * static_cast<float>(i));
      }
    });
  });
  return 2.0 * static_cast<double>(pieces * cpu::count_of(kSteps)) / seconds;
}

}  // namespace

MachineSpeed measure_machine(ThreadPool& threads) { return {measure_reading(threads), measure_computing(threads)}; }

}  // namespace ballast
#endif
