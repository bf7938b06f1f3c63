// What stands behind standard output or standard error: how wide it is, and whether it takes colours.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace ballast::cli {

struct Terminal {
  bool interactive = false;  // a person looks at it, so lines may be cut and redrawn
  bool colours = false;
  size_t width = 0;  // in columns; 0 = unlimited, which is what a pipe or a file is
};

// Looks at the file descriptor and at NO_COLOR, TERM and COLUMNS.
Terminal find_terminal(int fd);

enum class Paint : unsigned char { kPlain, kBold, kDim, kRed, kGreen, kYellow, kCyan };

void append_painted(std::string& out, const Terminal& terminal, Paint paint, std::string_view text);
std::string painted(const Terminal& terminal, Paint paint, std::string_view text);

}  // namespace ballast::cli
