// hypot of the first C library of each architecture, under the name that the library calls: see Manylinux.cmake.
#if defined(__x86_64__)
__asm__(".symver first_hypot, hypot@GLIBC_2.2.5");
#elif defined(__aarch64__)
__asm__(".symver first_hypot, hypot@GLIBC_2.17");
#else
#error "which version of glibc was the first on this architecture?"
#endif

extern "C" {
double first_hypot(double x, double y);
double hypot(double x, double y) { return first_hypot(x, y); }
}
