#include "ballast/base/real.h"

#include <charconv>

namespace ballast {

std::string real_text(double value) {
  char buffer[32];
  const auto [end, failure] = std::to_chars(buffer, buffer + sizeof buffer, value);
  return failure == std::errc() ? std::string(buffer, end) : "0";
}

std::errc parse_real(std::string_view text, double& value) {
  const char* const limit = text.data() + text.size();
  const auto [end, failure] = std::from_chars(text.data(), limit, value);
  if (failure != std::errc()) return failure;
  return end == limit ? std::errc() : std::errc::invalid_argument;
}

}  // namespace ballast
