#include "apps/ballast/models/file_lock.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/file.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <cstring>
#include <filesystem>
#include <thread>

#include "apps/ballast/terminal/interrupt.h"

namespace ballast::cli {

namespace {

Status wait_for_lock(const OwnedFd& file) {
  while (::flock(file.get(), LOCK_EX | LOCK_NB) != 0 && (errno == EWOULDBLOCK || errno == EINTR)) {
    if (interrupted()) return make_error(ErrorCode::kCancelled, "interrupted");
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
  }
  return {};
}

}  // namespace

Result<OwnedFd> take_lock_file(const std::string& path) {
  const std::filesystem::path folder = std::filesystem::path(path).parent_path();
  std::error_code failure;
  std::filesystem::create_directories(folder, failure);
  if (failure) return make_error(ErrorCode::kIo, fmt::format("{}: {}", folder.string(), failure.message()));
  OwnedFd file(os_file_system(), ::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0644));
  if (!file.is_open()) {
    return make_error(ErrorCode::kIo, fmt::format("{}: cannot open it: {}", path, std::strerror(errno)));
  }
  BALLAST_CHECK(wait_for_lock(file));
  return file;
}

Result<OwnedFd> lock_to_replace(const std::string& path) {
  const FileSystem& files = os_file_system();
  for (;;) {
    OwnedFd file(files, ::open(path.c_str(), O_RDONLY | O_NONBLOCK | O_CLOEXEC));
    if (!file.is_open()) return file;
    BALLAST_CHECK(wait_for_lock(file));
    // Whoever held the lock has probably put another file in its place.
    struct stat held {
    }, named{};
    if (::fstat(file.get(), &held) != 0 || ::stat(path.c_str(), &named) != 0) return file;
    if (held.st_dev == named.st_dev && held.st_ino == named.st_ino) return file;
  }
}

}  // namespace ballast::cli
