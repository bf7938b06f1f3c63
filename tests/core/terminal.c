// What examples/board prints through a debugger, on this machine.
#include <stdio.h>

#include "semihosting.h"

void print(const char* text) { fputs(text, stdout); }
void print_number(long number) { printf("%ld", number); }
