#include "apps/ballast/flags/parse_size.h"

#include <cctype>
#include <charconv>
#include <cmath>
#include <string>

namespace ballast::cli {

double unit_factor(std::string_view text) {
  std::string unit(text);
  for (char& c : unit) c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  if (unit.empty() || unit == "b") return 1;
  const size_t power = std::string_view("kmgt").find(unit.front());
  const std::string_view rest = std::string_view(unit).substr(1);
  if (power == std::string_view::npos || (!rest.empty() && rest != "b" && rest != "i" && rest != "ib")) return 0;
  return std::pow(rest.starts_with('i') ? 1024.0 : 1000.0, static_cast<double>(power + 1));
}

std::optional<uint64_t> parse_size(std::string_view text) {
  double number = 0;
  const auto [end, failure] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (failure != std::errc() || !(number > 0)) return std::nullopt;
  std::string_view unit = text.substr(static_cast<size_t>(end - text.data()));
  while (unit.starts_with(' ')) unit.remove_prefix(1);
  const double factor = unit_factor(unit), bytes = number * factor;
  if (factor == 0 || bytes < 1 || bytes >= 0x1p63) return std::nullopt;
  if (factor == 1 && bytes != std::floor(bytes)) return std::nullopt;  // there is no half byte
  return static_cast<uint64_t>(bytes);
}

}  // namespace ballast::cli
