#include "ballast/edit/name_pattern.h"

#include <charconv>

namespace ballast {

namespace {

constexpr std::string_view kNumber = "{}";
constexpr std::string_view kNextNumber = "{+1}";

// Length of the number that `text` begins with; 0 when it begins with none.
size_t number_length(std::string_view text) {
  size_t length = 0;
  while (length < text.size() && text[length] >= '0' && text[length] <= '9') ++length;
  const bool leading_zero = length > 1 && text.front() == '0';
  return leading_zero || length > 9 ? 0 : length;
}

}  // namespace

std::optional<NameNumbers> match_name(std::string_view pattern, std::string_view name) {
  NameNumbers numbers;
  while (!pattern.empty()) {
    if (pattern.front() != '{') {
      if (name.empty() || name.front() != pattern.front()) return std::nullopt;
      pattern.remove_prefix(1);
      name.remove_prefix(1);
      continue;
    }
    const bool next = pattern.starts_with(kNextNumber);
    pattern.remove_prefix(next ? kNextNumber.size() : kNumber.size());
    const size_t length = number_length(name);
    if (length == 0) return std::nullopt;
    uint32_t value = 0;
    std::from_chars(name.data(), name.data() + length, value);
    if (next && value == 0) return std::nullopt;
    numbers.values[numbers.count++] = next ? value - 1 : value;
    name.remove_prefix(length);
  }
  if (!name.empty()) return std::nullopt;
  return numbers;
}

std::string fill_name(std::string_view pattern, const NameNumbers& numbers) {
  std::string name;
  size_t used = 0;
  while (!pattern.empty()) {
    const size_t brace = pattern.find('{');
    name += pattern.substr(0, brace);
    if (brace == std::string_view::npos) break;
    pattern.remove_prefix(brace);
    const bool next = pattern.starts_with(kNextNumber);
    name += std::to_string(numbers.values[used++] + (next ? 1 : 0));
    pattern.remove_prefix(next ? kNextNumber.size() : kNumber.size());
  }
  return name;
}

}  // namespace ballast
