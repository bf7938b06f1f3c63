// What happens before main on a Cortex-M: the vectors, .data, .bss, the constructors, the FPU. Nothing here is
// Ballast's: a board's own startup code does as well.
#include <stdint.h>
#include <stdlib.h>

extern uint32_t stack_top[], data_begin[], data_end[], data_load[], bss_begin[], bss_end[];
extern void (*init_begin[])(void), (*init_end[])(void);
int main(void);

static void enable_fpu(void) {
#ifdef __ARM_FP
  *(volatile uint32_t*)0xE000ED88 |= 0xFU << 20;  // CPACR: full access to CP10 and CP11
  __asm volatile("dsb\n\tisb");
#endif
}

__attribute__((noreturn)) void reset(void) {
  enable_fpu();
  for (uint32_t *to = data_begin, *from = data_load; to < data_end;) *to++ = *from++;
  for (uint32_t* to = bss_begin; to < bss_end;) *to++ = 0;
  for (void (**init)(void) = init_begin; init < init_end; ++init) (*init)();
  exit(main());
}

// An unexpected exception; a debugger shows which.
__attribute__((noreturn)) void fault(void) { exit(70); }

__attribute__((section(".vectors"), used)) static void (*const vectors[16])(void) = {
    (void (*)(void))stack_top, reset, fault, fault, fault, fault, fault, 0, 0, 0, 0, fault, fault, 0, fault, fault};
