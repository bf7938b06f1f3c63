#include "apps/ballast/flags/file_names.h"

#include <fmt/format.h>

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
  return make_error(ErrorCode::kInvalidArgument, name.empty()
                                                     ? std::string("a file name cannot be empty")
                                                     : fmt::format("\"{:.60}...\" is too long for a file name", text));
}

bool names_a_folder(const std::string& path) {
  std::error_code none;
  return path.ends_with('/') || fs::is_directory(path, none);
}

}  // namespace ballast::cli
