#include "apps/ballast/cpu_features.h"

#if defined(__x86_64__)
#include <cpuid.h>
#elif defined(__aarch64__) && defined(__linux__)
#include <sys/auxv.h>
#endif

#include <cstdint>

namespace ballast::cli {

#if defined(__x86_64__)

namespace {

struct Leaf {
  uint32_t a = 0, b = 0, c = 0, d = 0;
};

Leaf read_cpuid(uint32_t number, uint32_t subleaf) {
  Leaf leaf;
  if (__get_cpuid_count(number, subleaf, &leaf.a, &leaf.b, &leaf.c, &leaf.d) == 0) return {};
  return leaf;
}

// Which register states the operating system saves. An instruction set without its state cannot be used.
uint64_t enabled_states(const Leaf& basic) {
  constexpr uint32_t kOsxsave = 1u << 27;
  if ((basic.c & kOsxsave) == 0) return 0;
  uint32_t low = 0, high = 0;
  __asm__("xgetbv" : "=a"(low), "=d"(high) : "c"(0));
  return uint64_t{high} << 32 | low;
}

}  // namespace

std::vector<std::string_view> cpu_features() {
  constexpr uint64_t kAvxState = 0x6, kAvx512State = 0xE6, kAmxState = 0x60000;
  const Leaf basic = read_cpuid(1, 0);
  const Leaf extended = read_cpuid(7, 0);
  const Leaf more = read_cpuid(7, 1);
  const uint64_t states = enabled_states(basic);
  std::vector<std::string_view> found;
  const auto add = [&](std::string_view name, uint32_t word, unsigned bit, uint64_t needs) {
    if ((word >> bit & 1) != 0 && (states & needs) == needs) found.push_back(name);
  };
  add("sse4.2", basic.c, 20, 0);
  add("avx2", extended.b, 5, kAvxState);
  add("f16c", basic.c, 29, kAvxState);
  add("fma", basic.c, 12, kAvxState);
  add("avxvnni", more.a, 4, kAvxState);
  add("avx512f", extended.b, 16, kAvx512State);
  add("avx512bw", extended.b, 30, kAvx512State);
  add("avx512vl", extended.b, 31, kAvx512State);
  add("avx512vnni", extended.c, 11, kAvx512State);
  add("avx512bf16", more.a, 5, kAvx512State);
  add("avx512fp16", extended.d, 23, kAvx512State);
  add("amx-tile", extended.d, 24, kAmxState);
  add("amx-bf16", extended.d, 22, kAmxState);
  add("amx-int8", extended.d, 25, kAmxState);
  return found;
}

#elif defined(__aarch64__) && defined(__linux__)

std::vector<std::string_view> cpu_features() {
  // Bits of the kernel's interface, spelled out because older C libraries lack names for the newer ones.
  const unsigned long first = getauxval(AT_HWCAP);
  const unsigned long second = getauxval(AT_HWCAP2);
  std::vector<std::string_view> found;
  const auto add = [&](std::string_view name, unsigned long word, unsigned bit) {
    if ((word >> bit & 1) != 0) found.push_back(name);
  };
  add("neon", first, 1);
  add("fp16", first, 10);
  add("dotprod", first, 20);
  add("i8mm", second, 13);
  add("bf16", second, 14);
  add("sve", first, 22);
  add("sve2", second, 1);
  return found;
}

#else

std::vector<std::string_view> cpu_features() { return {}; }

#endif

}  // namespace ballast::cli
