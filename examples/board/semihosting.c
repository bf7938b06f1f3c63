// Output and the end of the program through a debugger or QEMU (semihosting), in place of a UART.
#include "semihosting.h"

#include <stdint.h>

static void call_debugger(uint32_t operation, const void* argument) {
  register uint32_t r0 __asm("r0") = operation;
  register const void* r1 __asm("r1") = argument;
  __asm volatile("bkpt 0xAB" : "+r"(r0) : "r"(r1) : "memory");
}

void print(const char* text) { call_debugger(0x04, text); }  // SYS_WRITE0

void print_number(long number) {
  char text[24];
  char* at = text + sizeof text - 1;
  unsigned long rest = number < 0 ? 0UL - (unsigned long)number : (unsigned long)number;
  *at = '\0';
  do *--at = (char)('0' + rest % 10);
  while ((rest /= 10) != 0);
  if (number < 0) *--at = '-';
  print(at);
}

void exit(int status) {
  call_debugger(0x18, (const void*)(uintptr_t)(status == 0 ? 0x20026 : 0x20023));  // SYS_EXIT
  for (;;) {
  }
}
