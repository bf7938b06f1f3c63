// Makes system calls and allocations of a program fail: loaded into it with LD_PRELOAD by scripts/fault_test.
//
//   FAULT_CALL   the call that fails: "openat", "write", ..., or "malloc" for every way to allocate
//   FAULT_AT     the first one that does, counted from 1 when main begins
//   FAULT_ERROR  its errno, or "short" for reads and writes that do half of what they could
//   FAULT_MODE   "once", or "from" for every call from that one on
//   FAULT_COUNTS a file that gets "<call> <count>" for each call that happened, when the program ends
//
// Calls on standard input, output and error are left alone. Nothing here allocates.
#include <dirent.h>
#include <dlfcn.h>
#include <fcntl.h>
#include <pthread.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstdarg>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>

namespace {

enum Call {
  kOpen,
  kRead,
  kPread,
  kWrite,
  kPwrite,
  kFsync,
  kRename,
  kUnlink,
  kMkdir,
  kFtruncate,
  kFallocate,
  kMmap,
  kStat,
  kClose,
  kLink,
  kReadlink,
  kAccess,
  kOpendir,
  kReaddir,
  kFlock,
  kFchmod,
  kFchown,
  kDup,
  kThread,
  kMalloc,
  kCalls
};
constexpr const char* kNames[kCalls] = {"open",   "read",     "pread",     "write",     "pwrite",  "fsync", "rename",
                                        "unlink", "mkdir",    "ftruncate", "fallocate", "mmap",    "stat",  "close",
                                        "link",   "readlink", "access",    "opendir",   "readdir", "flock", "fchmod",
                                        "fchown", "dup",      "thread",    "malloc"};

std::atomic<uint64_t> counts[kCalls];
std::atomic<bool> active{false};
int failing_call = -1;
uint64_t failing_at = 0;
bool fails_on = false;  // and from there on
int failing_errno = 0;  // 0: a short result
pid_t process = 0;      // children that the program starts are left alone

// Whether this one fails; sets errno.
bool fails(Call call) {
  if (!active.load(std::memory_order_relaxed)) return false;
  const uint64_t number = counts[call].fetch_add(1, std::memory_order_relaxed) + 1;
  if (call != failing_call || number < failing_at || (number > failing_at && !fails_on)) return false;
  errno = failing_errno;
  return true;
}

bool is_standard(int fd) { return fd >= 0 && fd <= 2; }

template <typename Function>
Function* real(const char* name, std::atomic<void*>& slot) {
  void* found = slot.load(std::memory_order_relaxed);
  if (found == nullptr) {
    found = dlsym(RTLD_NEXT, name);
    slot.store(found, std::memory_order_relaxed);
  }
  return reinterpret_cast<Function*>(found);
}

void read_settings() {
  const char* call = getenv("FAULT_CALL");
  for (int i = 0; call != nullptr && i < kCalls; ++i) {
    if (strcmp(call, kNames[i]) == 0) failing_call = i;
  }
  if (const char* at = getenv("FAULT_AT")) failing_at = strtoull(at, nullptr, 10);
  if (const char* error = getenv("FAULT_ERROR")) failing_errno = strcmp(error, "short") == 0 ? 0 : atoi(error);
  const char* mode = getenv("FAULT_MODE");
  fails_on = mode != nullptr && strcmp(mode, "from") == 0;
  process = getpid();
}

void write_counts() {
  active = false;
  const char* path = getenv("FAULT_COUNTS");
  if (path == nullptr || getpid() != process) return;
  const int fd = static_cast<int>(syscall(SYS_openat, AT_FDCWD, path, O_WRONLY | O_CREAT | O_TRUNC, 0666));
  char line[64];
  for (int i = 0; i < kCalls; ++i) {
    const int length =
        snprintf(line, sizeof line, "%s %llu\n", kNames[i], static_cast<unsigned long long>(counts[i].load()));
    syscall(SYS_write, fd, line, length);
  }
  syscall(SYS_close, fd);
}

int (*real_main)(int, char**, char**) = nullptr;

int counted_main(int argc, char** argv, char** environment) {
  read_settings();
  active = true;
  const int code = real_main(argc, argv, environment);
  write_counts();
  return code;
}

size_t half_of(size_t length) { return length > 1 ? length / 2 : length; }

}  // namespace

// REAL(call, name): the next function of this name, as `call`.
#define REAL(alias, name)                 \
  static std::atomic<void*> alias##_slot; \
  const auto alias = real<decltype(name)>(#name, alias##_slot)

extern "C" {

int __libc_start_main(int (*main)(int, char**, char**), int argc, char** argv, void (*init)(), void (*fini)(),
                      void (*rtld_fini)(), void* stack_end) {
  static std::atomic<void*> slot;
  using Start = int(int (*)(int, char**, char**), int, char**, void (*)(), void (*)(), void (*)(), void*);
  real_main = main;
  return real<Start>("__libc_start_main", slot)(counted_main, argc, argv, init, fini, rtld_fini, stack_end);
}

#define OPEN_MODE(flags, last)                     \
  mode_t mode = 0;                                 \
  if (((flags) & (O_CREAT | __O_TMPFILE)) != 0) {  \
    va_list rest;                                  \
    va_start(rest, last);                          \
    mode = static_cast<mode_t>(va_arg(rest, int)); \
    va_end(rest);                                  \
  }

int open(const char* path, int flags, ...) {
  OPEN_MODE(flags, flags)
  if (fails(kOpen)) return -1;
  REAL(next, open);
  return next(path, flags, mode);
}
int open64(const char* path, int flags, ...) {
  OPEN_MODE(flags, flags)
  if (fails(kOpen)) return -1;
  REAL(next, open64);
  return next(path, flags, mode);
}
int openat(int folder, const char* path, int flags, ...) {
  OPEN_MODE(flags, flags)
  if (fails(kOpen)) return -1;
  REAL(next, openat);
  return next(folder, path, flags, mode);
}
int openat64(int folder, const char* path, int flags, ...) {
  OPEN_MODE(flags, flags)
  if (fails(kOpen)) return -1;
  REAL(next, openat64);
  return next(folder, path, flags, mode);
}

// Reads and writes may also be short.
ssize_t read(int fd, void* out, size_t length) {
  REAL(next, read);
  if (is_standard(fd) || !fails(kRead)) return next(fd, out, length);
  return failing_errno == 0 ? next(fd, out, half_of(length)) : -1;
}
ssize_t pread(int fd, void* out, size_t length, off_t offset) {
  REAL(next, pread);
  if (!fails(kPread)) return next(fd, out, length, offset);
  return failing_errno == 0 ? next(fd, out, half_of(length), offset) : -1;
}
ssize_t pread64(int fd, void* out, size_t length, off64_t offset) {
  REAL(next, pread64);
  if (!fails(kPread)) return next(fd, out, length, offset);
  return failing_errno == 0 ? next(fd, out, half_of(length), offset) : -1;
}
ssize_t write(int fd, const void* bytes, size_t length) {
  REAL(next, write);
  if (is_standard(fd) || !fails(kWrite)) return next(fd, bytes, length);
  return failing_errno == 0 ? next(fd, bytes, half_of(length)) : -1;
}
ssize_t pwrite(int fd, const void* bytes, size_t length, off_t offset) {
  REAL(next, pwrite);
  if (!fails(kPwrite)) return next(fd, bytes, length, offset);
  return failing_errno == 0 ? next(fd, bytes, half_of(length), offset) : -1;
}
ssize_t pwrite64(int fd, const void* bytes, size_t length, off64_t offset) {
  REAL(next, pwrite64);
  if (!fails(kPwrite)) return next(fd, bytes, length, offset);
  return failing_errno == 0 ? next(fd, bytes, half_of(length), offset) : -1;
}
ssize_t writev(int fd, const iovec* pieces, int count) {
  REAL(next, writev);
  if (is_standard(fd) || !fails(kWrite)) return next(fd, pieces, count);
  return failing_errno == 0 ? next(fd, pieces, 1) : -1;
}

#define SIMPLE(result, name, call, failed, parameters, arguments) \
  result name parameters {                                        \
    if (fails(call)) return failed;                               \
    REAL(next, name);                                             \
    return next arguments;                                        \
  }

SIMPLE(int, fsync, kFsync, -1, (int fd), (fd))
SIMPLE(int, fdatasync, kFsync, -1, (int fd), (fd))
SIMPLE(int, rename, kRename, -1, (const char* from, const char* to), (from, to))
SIMPLE(int, renameat, kRename, -1, (int a, const char* from, int b, const char* to), (a, from, b, to))
SIMPLE(int, renameat2, kRename, -1, (int a, const char* from, int b, const char* to, unsigned flags),
       (a, from, b, to, flags))
SIMPLE(int, unlink, kUnlink, -1, (const char* path), (path))
SIMPLE(int, unlinkat, kUnlink, -1, (int folder, const char* path, int flags), (folder, path, flags))
SIMPLE(int, rmdir, kUnlink, -1, (const char* path), (path))
SIMPLE(int, mkdir, kMkdir, -1, (const char* path, mode_t mode), (path, mode))
SIMPLE(int, mkdirat, kMkdir, -1, (int folder, const char* path, mode_t mode), (folder, path, mode))
SIMPLE(int, ftruncate, kFtruncate, -1, (int fd, off_t length), (fd, length))
SIMPLE(int, ftruncate64, kFtruncate, -1, (int fd, off64_t length), (fd, length))
SIMPLE(int, fallocate, kFallocate, -1, (int fd, int mode, off_t offset, off_t length), (fd, mode, offset, length))
SIMPLE(int, fallocate64, kFallocate, -1, (int fd, int mode, off64_t offset, off64_t length), (fd, mode, offset, length))
SIMPLE(int, stat, kStat, -1, (const char* path, struct stat* out), (path, out))
SIMPLE(int, stat64, kStat, -1, (const char* path, struct stat64* out), (path, out))
SIMPLE(int, lstat, kStat, -1, (const char* path, struct stat* out), (path, out))
SIMPLE(int, lstat64, kStat, -1, (const char* path, struct stat64* out), (path, out))
SIMPLE(int, fstatat, kStat, -1, (int folder, const char* path, struct stat* out, int flags), (folder, path, out, flags))
SIMPLE(int, fstatat64, kStat, -1, (int folder, const char* path, struct stat64* out, int flags),
       (folder, path, out, flags))
SIMPLE(int, link, kLink, -1, (const char* from, const char* to), (from, to))
SIMPLE(int, linkat, kLink, -1, (int a, const char* from, int b, const char* to, int flags), (a, from, b, to, flags))
SIMPLE(ssize_t, readlink, kReadlink, -1, (const char* path, char* out, size_t length), (path, out, length))
SIMPLE(ssize_t, readlinkat, kReadlink, -1, (int folder, const char* path, char* out, size_t length),
       (folder, path, out, length))
SIMPLE(int, faccessat, kAccess, -1, (int folder, const char* path, int mode, int flags), (folder, path, mode, flags))
SIMPLE(DIR*, opendir, kOpendir, nullptr, (const char* path), (path))
SIMPLE(DIR*, fdopendir, kOpendir, nullptr, (int fd), (fd))
SIMPLE(dirent*, readdir, kReaddir, nullptr, (DIR * stream), (stream))
SIMPLE(dirent64*, readdir64, kReaddir, nullptr, (DIR * stream), (stream))
SIMPLE(int, flock, kFlock, -1, (int fd, int operation), (fd, operation))
SIMPLE(int, fchmod, kFchmod, -1, (int fd, mode_t mode), (fd, mode))
SIMPLE(int, fchown, kFchown, -1, (int fd, uid_t owner, gid_t group), (fd, owner, group))

int fstat(int fd, struct stat* out) {
  if (!is_standard(fd) && fails(kStat)) return -1;
  REAL(next, fstat);
  return next(fd, out);
}
int fstat64(int fd, struct stat64* out) {
  if (!is_standard(fd) && fails(kStat)) return -1;
  REAL(next, fstat64);
  return next(fd, out);
}

// The descriptor is gone even so, as Linux has it.
int close(int fd) {
  REAL(next, close);
  const int result = next(fd);
  return !is_standard(fd) && fails(kClose) ? -1 : result;
}

// Memory that belongs to no file is what malloc asks for.
void* mmap(void* address, size_t length, int protection, int flags, int fd, off_t offset) {
  if (fd >= 0 && fails(kMmap)) return MAP_FAILED;
  REAL(next, mmap);
  return next(address, length, protection, flags, fd, offset);
}
void* mmap64(void* address, size_t length, int protection, int flags, int fd, off64_t offset) {
  if (fd >= 0 && fails(kMmap)) return MAP_FAILED;
  REAL(next, mmap64);
  return next(address, length, protection, flags, fd, offset);
}

int fcntl64(int fd, int command, ...) {
  va_list rest;
  va_start(rest, command);
  void* argument = va_arg(rest, void*);
  va_end(rest);
  if ((command == F_DUPFD || command == F_DUPFD_CLOEXEC) && fails(kDup)) return -1;
  REAL(next, fcntl64);
  return next(fd, command, argument);
}
int fcntl(int fd, int command, ...) {
  va_list rest;
  va_start(rest, command);
  void* argument = va_arg(rest, void*);
  va_end(rest);
  if ((command == F_DUPFD || command == F_DUPFD_CLOEXEC) && fails(kDup)) return -1;
  REAL(next, fcntl);
  return next(fd, command, argument);
}

int pthread_create(pthread_t* thread, const pthread_attr_t* attributes, void* (*work)(void*), void* argument) {
  if (fails(kThread)) return EAGAIN;
  REAL(next, pthread_create);
  return next(thread, attributes, work, argument);
}

// glibc's own names, so that finding them needs no memory.
void* __libc_malloc(size_t size);
void* __libc_calloc(size_t count, size_t size);
void* __libc_realloc(void* old, size_t size);
void* __libc_memalign(size_t alignment, size_t size);

void* malloc(size_t size) { return fails(kMalloc) ? nullptr : __libc_malloc(size); }
void* calloc(size_t count, size_t size) { return fails(kMalloc) ? nullptr : __libc_calloc(count, size); }
void* realloc(void* old, size_t size) { return fails(kMalloc) ? nullptr : __libc_realloc(old, size); }
void* aligned_alloc(size_t alignment, size_t size) {
  return fails(kMalloc) ? nullptr : __libc_memalign(alignment, size);
}
int posix_memalign(void** out, size_t alignment, size_t size) {
  if (fails(kMalloc)) return ENOMEM;
  *out = __libc_memalign(alignment, size);
  return *out == nullptr ? ENOMEM : 0;
}

// _exit ends the program without returning from main.
void _exit(int code) {
  write_counts();
  for (;;) syscall(SYS_exit_group, code);
}

}  // extern "C"
