// A file that grows: logs.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "ballast/io/file_system.h"

namespace ballast {

// What is appended is handed to the operating system at once and not synced: a process that is killed loses nothing, a
// machine that loses power may. One thread at a time.
class AppendFile {
 public:
  enum class Start : uint8_t { kEmpty, kAtEnd };

  // Creates the file where there is none. `files` (null = the operating system) must outlive the object.
  static Result<AppendFile> open(const std::string& path, Start start, const FileSystem* files = nullptr);

  Status append(std::string_view text);

 private:
  AppendFile(const FileSystem& files, OwnedFd fd, std::string path, uint64_t size)
      : files_(&files), fd_(std::move(fd)), path_(std::move(path)), size_(size) {}

  const FileSystem* files_;
  OwnedFd fd_;
  std::string path_;
  uint64_t size_;
};

}  // namespace ballast
