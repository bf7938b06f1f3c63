// The operating system's file calls, behind one class, so that tests can make each of them fail in turn.
//
// Nothing else in the library calls the operating system about files, except remove_temporaries_on_signal(), which runs
// in signal handlers where only plain calls are allowed.
#pragma once

#include <sys/stat.h>
#include <sys/types.h>

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <utility>

#include "ballast/base/result.h"

namespace ballast {

// Every method behaves as the call it stands for: -1 (or null) and errno when it fails. The class itself is the
// operating system and has no state; all methods may be called from several threads at once.
class FileSystem {
 public:
  virtual ~FileSystem() = default;

  virtual int open_at(int folder, const char* name, int flags, mode_t mode) const;
  virtual int close(int fd) const;
  virtual int stat_at(int folder, const char* name, int flags, struct stat* out) const;
  virtual int stat_open(int fd, struct stat* out) const;
  virtual int can_write_at(int folder, const char* name) const;
  virtual ssize_t read_link_at(int folder, const char* name, char* out, size_t length) const;
  // Calls `visit` with every name in the folder.
  virtual int list(int folder, const std::function<void(std::string_view)>& visit) const;

  virtual ssize_t read_at(int fd, void* out, size_t length, off_t offset) const;
  // Of a stream: what comes next. These wait, also where the descriptor is set not to.
  virtual ssize_t read_next(int fd, void* out, size_t length) const;
  virtual ssize_t write_next(int fd, const void* bytes, size_t length) const;
  virtual off_t position(int fd) const;  // -1 where there is none: a pipe
  virtual int duplicate(int fd) const;
  virtual void* map(int fd, size_t length) const;
  // Writable, without changing the file.
  virtual void* map_private(int fd, size_t length) const;
  virtual int unmap(void* address, size_t length) const;
  // EFAULT where touching the page at `address` would raise SIGBUS; other errors mean that it cannot be told.
  virtual int check_mapped(void* address) const;
  // Starts reading these bytes into memory and does not wait. Systems take only so much of one request: ask for a
  // mebibyte at a time.
  virtual void prefetch_mapped(void* address, size_t length) const;
  virtual void prefetch_file(int fd, off_t offset, off_t length) const;
  // True when this page, or this byte, is known to be in memory already. Linux says so too of mapped files that the
  // user may not write.
  virtual bool is_resident(void* page) const;
  virtual bool is_cached(int fd, off_t offset) const;

  virtual ssize_t write_at(int fd, const void* bytes, size_t length, off_t offset) const;
  // Reserves disk space without changing the file's size; ENOTSUP where that cannot be done.
  virtual int reserve(int fd, off_t length) const;
  virtual int truncate(int fd, off_t length) const;
  virtual int lock(int fd) const;  // exclusive, without waiting
  virtual int change_mode(int fd, mode_t mode) const;
  virtual int change_owner(int fd, uid_t owner, gid_t group) const;
  // Starts writing these bytes to disk and does not wait.
  virtual void start_write_back(int fd, off_t offset, off_t length) const;
  virtual int sync(int fd) const;
  // Asks for errors of writes that were deferred (network file systems report them when a descriptor is closed).
  virtual int check_writes(int fd) const;
  virtual int free_space(int fd, uint64_t* out) const;

  virtual int rename_at(int folder, const char* from, const char* to) const;
  // Fails with EEXIST when `to` exists, with EINVAL or ENOSYS where the file system cannot do that.
  virtual int rename_new_at(int folder, const char* from, const char* to) const;
  // Each gets the other's name, in one step; EINVAL or ENOSYS where the file system cannot do that.
  virtual int exchange_at(int folder, const char* one, const char* other) const;
  virtual int link_at(int folder, const char* from, const char* to) const;
  // The file `name` of one folder under the same name in another; a symbolic link is not followed.
  virtual int link_into(int from_folder, const char* name, int to_folder) const;
  virtual int unlink_at(int folder, const char* name) const;
  virtual int make_folder_at(int folder, const char* name, mode_t mode) const;
  virtual int remove_folder_at(int folder, const char* name) const;  // an empty one
};

const FileSystem& os_file_system();

// Closes its descriptor when dropped.
class OwnedFd {
 public:
  OwnedFd() = default;
  OwnedFd(const FileSystem& files, int fd) : files_(&files), fd_(fd) {}
  ~OwnedFd() { reset(); }
  OwnedFd(OwnedFd&& other) noexcept : files_(other.files_), fd_(std::exchange(other.fd_, -1)) {}
  OwnedFd& operator=(OwnedFd&& other) noexcept {
    reset();
    files_ = other.files_;
    fd_ = std::exchange(other.fd_, -1);
    return *this;
  }

  int get() const { return fd_; }
  bool is_open() const { return fd_ >= 0; }
  void reset() {
    if (is_open()) files_->close(std::exchange(fd_, -1));
  }

 private:
  const FileSystem* files_ = nullptr;
  int fd_ = -1;
};

// "<path>: cannot <action>: <what errno says>". The first chooses the code by the number, for calls that look a path
// up; the second is always kIo, for calls on a file that is already there.
Error path_error(const std::string& path, std::string_view action, int error_number);
Error io_error(const std::string& path, std::string_view action, int error_number);

// "a folder", "a named pipe", ...: what a path that is not a regular file turned out to be.
std::string_view describe_file_type(mode_t mode);

// True when `name` in `folder` is the very file that `fd` has open.
bool is_same_file(const FileSystem& files, int folder, const char* name, int fd);

// Whether `path` is a regular file, or a link to one. Only "nothing there" is false: a disk that does not answer must
// not pass for a file that is absent.
Result<bool> is_file(const FileSystem& files, const std::string& path);
Result<bool> is_folder(const FileSystem& files, const std::string& path);
// The same for anything of that name, a link that leads nowhere included.
Result<bool> is_taken(const FileSystem& files, const std::string& path);

struct SplitPath {
  std::string folder;  // "." when the path has no folder part
  std::string name;    // empty when the path ends in a slash
};
SplitPath split_path(const std::string& path);

// The path of `name` in the folder that holds `path`.
std::string path_beside(const std::string& path, std::string_view name);

}  // namespace ballast
