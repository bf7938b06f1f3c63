#include "ballast/io/processor.h"

#if defined(__aarch64__) && defined(__linux__)
#include <sys/auxv.h>
#endif

#if defined(__x86_64__) && defined(__linux__)
#include <cpuid.h>
#include <sys/syscall.h>
#include <unistd.h>
#endif

namespace ballast {

bool has_dot_products() {
#if defined(__x86_64__) || defined(__i386__)
  return __builtin_cpu_supports("avx512vnni") != 0;
#elif defined(__aarch64__) && defined(__linux__)
  constexpr unsigned long kAsimdDp = 1UL << 20;  // of the kernel's HWCAP bits
  return (::getauxval(AT_HWCAP) & kAsimdDp) != 0;
#else
  return false;
#endif
}

bool may_use_tiles() {
#if defined(__x86_64__) && defined(__linux__)
  unsigned eax = 0, ebx = 0, ecx = 0, edx = 0;
  constexpr unsigned kTiles = 1U << 22 | 1U << 24 | 1U << 25;  // of bf16 numbers, at all, of bytes
  if (__get_cpuid_count(7, 0, &eax, &ebx, &ecx, &edx) == 0 || (edx & kTiles) != kTiles) return false;
  constexpr unsigned kRoundsToBf16 = 1U << 5;
  if (__get_cpuid_count(7, 1, &eax, &ebx, &ecx, &edx) == 0 || (eax & kRoundsToBf16) == 0) return false;
  constexpr long kRequestPermission = 0x1023,
                 kTileData = 18;  // of <asm/prctl.h>, which older systems have without them
  return ::syscall(SYS_arch_prctl, kRequestPermission, kTileData) == 0;
#else
  return false;
#endif
}

}  // namespace ballast
