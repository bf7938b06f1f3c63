#include "bindings/c/output_format.h"

namespace ballast::c {

Result<const FormatDriver*> choose_format(const char* name, const std::string& path) {
  const FormatDriver* format = name != nullptr ? find_format(name) : format_for_extension(path);
  if (format != nullptr) return format;
  std::string message = name != nullptr ? "there is no format \"" + std::string(name) + "\""
                        : path.empty()  ? std::string("options->format must say which format to write")
                                        : path + ": unknown extension, and options->format is NULL";
  message += "; there are:";
  for (const FormatDriver* known : all_formats()) {
    if (known->plan_write != nullptr) message += " " + std::string(known->name);
  }
  return make_error(ErrorCode::kInvalidArgument, std::move(message));
}

}  // namespace ballast::c
