// A folder that one process at a time works in: created durably, locked, listed, tidied up.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "ballast/io/temporary_file.h"

namespace ballast {

class WorkFolder {
 public:
  // `files` must outlive the object. A missing folder is kNotFound.
  static Result<WorkFolder> open(const std::string& path, const FileSystem& files);
  // Missing folders are made; with `sync` each of them is on the disk before the next.
  static Result<WorkFolder> create(const std::string& path, const FileSystem& files, bool sync = true);

  const std::string& path() const { return path_; }
  std::string path_of(std::string_view name) const;

  // Names of everything in it but "." and "..", sorted.
  Result<std::vector<std::string>> list() const;
  // nullopt where nothing of that name is; anything but a regular file is kInvalidArgument.
  Result<std::optional<uint64_t>> size_of(const std::string& name) const;
  // Removing what is not there is no failure.
  Status remove(const std::string& name) const;
  // Makes what was removed and renamed durable.
  Status sync() const;
  // Temporary files of writers that are dead; gives their names.
  std::vector<std::string> remove_stale_temporaries() const;

 private:
  friend class FolderLock;
  WorkFolder(const FileSystem& files, std::string path, OwnedFd fd)
      : files_(&files), path_(std::move(path)), fd_(std::move(fd)) {}

  const FileSystem* files_;
  std::string path_;
  OwnedFd fd_;
};

// Holds a folder for this process. The lock is the operating system's: it goes with the process, however that ends.
class FolderLock {
 public:
  // kExists, with the number of the process that holds it where the lock file says so. A file system without locks
  // gives one that protects nothing: refusing to work there would help nobody.
  static Result<FolderLock> take(const WorkFolder& folder, const std::string& file_name);

 private:
  explicit FolderLock(OwnedFd fd) : fd_(std::move(fd)) {}
  OwnedFd fd_;
};

}  // namespace ballast
