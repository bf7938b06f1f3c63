#include "ballast/io/file_version.h"

#include <fcntl.h>

#include <cerrno>

#include "ballast/io/file_system.h"

namespace ballast {

FileVersion version_of(const struct stat& info) {
  return {.device = info.st_dev,
          .inode = info.st_ino,
          .size = static_cast<uint64_t>(info.st_size),
          .changed_seconds = info.st_mtim.tv_sec,
          .changed_nanoseconds = info.st_mtim.tv_nsec};
}

Result<FileVersion> version_of(const std::string& path, const FileSystem* files) {
  const FileSystem& system = files != nullptr ? *files : os_file_system();
  struct stat info {};
  if (system.stat_at(AT_FDCWD, path.c_str(), 0, &info) != 0) return path_error(path, "look at it", errno);
  return version_of(info);
}

}  // namespace ballast
