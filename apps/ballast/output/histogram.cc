#include "apps/ballast/output/histogram.h"

#include <fmt/format.h>

#include <algorithm>

#include "apps/ballast/output/table.h"
#include "apps/ballast/output/text.h"

namespace ballast::cli {

namespace {

constexpr std::string_view kRising[] = {" ", "▁", "▂", "▃", "▄", "▅", "▆", "▇", "█"};
constexpr std::string_view kGrowing[] = {"", "▏", "▎", "▍", "▌", "▋", "▊", "▉"};
constexpr size_t kEighths = 8;

uint64_t largest(const Histogram& histogram) {
  return histogram.counts.empty() ? 0 : std::ranges::max(histogram.counts);
}

// `steps` for the largest count; what is there at all gets at least one.
size_t scaled(uint64_t count, uint64_t most, size_t steps) {
  if (count == 0) return 0;
  const double share = static_cast<double>(count) / static_cast<double>(most);
  return std::max<size_t>(1, static_cast<size_t>(share * static_cast<double>(steps) + 0.5));
}

std::string histogram_bar(uint64_t count, uint64_t most, size_t width) {
  const size_t eighths = scaled(count, most, width * kEighths);
  std::string text;
  for (size_t i = 0; i < eighths / kEighths; ++i) text += kRising[kEighths];
  return text.append(kGrowing[eighths % kEighths]);
}

}  // namespace

std::string sparkline(const Histogram& histogram) {
  std::string text;
  for (const uint64_t count : histogram.counts) text += kRising[scaled(count, largest(histogram), kEighths)];
  return text;
}

void print_histogram(const Histogram& histogram, Console& console) {
  constexpr size_t kWidest = 60;
  constexpr size_t kBeside = 32;  // what the numbers take
  const size_t columns = console.output().width;
  const size_t width = columns == 0 ? kWidest : std::clamp<size_t>(columns, kBeside + 10, kBeside + kWidest) - kBeside;
  Table table({{"from", Align::kRight}, {"numbers", Align::kRight}, {""}});
  const auto bins = static_cast<double>(histogram.counts.size());
  for (size_t i = 0; i < histogram.counts.size(); ++i) {
    const double from = histogram.low + (histogram.high - histogram.low) * static_cast<double>(i) / bins;
    table.add_row(fmt::format("{:.4g}", from), grouped(histogram.counts[i]),
                  Cell(histogram_bar(histogram.counts[i], largest(histogram), width), Paint::kCyan));
  }
  table.append_to(console.out(), console.output());
  std::string_view outside;
  if (histogram.below + histogram.above != 0) outside = " (mean ± 4 std)";
  console.out() += fmt::format("  to {:.4g}{}", histogram.high, outside);
  if (!outside.empty()) {
    console.out() += fmt::format("; {} below, {} above", grouped(histogram.below), grouped(histogram.above));
  }
  console.out() += '\n';
}

}  // namespace ballast::cli
