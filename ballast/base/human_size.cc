#include "ballast/base/human_size.h"

#include <fmt/format.h>

#include <array>

namespace ballast {

std::string human_size(uint64_t bytes) {
  constexpr std::array kUnits = {"B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB"};
  size_t unit = 0;
  uint64_t whole = bytes, rest = 0;  // rest: 1024ths of the unit
  bool exact = true;
  while (whole >= 1024 && unit + 1 < kUnits.size()) {
    exact = exact && rest == 0;
    rest = whole & 1023;
    whole >>= 10;
    ++unit;
  }
  if (exact && rest == 0) return fmt::format("{} {}", whole, kUnits[unit]);
  // Three digits, in whole numbers: every line of a long listing comes here, and floating-point numbers print slowly.
  uint64_t scale = 100;
  const auto scaled = [&] { return whole * scale + (rest * scale + 512) / 1024; };
  while (scale > 1 && scaled() >= 1000) scale /= 10;
  if (scaled() == 1024) return fmt::format("1.00 {}", kUnits[unit + 1]);
  if (scale == 1) return fmt::format("{} {}", scaled(), kUnits[unit]);
  return fmt::format("{}.{:0{}} {}", scaled() / scale, scaled() % scale, scale == 100 ? 2 : 1, kUnits[unit]);
}

}  // namespace ballast
