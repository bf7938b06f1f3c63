#include "ballast/io/output_path.h"

#include <fcntl.h>
#include <fmt/format.h>

#include <cerrno>
#include <filesystem>

#include "ballast/io/file_system.h"

namespace ballast {

namespace {

namespace fs = std::filesystem;

Error cannot_write(ErrorCode code, const std::string& path, std::string_view why) {
  return make_error(code, fmt::format("{}: cannot be written: {}", path, why));
}

}  // namespace

Status check_output_path(const std::string& path, bool overwrite) {
  std::error_code failure;
  const fs::file_status there = fs::status(path, failure);
  if (path.ends_with('/') || fs::is_directory(there))
    return cannot_write(ErrorCode::kInvalidArgument, path, "it is a folder; name a file in it");
  if (fs::exists(there) && !overwrite)
    return make_error(ErrorCode::kExists, fmt::format("{}: exists already, and overwriting was not asked for", path),
                      Remedy::kAllowOverwrite);
  // The nearest folder that is there; those below it will be created.
  fs::path folder = fs::path(path).parent_path();
  if (folder.empty()) folder = ".";
  while (!folder.empty() && !fs::exists(folder, failure)) {
    const fs::path above = folder.parent_path();
    if (above == folder) break;
    folder = above.empty() && folder.is_relative() ? fs::path(".") : above;
  }
  if (!fs::is_directory(folder, failure))
    return cannot_write(ErrorCode::kInvalidArgument, path, fmt::format("{} is not a folder", folder.string()));
  if (os_file_system().can_write_at(AT_FDCWD, folder.c_str()) == 0) return {};
  return cannot_write(
      ErrorCode::kIo, path,
      fmt::format("{}: {}", folder.string(), std::error_code(errno, std::generic_category()).message()));
}

bool is_same_place(const std::string& a, const std::string& b) {
  std::error_code failure;
  if (fs::equivalent(a, b, failure)) return true;
  const fs::path first = fs::weakly_canonical(fs::absolute(a, failure), failure);
  const fs::path second = fs::weakly_canonical(fs::absolute(b, failure), failure);
  return !first.empty() && first == second;
}

}  // namespace ballast
