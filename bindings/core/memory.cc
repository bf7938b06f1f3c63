// operator new and delete of programs that link the core, and, where there is no operating system, what the standard
// library calls when it gives up.
#include <cstdlib>
#include <new>

#include "bindings/core/arena.h"

namespace {

// Null where there is no room.
void* take(std::size_t size) {
  if (ballast::core::Call* call = ballast::core::running_call()) return call->arena->allocate(size);
#ifdef __unix__
  return std::malloc(size == 0 ? 1 : size);
#else
  return nullptr;
#endif
}

void* allocate(std::size_t size) {
  if (void* memory = take(size)) return memory;
  ballast::core::leave_call(size, nullptr);
}

void release(void* pointer) {
  if (pointer == nullptr) return;
  for (ballast::core::Call* call = ballast::core::running_call(); call != nullptr; call = call->outer) {
    if (call->arena->owns(pointer)) return call->arena->release(pointer);
  }
#ifdef __unix__
  std::free(pointer);  // from outside of all calls
#endif
}

}  // namespace

void* operator new(std::size_t size) { return allocate(size); }
void* operator new[](std::size_t size) { return allocate(size); }
void* operator new(std::size_t size, const std::nothrow_t&) noexcept { return take(size); }
void* operator new[](std::size_t size, const std::nothrow_t&) noexcept { return take(size); }
void operator delete(void* pointer) noexcept { release(pointer); }
void operator delete[](void* pointer) noexcept { release(pointer); }
void operator delete(void* pointer, std::size_t) noexcept { release(pointer); }
void operator delete[](void* pointer, std::size_t) noexcept { release(pointer); }

#ifndef __unix__

// Instead of libstdc++'s, which end the program, and bring the unwinder and texts for it.
namespace std {
[[noreturn]] void __throw_bad_alloc() { ballast::core::leave_call(0, nullptr); }
[[noreturn]] void __throw_bad_array_new_length() { ballast::core::leave_call(SIZE_MAX, nullptr); }
[[noreturn]] void __throw_length_error(const char*) { ballast::core::leave_call(SIZE_MAX, nullptr); }
[[noreturn]] void __throw_bad_cast() { ballast::core::leave_call(0, "a cast failed"); }
[[noreturn]] void __throw_runtime_error(const char* what) { ballast::core::leave_call(0, what); }
[[noreturn]] void __throw_logic_error(const char* what) { ballast::core::leave_call(0, what); }
[[noreturn]] void __throw_out_of_range(const char* what) { ballast::core::leave_call(0, what); }
[[noreturn]] void __throw_out_of_range_fmt(const char* what, ...) { ballast::core::leave_call(0, what); }
[[noreturn]] void __throw_invalid_argument(const char* what) { ballast::core::leave_call(0, what); }
[[noreturn]] void __throw_bad_function_call() { ballast::core::leave_call(0, "an empty function was called"); }
[[noreturn]] void __throw_bad_optional_access() { ballast::core::leave_call(0, "an empty optional was read"); }
[[noreturn]] void __throw_bad_variant_access(const char* what) { ballast::core::leave_call(0, what); }
void terminate() noexcept { std::abort(); }
}  // namespace std

extern "C" {

// In place of newlib's, which needs a heap. zlib's code names them; the library gives it the operators above.
void* malloc(std::size_t size) { return take(size); }
void free(void* pointer) { release(pointer); }

[[noreturn]] void abort() {
  if (ballast::core::running_call() != nullptr)
    ballast::core::leave_call(0, "the library gave up: a defect of its own");
  __builtin_trap();
}
[[noreturn]] void __cxa_pure_virtual() { abort(); }
// Objects of static storage are never destroyed: the program does not end.
int __aeabi_atexit(void*, void (*)(void*), void*) { return 0; }
void* __dso_handle = nullptr;
}

#endif
