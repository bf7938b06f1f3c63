#include "bindings/core/enter.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>

namespace ballast::core {

namespace {

std::array<char, 256> last_message{};

void keep_message(std::string_view text) {
  size_t size = std::min(text.size(), last_message.size() - 1);
  while (size > 0 && size < text.size() && (static_cast<unsigned char>(text[size]) & 0xC0) == 0x80) --size;
  std::copy_n(text.begin(), size, last_message.begin());
  last_message[size] = '\0';
}

}  // namespace

ballast_core_code report(ErrorCode code, std::string_view message) {
  keep_message(message);
  return static_cast<ballast_core_code>(static_cast<int>(code) + 1);
}

// Without an allocation: there may be no byte left.
ballast_core_code report_full(const Arena& arena, size_t wanted) {
  std::array<char, 160> text;
  const auto written = fmt::format_to_n(text.data(), text.size(),
                                        "the block of {} bytes is full: {} more are needed at once; give a larger one",
                                        arena.size(), wanted);
  keep_message({text.data(), std::min(written.size, text.size())});
  return BALLAST_CORE_OUT_OF_MEMORY;
}

ballast_core_code report_defect(const char* what) {
  keep_message(what);
  return BALLAST_CORE_INTERNAL;
}

}  // namespace ballast::core

const char* ballast_core_message() { return ballast::core::last_message.data(); }
