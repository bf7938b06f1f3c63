// Where a file is to appear: checked before anything is written.
#pragma once

#include <memory>
#include <optional>
#include <string>

#include "ballast/io/temporary_file.h"

namespace ballast {

struct Destination {
  std::string path;  // as the caller gave it, for texts
  std::shared_ptr<const Folder> folder;
  std::string name;  // in the folder; never that of a symbolic link
  std::optional<struct stat> existing;

  bool is_same_place(const Destination& other) const {
    return folder->device == other.folder->device && folder->inode == other.folder->inode && name == other.name;
  }
};

// Follows symbolic links, also one to a file that does not exist yet. Fails when the path is a folder, a device or the
// like, when its folder is missing, and when it exists and may not be replaced.
Result<Destination> resolve_destination(const FileSystem& files, const std::string& path, bool overwrite);

}  // namespace ballast
