// What is in a folder. The standard library's iterators are not used for this: where memory runs out inside them, the
// process ends.
#pragma once

#include <string>
#include <vector>

#include "ballast/io/file_system.h"

namespace ballast {

// Names of everything in the folder but "." and "..", sorted, so that the order does not depend on the file system.
// Nothing there, or no folder, is kNotFound.
Result<std::vector<std::string>> names_in_folder(const std::string& path, const FileSystem& files = os_file_system());

struct FolderFile {
  std::string path;  // from the folder on: "a/b.bin"
  uint64_t bytes = 0;
};
// The regular files in the folder and in folders inside it, sorted by path. A link to a file counts as that file,
// unless it leads nowhere; links to folders are not followed.
Result<std::vector<FolderFile>> files_below(const std::string& path, const FileSystem& files = os_file_system());

// The bytes of these files, or of the one file that `path` is; 0 where nothing is.
Result<uint64_t> bytes_below(const std::string& path, const FileSystem& files = os_file_system());

}  // namespace ballast
