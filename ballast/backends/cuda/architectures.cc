#include "ballast/backends/cuda/architectures.h"

#include <algorithm>
#include <charconv>

namespace ballast::cuda {

namespace {

// "sm_90a", "compute_80"
bool one_runs_on(std::string_view architecture, const Facts& facts) {
  const size_t line = architecture.find('_');
  if (line == std::string_view::npos) return false;
  int number = 0;
  const char* const end = architecture.data() + architecture.size();
  const auto [rest, problem] = std::from_chars(architecture.data() + line + 1, end, number);
  if (problem != std::errc()) return false;
  const bool is_exact = rest != end;
  const int own = facts.major * 10 + facts.minor;
  if (is_exact) return own == number;
  if (architecture.starts_with("compute")) return own >= number;
  return own >= number && facts.major == number / 10;
}

}  // namespace

bool runs_on(std::string_view architectures, const Facts& facts) {
  while (!architectures.empty()) {
    const size_t space = std::min(architectures.find(' '), architectures.size());
    if (one_runs_on(architectures.substr(0, space), facts)) return true;
    architectures.remove_prefix(std::min(space + 1, architectures.size()));
  }
  return false;
}

bool waits_by_itself(int compiled_for) { return compiled_for >= 90; }

}  // namespace ballast::cuda
