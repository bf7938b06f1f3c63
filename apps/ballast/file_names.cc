#include "apps/ballast/file_names.h"

#include <fmt/format.h>
#include <unistd.h>

#include <filesystem>

namespace ballast::cli {

namespace fs = std::filesystem;

Result<std::string> safe_file_name(std::string_view text) {
  constexpr size_t kLongest = 200;  // leaves room for an extension, and for the name of a temporary file
  std::string name;
  for (const char c : text) {
    const bool letter = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9');
    const bool dot = c == '.' && !name.empty();  // a leading dot hides the file, and ".." climbs
    if (letter || dot || c == '-' || c == '_') name += c;
    else name += fmt::format("%{:02X}", static_cast<unsigned char>(c));
  }
  if (!name.empty() && name.size() <= kLongest) return name;
  return make_error(ErrorCode::kInvalidArgument,
                    name.empty() ? std::string("an empty name cannot be the name of a file")
                                 : fmt::format("\"{:.60}...\" is too long for the name of a file", text));
}

bool names_a_folder(const std::string& path) {
  std::error_code none;
  return path.ends_with('/') || fs::is_directory(path, none);
}

Result<StagingFolder> StagingFolder::create(const std::string& path) {
  fs::path target = fs::path(path).lexically_normal();
  if (!target.has_filename()) target = target.parent_path();
  std::error_code failure;
  if (fs::exists(target, failure)) {
    if (!fs::is_directory(target, failure)) {
      return make_error(ErrorCode::kExists, fmt::format("{}: exists already and is no folder", path));
    }
    if (!fs::is_empty(target, failure) || failure) {
      return make_error(ErrorCode::kExists, fmt::format("{}: the folder is not empty; name a new one", path));
    }
  }
  const fs::path staging =
      target.parent_path() / fmt::format(".{}.{}.ballast-tmp", target.filename().string(), ::getpid());
  if (!fs::create_directory(staging, failure)) {
    return make_error(failure == std::errc::no_such_file_or_directory ? ErrorCode::kNotFound : ErrorCode::kIo,
                      fmt::format("{}: cannot make the folder: {}", path,
                                  failure ? failure.message() : std::string("its temporary name is taken")));
  }
  return StagingFolder(target.string(), staging.string());
}

StagingFolder::StagingFolder(StagingFolder&& other) noexcept
    : path_(std::move(other.path_)), staging_(std::exchange(other.staging_, {})) {}

StagingFolder::~StagingFolder() {
  std::error_code ignored;
  if (!staging_.empty()) fs::remove_all(staging_, ignored);
}

Status StagingFolder::publish() {
  std::error_code failure;
  fs::rename(staging_, path_, failure);
  if (failure) return make_error(ErrorCode::kIo, fmt::format("{}: {}", path_, failure.message()));
  staging_.clear();
  return {};
}

}  // namespace ballast::cli
