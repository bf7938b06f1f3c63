#include "ballast/archive/stats.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <memory>

#include "apps/ballast/commands/commands.h"
#include "apps/ballast/flags/flags.h"
#include "apps/ballast/flags/tensor_choice.h"
#include "apps/ballast/output/histogram.h"
#include "apps/ballast/output/json_output.h"
#include "apps/ballast/output/table.h"
#include "apps/ballast/output/text.h"
#include "apps/ballast/output/tied_output.h"
#include "apps/ballast/output/tree.h"
#include "apps/ballast/terminal/console.h"
#include "apps/ballast/terminal/progress_bar.h"
#include "apps/ballast/terminal/streams.h"
#include "ballast/archive/open.h"

namespace ballast::cli {

namespace {

enum class StatsSort : unsigned char { kStored, kName, kSize, kStd, kAbsMax };

struct StatsFlags {
  std::string path;
  std::vector<std::string> only;
  StatsSort sort = StatsSort::kStored;
  bool histogram = false;
  bool json = false;
  unsigned threads = 0;
};

struct Found {
  std::string format;
  std::vector<size_t> order;  // positions in `selected`, as they are to be shown
  std::vector<size_t> selected;
  ArchiveStatistics measured;   // one per selected
  std::vector<TiedGroup> tied;  // without those that are equal only because they are constant
};

// ---------------------------------------------------------------- finding out

constexpr size_t kSparklineBins = 16;
constexpr size_t kLargeBins = 24;

// NaN sorts last.
double sort_key(const TensorStatistics& tensor, StatsSort sort) {
  const double key = sort == StatsSort::kStd ? tensor.statistics.std() : tensor.statistics.abs_max();
  return std::isnan(key) ? -1 : key;
}

void sort_found(const Archive& archive, StatsSort sort, Found& found) {
  for (size_t i = 0; i < found.selected.size(); ++i) found.order.push_back(i);
  const auto tensor = [&](size_t i) -> const TensorInfo& { return archive.tensors()[found.selected[i]]; };
  switch (sort) {
    case StatsSort::kStored: return;
    case StatsSort::kName:
      return sort_naturally(found.order, [&](size_t i) -> std::string_view { return tensor(i).name; });
    case StatsSort::kSize:
      std::ranges::stable_sort(found.order, std::greater<>(), [&](size_t i) { return tensor(i).byte_size; });
      return;
    default:
      std::ranges::stable_sort(found.order, std::greater<>(),
                               [&](size_t i) { return sort_key(found.measured.tensors[i], sort); });
  }
}

// Biases that are all zero are equal, but nobody tied them.
void keep_real_ties(const Archive& archive, Found& found) {
  std::vector<bool> wanted(archive.tensors().size(), false);
  for (size_t i = 0; i < found.selected.size(); ++i) {
    const Statistics& statistics = found.measured.tensors[i].statistics;
    const bool alone = statistics.count == 1 || statistics.constant();
    wanted[found.selected[i]] = !alone;
  }
  for (TiedGroup& group : found.tied) {
    if (!group.same_extent) std::erase_if(group.tensors, [&](size_t i) { return !wanted[i]; });
  }
  std::erase_if(found.tied, [](const TiedGroup& group) { return group.tensors.size() < 2; });
}

Result<Found> find_statistics(const StatsFlags& flags, const Archive& archive, Console& console) {
  Found found;
  found.format = archive.description().format;
  BALLAST_CHECK(assign(found.selected, select_tensors(archive, flags.only)));
  if (found.selected.empty() && !archive.tensors().empty()) {
    return make_error(ErrorCode::kNotFound, fmt::format("{}: --only matches no tensor; `ballast inspect {}` lists them",
                                                        flags.path, flags.path));
  }
  ProgressBar bar(console.errors());
  StatsOptions options;
  options.bins = flags.histogram || flags.json ? kLargeBins : kSparklineBins;
  options.total_bins = kLargeBins;
  options.threads = flags.threads;
  options.progress = bar.callback();
  BALLAST_CHECK(assign(found.measured, measure_archive(archive, found.selected, options)));
  BALLAST_CHECK(assign(found.tied, tied_by_content(archive, flags.threads, bar.callback())));
  keep_real_ties(archive, found);
  sort_found(archive, flags.sort, found);
  return found;
}

// What deserves a second look; empty for an ordinary tensor.
std::string warning_about(const TensorStatistics& tensor) {
  const Statistics& statistics = tensor.statistics;
  std::vector<std::string> parts;
  if (statistics.nan != 0) parts.push_back(grouped(statistics.nan) + " NaN");
  if (statistics.positive_infinity != 0) parts.push_back(grouped(statistics.positive_infinity) + " +Inf");
  if (statistics.negative_infinity != 0) parts.push_back(grouped(statistics.negative_infinity) + " -Inf");
  if (statistics.all_zero()) parts.emplace_back("all zeros");
  else if (statistics.constant()) parts.push_back(fmt::format("constant {:.4g}", statistics.min));
  return fmt::format("{}", fmt::join(parts, ", "));
}

// ---------------------------------------------------------------- JSON

void add_real(JsonWriter& json, std::string_view key, double value) {
  if (std::isnan(value)) add_null(json, key);
  else json.key(key).real(value);
}

void add_statistics(JsonWriter& json, const TensorStatistics& tensor) {
  const Statistics& statistics = tensor.statistics;
  add_number(json, "count", statistics.count);
  add_real(json, "min", statistics.min);
  add_real(json, "max", statistics.max);
  add_real(json, "mean", statistics.mean);
  add_real(json, "std", statistics.std());
  add_real(json, "abs_max", statistics.abs_max());
  add_number(json, "zeros", statistics.zeros);
  add_number(json, "denormals", statistics.denormals);
  add_number(json, "nan", statistics.nan);
  add_number(json, "positive_infinity", statistics.positive_infinity);
  add_number(json, "negative_infinity", statistics.negative_infinity);
  if (tensor.histogram.counts.empty()) {
    add_null(json, "histogram");
    return;
  }
  json.key("histogram").begin_object();
  add_real(json, "low", tensor.histogram.low);
  add_real(json, "high", tensor.histogram.high);
  add_number(json, "below", tensor.histogram.below);
  add_number(json, "above", tensor.histogram.above);
  json.key("counts").numbers(tensor.histogram.counts);
  json.end_object();
}

std::string stats_json(const StatsFlags& flags, const Archive& archive, const Found& found) {
  JsonWriter json;
  json.begin_object();
  add_text(json, "path", flags.path);
  add_text(json, "format", found.format);
  json.key("tensors").begin_array();
  for (const size_t i : found.order) {
    const TensorInfo& tensor = archive.tensors()[found.selected[i]];
    const TensorStatistics& measured = found.measured.tensors[i];
    json.begin_object();
    add_text(json, "name", tensor.name);
    add_text(json, "dtype", dtype_name(tensor.dtype));
    json.key("shape").numbers(tensor.shape.dims());
    add_boolean(json, "measured", measured.measured);
    if (measured.measured) {
      add_statistics(json, measured);
      if (const std::string warning = warning_about(measured); !warning.empty()) add_text(json, "warning", warning);
    }
    json.end_object();
  }
  json.end_array().key("total").begin_object();
  add_statistics(json, found.measured.total);
  json.end_object();
  add_tied(json, archive, found.tied);
  json.end_object();
  return json.take() + '\n';
}

// ---------------------------------------------------------------- text

std::string short_number(double value) { return std::isnan(value) ? "-" : fmt::format("{:.4g}", value); }

std::string percent(uint64_t part, uint64_t whole) {
  if (part == 0) return "";
  const double share = 100 * static_cast<double>(part) / static_cast<double>(whole);
  return share < 0.01 ? "<0.01%" : fmt::format("{:.3g}%", share);
}

void add_row(Table& table, std::string name, std::string dtype, const TensorStatistics& tensor) {
  const Statistics& statistics = tensor.statistics;
  if (!tensor.measured) {
    table.add_row(std::move(name), std::move(dtype), "", "", "", "", "", "", "",
                  Cell("no statistics for this type", Paint::kDim));
    return;
  }
  table.add_row(std::move(name), std::move(dtype), grouped(statistics.count), short_number(statistics.min),
                short_number(statistics.max), short_number(statistics.mean), short_number(statistics.std()),
                percent(statistics.zeros, statistics.count), Cell(sparkline(tensor.histogram), Paint::kCyan),
                Cell(warning_about(tensor), Paint::kYellow));
}

void print_table(const Archive& archive, const Found& found, Console& console) {
  Table table({name_column("name"),
               {"dtype", Align::kLeft, false, false, 2},
               spare_column("count", 3),
               {"min", Align::kRight},
               {"max", Align::kRight},
               spare_column("mean", 1),
               {"std", Align::kRight},
               spare_column("zeros", 4),
               {"histogram", Align::kLeft, false, false, 5},
               {""}});
  table.reserve(found.order.size() + 1);
  for (const size_t i : found.order) {
    const TensorInfo& tensor = archive.tensors()[found.selected[i]];
    add_row(table, printable(tensor.name), std::string(dtype_name(tensor.dtype)), found.measured.tensors[i]);
  }
  if (found.order.size() > 1) {
    TensorStatistics total = found.measured.total;
    total.histogram.counts.clear();  // it stands below, large
    add_row(table, "total", "", total);
  }
  table.append_to(console.out(), console.output());
}

void print_histograms(const StatsFlags& flags, const Archive& archive, const Found& found, Console& console) {
  if (flags.histogram) {
    for (const size_t i : found.order) {
      const TensorStatistics& tensor = found.measured.tensors[i];
      if (tensor.histogram.counts.empty()) continue;
      console.heading(printable(archive.tensors()[found.selected[i]].name));
      print_histogram(tensor.histogram, console);
    }
  }
  const TensorStatistics& total = found.measured.total;
  if (total.histogram.counts.empty() || (flags.histogram && found.order.size() == 1)) return;
  console.heading(fmt::format("all {} together", counted(total.statistics.finite(), "finite number")));
  print_histogram(total.histogram, console);
}

void print_warnings(const Found& found, Console& console) {
  size_t non_finite = 0;
  size_t constant = 0;
  for (const TensorStatistics& tensor : found.measured.tensors) {
    if (tensor.statistics.non_finite() != 0) ++non_finite;
    if (tensor.statistics.constant()) ++constant;
  }
  std::string& out = console.out();
  const Statistics& total = found.measured.total.statistics;
  if (non_finite + constant + total.denormals != 0) out += '\n';
  if (non_finite != 0) {
    append_painted(out, console.output(), Paint::kRed,
                   fmt::format("warning: {} with NaN or infinities", counted(non_finite, "tensor")));
    out += fmt::format(": {} NaN, {} +Inf, {} -Inf\n", grouped(total.nan), grouped(total.positive_infinity),
                       grouped(total.negative_infinity));
  }
  if (constant != 0) {
    append_painted(out, console.output(), Paint::kYellow,
                   fmt::format("warning: {} with a single value throughout", counted(constant, "tensor")));
    out += '\n';
  }
  if (total.denormals != 0) out += fmt::format("{}\n", counted(total.denormals, "denormal number"));
}

void print_stats(const StatsFlags& flags, const Archive& archive, const Found& found, Console& console) {
  if (found.order.empty()) {
    console.out() += "no tensors\n";
    return;
  }
  print_table(archive, found, console);
  print_histograms(flags, archive, found, console);
  print_tied(archive, found.tied, console);
  print_warnings(found, console);
}

Status stats(const StatsFlags& flags, Console& console) {
  BALLAST_TRY(const Archive archive, open_input(flags.path));
  BALLAST_TRY(const Found found, find_statistics(flags, archive, console));
  if (flags.json) console.out() += stats_json(flags, archive, found);
  else print_stats(flags, archive, found, console);
  return {};
}

constexpr const char* kStatsFooter =
    "Reads every tensor once. Histograms have linear bins between a tensor's minimum and maximum, but at most 4\n"
    "standard deviations from the mean; values outside are counted. Min, max, mean and std cover finite values only;\n"
    "std is the population standard deviation, as in NumPy. On a narrow terminal some columns are left out.\n"
    "\n"
    "Examples:\n"
    "  ballast stats model.safetensors\n"
    "  ballast stats model.safetensors --only weight --sort std | head\n"
    "  ballast stats model.npz --only '^head$' --histogram\n"
    "  ballast stats model.bpk --json | jq '.tensors[] | select(.nan > 0).name'\n";

}  // namespace

RunCommand add_stats(CLI::App& program, Console& console) {
  Command command(program, "stats", "Compute statistics of every tensor");
  auto flags = std::make_shared<StatsFlags>();
  command.path("PATH", flags->path, "File to measure").or_model();
  command.patterns("--only", flags->only, "Measure only tensors whose name matches; may be repeated");
  command.choice("--sort", "KEY", flags->sort,
                 {{"name", StatsSort::kName},
                  {"size", StatsSort::kSize},
                  {"std", StatsSort::kStd},
                  {"absmax", StatsSort::kAbsMax}},
                 "Sort by name, size, std or absmax (largest first)");
  command.flag("--histogram", flags->histogram, "Draw a large histogram of every tensor");
  command.threads(flags->threads);
  command.json(flags->json);
  command.footer(kStatsFooter);
  return [flags, &console] {
    const Status status = stats(*flags, console);
    return status ? kExitYes : console.fail(status.error(), flags->json);
  };
}

}  // namespace ballast::cli
