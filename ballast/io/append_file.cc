#include "ballast/io/append_file.h"

#include <fcntl.h>

#include <cerrno>

namespace ballast {

Result<AppendFile> AppendFile::open(const std::string& path, Start start, const FileSystem* files) {
  constexpr mode_t kMode = 0666;
  const FileSystem& system = files != nullptr ? *files : os_file_system();
  const int flags = O_WRONLY | O_CREAT | O_CLOEXEC | (start == Start::kEmpty ? O_TRUNC : 0);
  OwnedFd fd(system, system.open_at(AT_FDCWD, path.c_str(), flags, kMode));
  if (!fd.is_open()) return path_error(path, "write", errno);
  struct stat found {};
  if (system.stat_open(fd.get(), &found) != 0) return io_error(path, "look at it", errno);
  if (!S_ISREG(found.st_mode)) {
    return make_error(ErrorCode::kInvalidArgument,
                      path + ": is " + std::string(describe_file_type(found.st_mode)) + ", not a file that can grow");
  }
  return AppendFile(system, std::move(fd), path, static_cast<uint64_t>(found.st_size));
}

Status AppendFile::append(std::string_view text) {
  for (size_t done = 0; done < text.size();) {
    const ssize_t now =
        files_->write_at(fd_.get(), text.data() + done, text.size() - done, static_cast<off_t>(size_ + done));
    if (now < 0 && errno == EINTR) continue;
    if (now < 0) return io_error(path_, "write", errno);
    done += static_cast<size_t>(now);
  }
  size_ += text.size();
  return {};
}

}  // namespace ballast
