#include "apps/ballast/terminal/terminal.h"

#include <sys/ioctl.h>
#include <unistd.h>

#include <charconv>
#include <cstdlib>

namespace ballast::cli {

namespace {

std::string_view environment(const char* name) {
  const char* value = std::getenv(name);
  return value == nullptr ? std::string_view() : std::string_view(value);
}

size_t find_width(int fd) {
  const std::string_view columns = environment("COLUMNS");
  size_t width = 0;
  const auto [end, failure] = std::from_chars(columns.data(), columns.data() + columns.size(), width);
  if (failure == std::errc() && end == columns.data() + columns.size() && width > 0) return width;
  winsize size{};
  return ::ioctl(fd, TIOCGWINSZ, &size) == 0 ? size.ws_col : 0;
}

std::string_view escape_sequence(Paint paint) {
  switch (paint) {
    case Paint::kPlain: return "";
    case Paint::kBold: return "\x1b[1m";
    case Paint::kDim: return "\x1b[2m";
    case Paint::kRed: return "\x1b[31m";
    case Paint::kGreen: return "\x1b[32m";
    case Paint::kYellow: return "\x1b[33m";
    case Paint::kCyan: return "\x1b[36m";
  }
  return "";
}

}  // namespace

Terminal find_terminal(int fd) {
  Terminal terminal;
  terminal.interactive = ::isatty(fd) == 1 && environment("TERM") != "dumb";
  if (!terminal.interactive) return terminal;
  terminal.colours = environment("NO_COLOR").empty();
  terminal.width = find_width(fd);
  return terminal;
}

void append_painted(std::string& out, const Terminal& terminal, Paint paint, std::string_view text) {
  const bool paints = terminal.colours && paint != Paint::kPlain && !text.empty();
  if (paints) out += escape_sequence(paint);
  out += text;
  if (paints) out += "\x1b[0m";
}

std::string painted(const Terminal& terminal, Paint paint, std::string_view text) {
  std::string out;
  append_painted(out, terminal, paint, text);
  return out;
}

}  // namespace ballast::cli
