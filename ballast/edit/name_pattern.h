// Patterns over the names of a model's parameters, in which numbers of layers stand as {}.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace ballast {

// The numbers that stood in a name where its pattern has {}.
struct NameNumbers {
  static constexpr size_t kMost = 2;
  std::array<uint32_t, kMost> values{};
  size_t count = 0;

  friend auto operator<=>(const NameNumbers&, const NameNumbers&) = default;
};

// "blocks.{}.ln_1.gamma" matches "blocks.7.ln_1.gamma" with 7. {+1} stands for a number that is one higher in this
// name than in its counterpart: it matches 8 and gives 7. Numbers have no leading zeros and at most nine digits.
std::optional<NameNumbers> match_name(std::string_view pattern, std::string_view name);

// The other way: the name that has these numbers.
std::string fill_name(std::string_view pattern, const NameNumbers& numbers);

}  // namespace ballast
