#include "ballast/io/file_system.h"

#include <dirent.h>
#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/statvfs.h>
#include <sys/uio.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <memory>
#include <optional>
#include <system_error>

namespace ballast {

static_assert(sizeof(off_t) == 8, "files over 2 GiB need _FILE_OFFSET_BITS=64");

namespace {

struct CloseStream {
  void operator()(DIR* stream) const { ::closedir(stream); }
};

// True when the call that just failed is worth repeating: it was interrupted, or the stream was not ready and now is.
bool try_again(int fd, short event) {
  if (errno == EINTR) return true;
  if (errno != EAGAIN && errno != EWOULDBLOCK) return false;
  pollfd wait = {fd, event, 0};
  return ::poll(&wait, 1, -1) >= 0 || errno == EINTR;
}

}  // namespace

int FileSystem::open_at(int folder, const char* name, int flags, mode_t mode) const {
  int fd = -1;
  do fd = ::openat(folder, name, flags | O_CLOEXEC, mode);
  while (fd < 0 && errno == EINTR);
  return fd;
}

int FileSystem::close(int fd) const { return ::close(fd); }

int FileSystem::stat_at(int folder, const char* name, int flags, struct stat* out) const {
  return ::fstatat(folder, name, out, flags);
}

int FileSystem::stat_open(int fd, struct stat* out) const { return ::fstat(fd, out); }

int FileSystem::can_write_at(int folder, const char* name) const { return ::faccessat(folder, name, W_OK, AT_EACCESS); }

ssize_t FileSystem::read_link_at(int folder, const char* name, char* out, size_t length) const {
  return ::readlinkat(folder, name, out, length);
}

int FileSystem::list(int folder, const std::function<void(std::string_view)>& visit) const {
  // A stream takes its descriptor over and moves its position, so it gets one of its own.
  const int fd = open_at(folder, ".", O_RDONLY | O_DIRECTORY, 0);
  if (fd < 0) return -1;
  const std::unique_ptr<DIR, CloseStream> stream(::fdopendir(fd));
  if (stream == nullptr) {
    ::close(fd);
    return -1;
  }
  for (;;) {
    errno = 0;  // readdir gives null at the end and for a failure
    const dirent* entry = ::readdir(stream.get());
    if (entry == nullptr) return errno == 0 ? 0 : -1;
    visit(entry->d_name);
  }
}

ssize_t FileSystem::read_at(int fd, void* out, size_t length, off_t offset) const {
  return ::pread(fd, out, length, offset);
}

ssize_t FileSystem::read_next(int fd, void* out, size_t length) const {
  ssize_t got = -1;
  do got = ::read(fd, out, length);
  while (got < 0 && try_again(fd, POLLIN));
  return got;
}

ssize_t FileSystem::write_next(int fd, const void* bytes, size_t length) const {
  ssize_t done = -1;
  do done = ::write(fd, bytes, length);
  while (done < 0 && try_again(fd, POLLOUT));
  return done;
}

off_t FileSystem::position(int fd) const { return ::lseek(fd, 0, SEEK_CUR); }

int FileSystem::duplicate(int fd) const { return ::fcntl(fd, F_DUPFD_CLOEXEC, 0); }

void* FileSystem::map(int fd, size_t length) const {
  void* address = ::mmap(nullptr, length, PROT_READ, MAP_SHARED, fd, 0);
  return address == MAP_FAILED ? nullptr : address;
}

void* FileSystem::map_private(int fd, size_t length) const {
  // Without a reservation: nearly all of a large file is only read, and takes no memory that way.
  constexpr int kFlags = MAP_PRIVATE | MAP_NORESERVE;
  void* address = ::mmap(nullptr, length, PROT_READ | PROT_WRITE, kFlags, fd, 0);
  return address == MAP_FAILED ? nullptr : address;
}

int FileSystem::unmap(void* address, size_t length) const { return ::munmap(address, length); }

int FileSystem::check_mapped(void* address) const {
#ifdef MADV_POPULATE_READ
  return ::madvise(address, 1, MADV_POPULATE_READ);
#else
  (void)address;
  errno = ENOSYS;
  return -1;
#endif
}

void FileSystem::prefetch_mapped(void* address, size_t length) const { ::madvise(address, length, MADV_WILLNEED); }

void FileSystem::prefetch_file(int fd, off_t offset, off_t length) const {
#ifdef POSIX_FADV_WILLNEED
  ::posix_fadvise(fd, offset, length, POSIX_FADV_WILLNEED);
#endif
}

bool FileSystem::is_resident(void* page) const {
#ifdef __linux__
  unsigned char resident = 0;
  return ::mincore(page, 1, &resident) == 0 && (resident & 1) != 0;
#else
  static_cast<void>(page);
  return false;
#endif
}

bool FileSystem::is_cached(int fd, off_t offset) const {
#ifdef RWF_NOWAIT
  char byte = 0;
  const iovec into{&byte, 1};
  return ::preadv2(fd, &into, 1, offset, RWF_NOWAIT) == 1;
#else
  static_cast<void>(fd), static_cast<void>(offset);
  return false;
#endif
}

ssize_t FileSystem::write_at(int fd, const void* bytes, size_t length, off_t offset) const {
  return ::pwrite(fd, bytes, length, offset);
}

int FileSystem::reserve(int fd, off_t length) const {
#ifdef __linux__
  int result = -1;
  do result = ::fallocate(fd, FALLOC_FL_KEEP_SIZE, 0, length);
  while (result < 0 && errno == EINTR);
  return result;
#else
  errno = ENOTSUP;
  return -1;
#endif
}

int FileSystem::truncate(int fd, off_t length) const {
  int result = -1;
  do result = ::ftruncate(fd, length);
  while (result < 0 && errno == EINTR);
  return result;
}

int FileSystem::lock(int fd) const { return ::flock(fd, LOCK_EX | LOCK_NB); }

int FileSystem::change_mode(int fd, mode_t mode) const { return ::fchmod(fd, mode); }

int FileSystem::change_owner(int fd, uid_t owner, gid_t group) const { return ::fchown(fd, owner, group); }

void FileSystem::start_write_back(int fd, off_t offset, off_t length) const {
#ifdef SYNC_FILE_RANGE_WRITE
  ::sync_file_range(fd, offset, length, SYNC_FILE_RANGE_WRITE);
#endif
}

int FileSystem::sync(int fd) const {
  int result = -1;
  do result = ::fsync(fd);
  while (result < 0 && errno == EINTR);
  return result;
}

int FileSystem::check_writes(int fd) const {
  const int copy = ::fcntl(fd, F_DUPFD_CLOEXEC, 0);
  return copy < 0 ? -1 : ::close(copy);
}

int FileSystem::free_space(int fd, uint64_t* out) const {
  struct statvfs info {};
  if (::fstatvfs(fd, &info) != 0) return -1;
  *out = static_cast<uint64_t>(info.f_bavail) * info.f_frsize;
  return 0;
}

int FileSystem::rename_at(int folder, const char* from, const char* to) const {
  return ::renameat(folder, from, folder, to);
}

int FileSystem::rename_new_at(int folder, const char* from, const char* to) const {
#ifdef RENAME_NOREPLACE
  return ::renameat2(folder, from, folder, to, RENAME_NOREPLACE);
#else
  errno = ENOSYS;
  return -1;
#endif
}

int FileSystem::exchange_at(int folder, const char* one, const char* other) const {
#ifdef RENAME_EXCHANGE
  return ::renameat2(folder, one, folder, other, RENAME_EXCHANGE);
#else
  errno = ENOSYS;
  return -1;
#endif
}

int FileSystem::link_into(int from_folder, const char* name, int to_folder) const {
  return ::linkat(from_folder, name, to_folder, name, 0);
}

int FileSystem::link_at(int folder, const char* from, const char* to) const {
  return ::linkat(folder, from, folder, to, 0);
}

int FileSystem::unlink_at(int folder, const char* name) const { return ::unlinkat(folder, name, 0); }

int FileSystem::make_folder_at(int folder, const char* name, mode_t mode) const {
  return ::mkdirat(folder, name, mode);
}

int FileSystem::remove_folder_at(int folder, const char* name) const { return ::unlinkat(folder, name, AT_REMOVEDIR); }

const FileSystem& os_file_system() {
  static const FileSystem kOs;
  return kOs;
}

namespace {

ErrorCode code_of(int error_number) {
  switch (error_number) {
    case ENOENT:
    case ENOTDIR: return ErrorCode::kNotFound;
    case EEXIST: return ErrorCode::kExists;
    case ENAMETOOLONG:
    case ELOOP:
    case EISDIR: return ErrorCode::kInvalidArgument;
    case ENOMEM: return ErrorCode::kOutOfMemory;
    default: return ErrorCode::kIo;
  }
}

std::string failure_text(const std::string& path, std::string_view action, int error_number) {
  return fmt::format("{}: cannot {}: {}", path, action, std::generic_category().message(error_number));
}

}  // namespace

Error path_error(const std::string& path, std::string_view action, int error_number) {
  return make_error(code_of(error_number), failure_text(path, action, error_number));
}

Error io_error(const std::string& path, std::string_view action, int error_number) {
  return make_error(ErrorCode::kIo, failure_text(path, action, error_number));
}

std::string_view describe_file_type(mode_t mode) {
  switch (mode & S_IFMT) {
    case S_IFREG: return "a regular file";
    case S_IFDIR: return "a folder";
    case S_IFIFO: return "a named pipe";
    case S_IFSOCK: return "a socket";
    case S_IFCHR:
    case S_IFBLK: return "a device";
    case S_IFLNK: return "a symbolic link";
    default: return "of an unknown kind";
  }
}

bool is_same_file(const FileSystem& files, int folder, const char* name, int fd) {
  struct stat named {};
  struct stat opened {};
  if (files.stat_at(folder, name, AT_SYMLINK_NOFOLLOW, &named) != 0) return false;
  if (files.stat_open(fd, &opened) != 0) return false;
  return named.st_dev == opened.st_dev && named.st_ino == opened.st_ino;
}

namespace {

// Nullopt where nothing is.
Result<std::optional<mode_t>> mode_of(const FileSystem& files, const std::string& path, int flags) {
  struct stat info {};
  if (files.stat_at(AT_FDCWD, path.c_str(), flags, &info) == 0) return std::optional(info.st_mode);
  if (errno == ENOENT || errno == ENOTDIR) return std::optional<mode_t>();
  return path_error(path, "look at it", errno);
}

}  // namespace

Result<bool> is_file(const FileSystem& files, const std::string& path) {
  BALLAST_TRY(const auto mode, mode_of(files, path, 0));
  return mode && S_ISREG(*mode);
}

Result<bool> is_folder(const FileSystem& files, const std::string& path) {
  BALLAST_TRY(const auto mode, mode_of(files, path, 0));
  return mode && S_ISDIR(*mode);
}

Result<bool> is_taken(const FileSystem& files, const std::string& path) {
  BALLAST_TRY(const auto mode, mode_of(files, path, AT_SYMLINK_NOFOLLOW));
  return mode.has_value();
}

SplitPath split_path(const std::string& path) {
  const size_t slash = path.rfind('/');
  if (slash == std::string::npos) return {".", path};
  // The slash of "/name" is the folder itself.
  return {path.substr(0, slash == 0 ? 1 : slash), path.substr(slash + 1)};
}

std::string path_beside(const std::string& path, std::string_view name) {
  const size_t slash = path.rfind('/');
  return slash == std::string::npos ? std::string(name) : path.substr(0, slash + 1).append(name);
}

}  // namespace ballast
