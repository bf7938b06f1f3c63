#include "ballast/serve/metrics.h"

#include <fmt/format.h>

#include <algorithm>

namespace ballast::serve {

void DurationHistogram::add(std::chrono::nanoseconds duration) {
  const double seconds = std::chrono::duration<double>(duration).count();
  const auto place = std::ranges::lower_bound(kBounds, seconds) - kBounds.begin();
  counts_[static_cast<size_t>(place)].fetch_add(1, std::memory_order_relaxed);
  nanoseconds_.fetch_add(static_cast<uint64_t>(std::max<int64_t>(duration.count(), 0)), std::memory_order_relaxed);
}

void DurationHistogram::append_to(std::string& out, std::string_view name, std::string_view help) const {
  out += fmt::format("# HELP {0} {1}\n# TYPE {0} histogram\n", name, help);
  uint64_t sum = 0;
  for (size_t i = 0; i < kBounds.size(); ++i) {
    sum += counts_[i].load(std::memory_order_relaxed);
    out += fmt::format("{}_bucket{{le=\"{}\"}} {}\n", name, kBounds[i], sum);
  }
  sum += counts_.back().load(std::memory_order_relaxed);
  const double seconds = static_cast<double>(nanoseconds_.load(std::memory_order_relaxed)) * 1e-9;
  out += fmt::format("{0}_bucket{{le=\"+Inf\"}} {1}\n{0}_sum {2}\n{0}_count {1}\n", name, sum, seconds);
}

void StatusCounts::add(int status) {
  if (status < kFirst || status >= kFirst + kCount) return;
  counts_[static_cast<size_t>(status - kFirst)].fetch_add(1, std::memory_order_relaxed);
}

void StatusCounts::append_to(std::string& out, std::string_view name, std::string_view help) const {
  out += fmt::format("# HELP {0} {1}\n# TYPE {0} counter\n", name, help);
  for (size_t i = 0; i < counts_.size(); ++i) {
    const uint64_t count = counts_[i].load(std::memory_order_relaxed);
    if (count != 0) out += fmt::format("{}{{status=\"{}\"}} {}\n", name, i + kFirst, count);
  }
}

}  // namespace ballast::serve
