#include "ballast/io/processor.h"

#if defined(__aarch64__) && defined(__linux__)
#include <sys/auxv.h>
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

}  // namespace ballast
