#include <fmt/format.h>

#include <algorithm>
#include <charconv>

#include "ballast/ops/registry.h"

namespace ballast {

namespace {

std::string_view trimmed(std::string_view text) {
  constexpr std::string_view kBlanks = " \t\r\n\v\f";
  const size_t first = text.find_first_not_of(kBlanks);
  if (first == std::string_view::npos) return {};
  return text.substr(first, text.find_last_not_of(kBlanks) - first + 1);
}

bool equals_ignoring_case(std::string_view a, std::string_view lower) {
  return std::ranges::equal(a, lower, [](char x, char y) { return (x >= 'A' && x <= 'Z' ? x - 'A' + 'a' : x) == y; });
}

Error policy_error(std::string_view text, std::string_view reason) {
  return make_error(ErrorCode::kInvalidArgument,
                    fmt::format("\"{}\" is no policy: {}. A policy is empty, force=NAME, benchmark or "
                                "benchmark(cache=N)",
                                text, reason));
}

Result<size_t> parse_cache(std::string_view policy, std::string_view number) {
  if (number.starts_with('+')) number.remove_prefix(1);
  size_t value = 0;
  const auto [end, error] = std::from_chars(number.data(), number.data() + number.size(), value);
  if (error != std::errc{} || end != number.data() + number.size() || value == 0) {
    return policy_error(policy, fmt::format("the cache must hold a number of at least 1, not \"{}\"", number));
  }
  return value;
}

Result<Policy> parse_benchmark_options(std::string_view policy, std::string_view options) {
  Policy parsed{.kind = Policy::Kind::kBenchmark};
  while (!options.empty()) {
    const size_t comma = std::min(options.find(','), options.size());
    const std::string_view item = trimmed(options.substr(0, comma));
    options.remove_prefix(std::min(comma + 1, options.size()));
    if (item.empty()) continue;
    const size_t equals = std::min(item.find('='), item.size());
    if (trimmed(item.substr(0, equals)) != "cache" || equals == item.size()) {
      return policy_error(policy, fmt::format("\"{}\" is no option of benchmark", item));
    }
    BALLAST_TRY(parsed.cache, parse_cache(policy, trimmed(item.substr(equals + 1))));
  }
  return parsed;
}

}  // namespace

Result<Policy> parse_policy(std::string_view text) {
  constexpr std::string_view kForce = "force=";
  constexpr std::string_view kBenchmark = "benchmark(";
  const std::string_view policy = trimmed(text);
  if (policy.empty()) return Policy{};
  if (policy.starts_with(kForce)) {
    const std::string_view name = trimmed(policy.substr(kForce.size()));
    return name.empty() ? Policy{} : Policy{.kind = Policy::Kind::kForce, .name = std::string(name)};
  }
  if (equals_ignoring_case(policy, "benchmark")) return Policy{.kind = Policy::Kind::kBenchmark};
  if (policy.starts_with(kBenchmark) && policy.ends_with(')')) {
    return parse_benchmark_options(policy, policy.substr(kBenchmark.size(), policy.size() - kBenchmark.size() - 1));
  }
  return policy_error(policy, "it begins with none of the known words");
}

std::string to_text(const Policy& policy) {
  switch (policy.kind) {
    case Policy::Kind::kDefault: return "";
    case Policy::Kind::kForce: return "force=" + policy.name;
    case Policy::Kind::kBenchmark: break;
  }
  return policy.cache == Policy{}.cache ? "benchmark" : fmt::format("benchmark(cache={})", policy.cache);
}

}  // namespace ballast
