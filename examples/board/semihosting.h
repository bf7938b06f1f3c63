#ifndef SEMIHOSTING_H_
#define SEMIHOSTING_H_

void print(const char* text);
void print_number(long number);
__attribute__((noreturn)) void exit(int status);

#endif
