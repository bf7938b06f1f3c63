#include "ballast/io/destination.h"

#include <fcntl.h>
#include <fmt/format.h>

#include <array>
#include <cerrno>
#include <climits>

namespace ballast {

namespace {

Error not_a_file_name(const std::string& path) {
  return make_error(ErrorCode::kInvalidArgument, fmt::format("{}: is a folder; the name of a file is needed", path));
}

Result<std::shared_ptr<const Folder>> open_folder(const FileSystem& files, const std::string& folder_path,
                                                  const std::string& path) {
  auto folder = std::make_shared<Folder>();
  folder->fd = OwnedFd(files, files.open_at(AT_FDCWD, folder_path.c_str(), O_RDONLY | O_DIRECTORY, 0));
  if (!folder->fd.is_open() && errno == ENOENT) {
    return make_error(ErrorCode::kNotFound,
                      fmt::format("{}: its folder {} does not exist; create it first", path, folder_path));
  }
  struct stat info {};
  if (!folder->fd.is_open() || files.stat_open(folder->fd.get(), &info) != 0) {
    return path_error(path, fmt::format("open its folder {}", folder_path), errno);
  }
  folder->device = info.st_dev;
  folder->inode = info.st_ino;
  return std::shared_ptr<const Folder>(std::move(folder));
}

// The path that the link at `path` stands for.
Result<std::string> follow_link(const FileSystem& files, const Destination& at, const std::string& path) {
  std::array<char, PATH_MAX> target{};
  const ssize_t length = files.read_link_at(at.folder->fd.get(), at.name.c_str(), target.data(), target.size());
  if (length < 0) return path_error(at.path, "follow the symbolic link", errno);
  const std::string_view text(target.data(), static_cast<size_t>(length));
  return text.starts_with('/') ? std::string(text) : path_beside(path, text);
}

Status check_replaceable(const FileSystem& files, const Destination& at, bool overwrite) {
  if (S_ISDIR(at.existing->st_mode)) return not_a_file_name(at.path);
  if (!S_ISREG(at.existing->st_mode)) {
    return make_error(ErrorCode::kInvalidArgument, fmt::format("{}: is {}; only a regular file can be replaced",
                                                               at.path, describe_file_type(at.existing->st_mode)));
  }
  if (!overwrite) {
    return make_error(ErrorCode::kExists, fmt::format("{}: exists already, and overwriting was not asked for", at.path),
                      Remedy::kAllowOverwrite);
  }
  if (files.can_write_at(at.folder->fd.get(), at.name.c_str()) != 0) return io_error(at.path, "replace it", errno);
  return {};
}

// One step: the place that `path` names, whatever stands there.
Result<Destination> look_at(const FileSystem& files, const std::string& path, const std::string& shown) {
  SplitPath parts = split_path(path);
  if (parts.name.empty() || parts.name == "." || parts.name == "..") return not_a_file_name(shown);
  Destination at{shown, nullptr, std::move(parts.name), std::nullopt};
  BALLAST_TRY(at.folder, open_folder(files, parts.folder, shown));
  struct stat info {};
  if (files.stat_at(at.folder->fd.get(), at.name.c_str(), AT_SYMLINK_NOFOLLOW, &info) == 0) {
    at.existing = info;
  } else if (errno != ENOENT) {
    return path_error(shown, "look at it", errno);
  }
  return at;
}

}  // namespace

Result<Destination> resolve_destination(const FileSystem& files, const std::string& path, bool overwrite) {
  if (path.empty() || path.find('\0') != std::string::npos) {
    return make_error(ErrorCode::kInvalidArgument, fmt::format("\"{}\" is not a path", path.c_str()));
  }
  constexpr int kMaxLinks = 40;  // as the kernel
  std::string next = path;
  for (int links = 0; links <= kMaxLinks; ++links) {
    BALLAST_TRY(Destination at, look_at(files, next, path));
    if (!at.existing) return at;
    if (!S_ISLNK(at.existing->st_mode)) {
      BALLAST_CHECK(check_replaceable(files, at, overwrite));
      return at;
    }
    BALLAST_TRY(next, follow_link(files, at, next));
  }
  return path_error(path, "follow the symbolic link", ELOOP);
}

}  // namespace ballast
