#include "apps/ballast/output/output_format.h"

#include <fmt/format.h>

#include <filesystem>

#include "apps/ballast/output/text.h"

namespace ballast::cli {

namespace {

std::vector<std::string_view> writable_formats() {
  std::vector<std::string_view> names;
  for (const FormatDriver* format : all_formats()) {
    if (format->plan_write != nullptr) names.push_back(format->name);
  }
  return names;
}

}  // namespace

Result<const FormatDriver*> choose_format(const std::string& name, const std::string& destination) {
  const std::vector<std::string_view> names = writable_formats();
  if (!name.empty()) {
    if (const FormatDriver* format = find_format(name)) return format;
    const std::string_view meant = nearest(name, names);
    return make_error(ErrorCode::kInvalidArgument,
                      meant.empty()
                          ? fmt::format("there is no format \"{}\"; there are: {}", name, fmt::join(names, ", "))
                          : fmt::format("there is no format \"{}\"; did you mean \"{}\"?", name, meant));
  }
  const std::string file_name = std::filesystem::path(destination).filename().string();
  if (const FormatDriver* format = format_for_extension(file_name)) return format;
  return make_error(ErrorCode::kInvalidArgument, fmt::format("{}: unknown extension; choose a format with --to: {}",
                                                             destination, fmt::join(names, ", ")));
}

}  // namespace ballast::cli
