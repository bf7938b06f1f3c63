#include "ballast/io/list_folder.h"

#include <fcntl.h>

#include <algorithm>
#include <cerrno>

namespace ballast {

namespace {

std::string path_inside(const std::string& folder, const std::string& name) {
  return folder.empty() || folder.ends_with('/') ? folder + name : folder + '/' + name;
}

// False where nothing is (any more), or a link leads nowhere.
Result<bool> stat_entry(const FileSystem& files, const std::string& path, int flags, struct stat& info) {
  if (files.stat_at(AT_FDCWD, path.c_str(), flags, &info) == 0) return true;
  if (errno == ENOENT || errno == ENOTDIR || errno == ELOOP) return false;
  return path_error(path, "look at it", errno);
}

}  // namespace

Result<std::vector<std::string>> names_in_folder(const std::string& path, const FileSystem& files) {
  const OwnedFd folder(files, files.open_at(AT_FDCWD, path.c_str(), O_RDONLY | O_DIRECTORY, 0));
  if (!folder.is_open()) return path_error(path, "list the folder", errno);
  std::vector<std::string> names;
  const auto visit = [&](std::string_view name) {
    if (name != "." && name != "..") names.emplace_back(name);
  };
  if (files.list(folder.get(), visit) != 0) return path_error(path, "list the folder", errno);
  std::ranges::sort(names);
  return names;
}

Result<std::vector<FolderFile>> files_below(const std::string& path, const FileSystem& files) {
  std::vector<FolderFile> found;
  std::vector<std::string> folders = {""};  // still to be listed, from `path` on
  while (!folders.empty()) {
    const std::string folder = std::move(folders.back());
    folders.pop_back();
    auto names = names_in_folder(path_inside(path, folder), files);
    if (!names && names.error().code == ErrorCode::kNotFound && !folder.empty()) continue;  // removed meanwhile
    if (!names) return std::move(names).error();
    for (const std::string& name : *names) {
      const std::string inside = path_inside(folder, name);
      struct stat info {};
      BALLAST_TRY(bool is_there, stat_entry(files, path_inside(path, inside), AT_SYMLINK_NOFOLLOW, info));
      if (is_there && S_ISDIR(info.st_mode)) folders.push_back(inside);
      if (is_there && S_ISLNK(info.st_mode)) {
        BALLAST_CHECK(assign(is_there, stat_entry(files, path_inside(path, inside), 0, info)));
      }
      if (is_there && S_ISREG(info.st_mode)) found.push_back({inside, static_cast<uint64_t>(info.st_size)});
    }
  }
  std::ranges::sort(found, {}, &FolderFile::path);
  return found;
}

Result<uint64_t> bytes_below(const std::string& path, const FileSystem& files) {
  struct stat info {};
  BALLAST_TRY(const bool is_there, stat_entry(files, path, 0, info));
  if (!is_there) return uint64_t{0};
  if (!S_ISDIR(info.st_mode)) return S_ISREG(info.st_mode) ? static_cast<uint64_t>(info.st_size) : 0;
  BALLAST_TRY(const auto found, files_below(path, files));
  uint64_t sum = 0;
  for (const FolderFile& file : found) sum += file.bytes;
  return sum;
}

}  // namespace ballast
