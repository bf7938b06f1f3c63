#include "ballast/params/budget.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <limits>

#include "ballast/base/checked.h"

namespace ballast {

namespace {

uint64_t part_of(uint64_t total, double fraction) {
  if (fraction >= 1) return total;
  return static_cast<uint64_t>(std::floor(static_cast<double>(total) * fraction));
}

}  // namespace

uint64_t total_bytes(const ParamSource& source) {
  uint64_t total = 0;
  for (const TensorInfo& info : source.params()) {
    total = checked_add(total, info.byte_size).value_or(std::numeric_limits<uint64_t>::max());
  }
  return total;
}

Result<std::optional<uint64_t>> effective_budget(const BudgetLimits& limits, uint64_t total) {
  std::optional<uint64_t> least;
  const auto limit = [&](uint64_t bytes) { least = std::min(least.value_or(bytes), bytes); };
  if (limits.bytes) limit(*limits.bytes);
  if (limits.fraction) {
    if (!(*limits.fraction >= 0 && *limits.fraction <= 1)) {
      return make_error(
          ErrorCode::kInvalidArgument,
          fmt::format("a budget of {} of all parameters: the fraction must be between 0 and 1", *limits.fraction));
    }
    limit(part_of(total, *limits.fraction));
  }
  if (limits.cap) limit(*limits.cap);
  return least;
}

bool is_in_first_layers(std::string_view name, uint64_t layers) {
  constexpr std::string_view kBlocks = "blocks.";
  if (!name.starts_with(kBlocks)) return false;
  uint64_t layer = 0;
  const char* end = name.data() + name.size();
  const auto [rest, error] = std::from_chars(name.data() + kBlocks.size(), end, layer);
  return error == std::errc() && rest != end && *rest == '.' && layer < layers;
}

}  // namespace ballast
