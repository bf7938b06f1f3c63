#include "ballast/io/work_folder.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>

namespace ballast {

namespace {

OwnedFd open_folder_at(const FileSystem& files, const std::string& path) {
  return {files, files.open_at(AT_FDCWD, path.c_str(), O_RDONLY | O_DIRECTORY, 0)};
}

// Some file systems cannot sync a folder and say EINVAL; there is nothing better to do on them.
bool sync_folder(const FileSystem& files, int fd) { return files.sync(fd) == 0 || errno == EINVAL; }

std::string without_trailing_slashes(std::string path) {
  while (path.size() > 1 && path.ends_with('/')) path.pop_back();
  return path;
}

// Makes `path` and what is missing above it. The entry of a folder is on the disk before anything is made in it, so
// after a crash only the last one can be there without being durable; that one is synced again by whoever comes next.
Status make_folders(const FileSystem& files, const std::string& path, bool sync) {
  std::vector<std::string> missing;
  std::string at = path;
  while (!open_folder_at(files, at).is_open()) {
    if (errno != ENOENT) return path_error(at, "open the folder", errno);
    std::string above = split_path(at).folder;
    if (above == at) return path_error(path, "create the folder", ENOENT);  // the working folder itself is gone
    missing.push_back(std::exchange(at, std::move(above)));
  }
  const bool existed = missing.empty();
  if (existed) missing.push_back(path);
  for (auto folder = missing.rbegin(); folder != missing.rend(); ++folder) {
    const SplitPath parts = split_path(*folder);
    if (parts.name.empty() || parts.name == "." || parts.name == "..") continue;  // exists, and is nobody's to sync
    const OwnedFd parent = open_folder_at(files, parts.folder);
    if (!parent.is_open() && existed) continue;  // may be entered and not read: then others must care for it
    if (!parent.is_open()) return path_error(parts.folder, "open the folder", errno);
    if (files.make_folder_at(parent.get(), parts.name.c_str(), 0777) != 0 && errno != EEXIST) {
      return path_error(*folder, "create the folder", errno);
    }
    if (sync && !sync_folder(files, parent.get())) return io_error(*folder, "bring the new folder to the disk", errno);
  }
  return {};
}

}  // namespace

Result<WorkFolder> WorkFolder::open(const std::string& path, const FileSystem& files) {
  OwnedFd fd = open_folder_at(files, path);
  if (!fd.is_open()) return path_error(path, "open the folder", errno);
  return WorkFolder(files, without_trailing_slashes(path), std::move(fd));
}

Result<WorkFolder> WorkFolder::create(const std::string& path, const FileSystem& files, bool sync) {
  if (path.empty() || path.find('\0') != std::string::npos) {
    return make_error(ErrorCode::kInvalidArgument, fmt::format("\"{}\" is not the path of a folder", path.c_str()));
  }
  BALLAST_CHECK(make_folders(files, without_trailing_slashes(path), sync));
  return open(path, files);
}

std::string WorkFolder::path_of(std::string_view name) const {
  return path_ == "/" ? fmt::format("/{}", name) : fmt::format("{}/{}", path_, name);
}

Result<std::vector<std::string>> WorkFolder::list() const {
  std::vector<std::string> names;
  const auto visit = [&](std::string_view name) {
    if (name != "." && name != "..") names.emplace_back(name);
  };
  if (files_->list(fd_.get(), visit) != 0) return path_error(path_, "list the folder", errno);
  std::ranges::sort(names);
  return names;
}

Result<std::optional<uint64_t>> WorkFolder::size_of(const std::string& name) const {
  struct stat info {};
  if (files_->stat_at(fd_.get(), name.c_str(), 0, &info) != 0) {
    if (errno == ENOENT) return std::optional<uint64_t>();
    return path_error(path_of(name), "look at it", errno);
  }
  if (!S_ISREG(info.st_mode)) {
    return make_error(ErrorCode::kInvalidArgument,
                      fmt::format("{}: is {}, not a file", path_of(name), describe_file_type(info.st_mode)));
  }
  return std::optional(static_cast<uint64_t>(info.st_size));
}

Status WorkFolder::remove(const std::string& name) const {
  if (files_->unlink_at(fd_.get(), name.c_str()) == 0 || errno == ENOENT) return {};
  return io_error(path_of(name), "remove it", errno);
}

Status WorkFolder::sync() const {
  if (sync_folder(*files_, fd_.get())) return {};
  return io_error(path_, "bring the folder to the disk", errno);
}

std::vector<std::string> WorkFolder::remove_stale_temporaries() const {
  return ballast::remove_stale_temporaries(*files_, fd_.get());
}

namespace {

// What the holder of the lock wrote into it: digits, or nothing that helps.
std::string read_holder(const FileSystem& files, int fd) {
  std::array<char, 32> text{};
  const ssize_t length = files.read_at(fd, text.data(), text.size(), 0);
  std::string holder(text.data(), length > 0 ? static_cast<size_t>(length) : 0);
  holder.resize(std::min(holder.find_first_not_of("0123456789"), holder.size()));
  return holder;
}

Error already_held(const FileSystem& files, int fd, const std::string& path) {
  const std::string holder = read_holder(files, fd);
  return make_error(ErrorCode::kExists,
                    fmt::format("{}: another process{} works in this folder and holds its lock; wait for it, stop it, "
                                "or use another folder",
                                path, holder.empty() ? "" : fmt::format(" ({})", holder)));
}

}  // namespace

Result<FolderLock> FolderLock::take(const WorkFolder& folder, const std::string& file_name) {
  const FileSystem& files = *folder.files_;
  const std::string path = folder.path_of(file_name);
  OwnedFd fd(files, files.open_at(folder.fd_.get(), file_name.c_str(), O_RDWR | O_CREAT | O_NOFOLLOW, 0666));
  if (!fd.is_open()) return path_error(path, "open the lock file", errno);
  if (files.lock(fd.get()) != 0 && errno == EWOULDBLOCK) return already_held(files, fd.get(), folder.path());
  // Only for the text that others get; the lock holds without it, so that a full disk is no reason to fail here. Always
  // as long, so that nothing of an earlier holder is left.
  const std::string process = fmt::format("{:<20}\n", ::getpid());
  static_cast<void>(files.write_at(fd.get(), process.data(), process.size(), 0));
  return FolderLock(std::move(fd));
}

}  // namespace ballast
