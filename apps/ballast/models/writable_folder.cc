#include "apps/ballast/models/writable_folder.h"

#include <fmt/format.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <filesystem>

#include "ballast/base/human_size.h"

namespace ballast::cli {

namespace {

std::filesystem::path nearest_existing(std::filesystem::path path) {
  std::error_code ignored;
  while (path.has_relative_path() && !std::filesystem::exists(path, ignored)) path = path.parent_path();
  return path.empty() ? "." : path;
}

}  // namespace

Status check_writable_below(const std::string& folder) {
  const std::filesystem::path nearest = nearest_existing(folder);
  std::error_code ignored;
  int failure = 0;
  if (!std::filesystem::is_directory(nearest, ignored)) failure = ENOTDIR;
  else if (::access(nearest.c_str(), W_OK | X_OK) != 0) failure = errno;
  if (failure == 0) return {};
  return make_error(ErrorCode::kIo, fmt::format("{}: cannot store models there, so nothing was downloaded: {}: {}",
                                                folder, nearest.string(), std::strerror(failure)));
}

Status check_free_space(const std::string& folder, uint64_t bytes) {
  std::error_code failure;
  const std::filesystem::space_info space = std::filesystem::space(nearest_existing(folder), failure);
  if (failure || space.available >= bytes) return {};
  return make_error(ErrorCode::kIo, fmt::format("{}: needs {}, but the disk has only {} left; nothing was downloaded",
                                                folder, human_size(bytes), human_size(space.available)));
}

}  // namespace ballast::cli
