#include "apps/ballast/output/train_report.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "apps/ballast/output/svg_chart.h"
#include "apps/ballast/output/text.h"
#include "ballast/io/file.h"
#include "ballast/training/train_event.h"

namespace ballast::cli {

namespace {

constexpr std::string_view kReportMark = "Written by ballast train.";
constexpr double kPageWidth = 860;
constexpr double kHalf = 422;
constexpr double kChartGap = 16;
constexpr double kLossHeight = 340;
constexpr double kSmallHeight = 240;

constexpr std::string_view kColours = R"(
:root { --paper: #ffffff; --sheet: #f6f7f9; --ink: #1c2430; --pale: #667085; --line: #e3e6eb; --axis: #98a2b3;
  --c1: #2563eb; --c2: #d97706; --c3: #0f9d76; --c4: #9333ea; }
@media (prefers-color-scheme: dark) {
  :root { --paper: #12161d; --sheet: #1a2029; --ink: #e6e9ef; --pale: #98a2b3; --line: #2a313c; --axis: #5b6472;
    --c1: #6ea8fe; --c2: #fbbf24; --c3: #4ade9f; --c4: #c792ea; } }
.chart text { font: 12px system-ui, sans-serif; fill: var(--pale); }
.chart text.title { font-size: 15px; font-weight: 600; fill: var(--ink); }
.grid { stroke: var(--line); } .axis { stroke: var(--axis); }
.curve { fill: none; stroke-width: 2; stroke-linejoin: round; stroke-linecap: round; }
.faint { stroke-width: 1; opacity: 0.35; } .band { opacity: 0.14; stroke: none; }
.c1 { stroke: var(--c1); } .c2 { stroke: var(--c2); } .c3 { stroke: var(--c3); } .c4 { stroke: var(--c4); stroke-width: 1.2; }
.dot { stroke: var(--paper); stroke-width: 1; }
.dot.c1, .band.c1 { fill: var(--c1); } .dot.c2 { fill: var(--c2); } .dot.c3 { fill: var(--c3); } .dot.c4 { fill: var(--c4); }
)";

constexpr std::string_view kPage = R"(
html { background: var(--paper); color: var(--ink); }
body { max-width: 900px; margin: 32px auto; padding: 0 20px; font: 15px/1.5 system-ui, sans-serif; }
h1 { font-size: 24px; margin: 0 0 20px; } h2 { font-size: 17px; margin: 32px 0 10px; }
svg { display: block; width: 100%; height: auto; margin: 0 0 16px; }
.pair { display: grid; grid-template-columns: 1fr 1fr; gap: 16px; }
@media (max-width: 640px) { .pair { grid-template-columns: 1fr; } }
table { border-collapse: collapse; width: 100%; }
td { padding: 6px 10px; border-bottom: 1px solid var(--line); vertical-align: top; overflow-wrap: anywhere; }
td:first-child { color: var(--pale); width: 34%; } td:last-child { font-variant-numeric: tabular-nums; }
pre { background: var(--sheet); border: 1px solid var(--line); border-radius: 8px; padding: 14px; overflow-x: auto;
  font: 13px/1.45 ui-monospace, monospace; }
footer { color: var(--pale); font-size: 13px; margin: 28px 0; }
)";

std::vector<ChartPoint> means(const Series& series) {
  std::vector<ChartPoint> points;
  for (const Series::Bucket& bucket : series.buckets()) points.push_back({bucket.step(), bucket.mean()});
  return points;
}

// An average over about an eightieth of the run, in both directions, so that the curve does not lag behind.
std::vector<ChartPoint> smoothed(const Series& series) {
  std::vector<ChartPoint> points = means(series);
  const double keep = std::exp(-80.0 / static_cast<double>(std::max<size_t>(points.size(), 2)));
  std::vector<double> sums(points.size()), weights(points.size());
  const auto pass = [&](auto begin, auto end, const auto& index_of) {
    double sum = 0, weight = 0;
    for (auto it = begin; it != end; ++it) {
      const auto count = static_cast<double>(series.buckets()[index_of(it)].count);
      sum = keep * sum + it->y * count;
      weight = keep * weight + count;
      sums[index_of(it)] += sum - it->y * count / 2;  // each value itself counts once, not in both passes
      weights[index_of(it)] += weight - count / 2;
    }
  };
  pass(points.begin(), points.end(), [&](auto it) { return static_cast<size_t>(it - points.begin()); });
  pass(points.rbegin(), points.rend(),
       [&](auto it) { return points.size() - 1 - static_cast<size_t>(it - points.rbegin()); });
  for (size_t i = 0; i < points.size(); ++i) points[i].y = sums[i] / weights[i];
  return points;
}

Chart loss_chart(const TrainHistory& history) {
  Chart chart{"Loss", "step", kPageWidth, kLossHeight};
  const auto& buckets = history.loss().buckets();
  if (std::any_of(buckets.begin(), buckets.end(), [](const auto& bucket) { return bucket.count > 1; })) {
    ChartBand band{"c1", {}, {}};
    for (const Series::Bucket& bucket : buckets) {
      band.low.push_back({bucket.step(), bucket.least});
      band.high.push_back({bucket.step(), bucket.most});
    }
    chart.bands.push_back(std::move(band));
  }
  chart.curves.push_back({"training", "c1", means(history.loss()), /*faint=*/true});
  chart.curves.push_back({"smoothed", "c1", smoothed(history.loss())});
  ChartCurve held{"held out", "c2", {}, false, /*marked=*/true};
  for (const EvalRecord& eval : history.evals()) {
    if (std::isfinite(eval.loss)) held.points.push_back({static_cast<double>(eval.step), eval.loss});
  }
  chart.curves.push_back(std::move(held));
  return chart;
}

Chart small_chart(std::string title, const Series& series, std::string colour, bool linear) {
  Chart chart{std::move(title), "step", kHalf, kSmallHeight};
  chart.linear = linear;
  chart.curves.push_back({"", std::move(colour), means(series)});
  return chart;
}

Chart accuracy_chart(const TrainHistory& history) {
  Chart chart{"Accuracy on held-out data", "step", kPageWidth, kSmallHeight};
  ChartCurve curve{"", "c2", {}, false, /*marked=*/true};
  for (const EvalRecord& eval : history.evals()) {
    if (eval.accuracy) curve.points.push_back({static_cast<double>(eval.step), *eval.accuracy});
  }
  chart.curves.push_back(std::move(curve));
  return chart;
}

bool has_accuracy(const TrainHistory& history) {
  return std::any_of(history.evals().begin(), history.evals().end(), [](const auto& eval) { return eval.accuracy; });
}

std::string as_picture(const Chart& chart) {
  return fmt::format(R"(<svg viewBox="0 0 {} {}" role="img" aria-label="{}">{}</svg>)", chart.width, chart.height,
                     escape_markup(chart.title), draw_chart(chart));
}

std::string seconds_text(double seconds) {
  return seconds < 60 ? fmt::format("{:.2f} s", seconds) : clock_time(seconds);
}

// With its unit where it is a metric: "0.0712 at step 1,200".
std::string result_text(const EvalRecord& eval) {
  const std::string accuracy = eval.accuracy ? fmt::format(", accuracy {:.2f} %", 100 * *eval.accuracy) : "";
  return fmt::format("{:.6g}{}, after step {}", eval.loss, accuracy, grouped(eval.step));
}

bool is_html(const std::string& path) { return path.ends_with(".html") || path.ends_with(".htm"); }

}  // namespace

Status check_report_path(const std::string& path) {
  if (is_html(path) || path.ends_with(".svg")) return {};
  return make_error(ErrorCode::kInvalidArgument, fmt::format("{}: a report must be named .html or .svg", path));
}

Status check_report_place(const std::string& path) {
  constexpr uint64_t kEnd = 256;  // bytes that hold the mark
  BALLAST_CHECK(check_report_path(path));
  const auto source = open_file(path, FileAccess::kPositional);
  if (!source && source.error().code == ErrorCode::kNotFound) return {};
  if (!source) return source.error();
  const uint64_t size = (*source)->size(), length = std::min(size, kEnd);
  BALLAST_TRY(const ByteVector bytes, read_bytes(**source, size - length, length));
  if (size == 0 || as_text(bytes).find(kReportMark) != std::string_view::npos) return {};
  return make_error(ErrorCode::kExists,
                    fmt::format("{}: exists and is not the report of a run; name another file, or remove it", path));
}

std::vector<std::pair<std::string, std::string>> result_rows(const TrainReport& report, const TrainHistory& history) {
  auto rows = report.facts;
  const StepRecord& last = history.last();
  rows.emplace_back("steps", grouped(last.step));
  if (last.step == 0) return rows;
  rows.emplace_back(report.item, grouped(history.items()));
  rows.emplace_back("time in steps", seconds_text(history.step_seconds()));
  if (history.step_seconds() > 0) {
    const double rate = static_cast<double>(history.items()) / history.step_seconds();
    rows.emplace_back(report.item + " per second", grouped(static_cast<uint64_t>(std::llround(rate))));
  }
  if (!history.loss().empty())
    rows.emplace_back("first loss", fmt::format("{:.6g}", history.loss().buckets().front().mean()));
  rows.emplace_back("last loss", fmt::format("{:.6g} (smoothed {:.6g})", last.loss, history.smooth_loss()));
  if (!history.evals().empty()) rows.emplace_back("held out, last", result_text(history.evals().back()));
  if (const EvalRecord* best = history.best(); best != nullptr) rows.emplace_back("held out, best", result_text(*best));
  if (history.skipped_steps() != 0) rows.emplace_back("skipped steps", grouped(history.skipped_steps()));
  if (history.checkpoints() != 0) {
    rows.emplace_back("checkpoints written", grouped(history.checkpoints()));
    rows.emplace_back("last checkpoint", fmt::format("{} (step {})", history.last_checkpoint().path,
                                                     grouped(history.last_checkpoint().step)));
  }
  if (history.last_resume().step != 0) {
    rows.emplace_back("resumed", fmt::format("after step {}, from {}", grouped(history.last_resume().step),
                                             history.last_resume().path));
  }
  return rows;
}

std::string render_html_report(const TrainReport& report, const TrainHistory& history) {
  const std::string title = escape_markup(report.title);
  std::string out = fmt::format(
      "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n<meta name=\"viewport\" "
      "content=\"width=device-width, initial-scale=1\">\n<meta name=\"color-scheme\" content=\"light dark\">\n"
      "<title>{}</title>\n<style>{}{}</style>\n</head>\n<body>\n<h1>{}</h1>\n",
      title, kColours, kPage, title);
  out += as_picture(loss_chart(history)) + "\n";
  if (has_accuracy(history)) out += as_picture(accuracy_chart(history)) + "\n";
  out += "<div class=\"pair\">\n" + as_picture(small_chart("Learning rate", history.lr(), "c3", true)) + "\n" +
         as_picture(small_chart("Gradient norm", history.grad_norm(), "c4", false)) + "\n</div>\n";
  out += "<h2>Results</h2>\n<table>\n";
  for (const auto& [name, value] : result_rows(report, history))
    out += fmt::format("<tr><td>{}</td><td>{}</td></tr>\n", escape_markup(name), escape_markup(value));
  out += fmt::format("</table>\n<h2>Configuration</h2>\n<pre>{}</pre>\n", escape_markup(report.config));
  out += fmt::format("<footer>{}</footer>\n</body>\n</html>\n", kReportMark);
  return out;
}

std::string render_svg_report(const TrainReport& report, const TrainHistory& history) {
  constexpr double kMargin = 20, kTitle = 40, kRow = 20;
  const auto rows = result_rows(report, history);
  std::string body;
  double y = kTitle + kMargin;
  const auto place = [&](const Chart& chart, double x) {
    body += fmt::format("<g transform=\"translate({}, {})\">{}</g>\n", x, y, draw_chart(chart));
  };
  place(loss_chart(history), kMargin);
  y += kLossHeight + kChartGap;
  if (has_accuracy(history)) {
    place(accuracy_chart(history), kMargin);
    y += kSmallHeight + kChartGap;
  }
  place(small_chart("Learning rate", history.lr(), "c3", true), kMargin);
  place(small_chart("Gradient norm", history.grad_norm(), "c4", false), kMargin + kHalf + kChartGap);
  y += kSmallHeight + kChartGap;
  body += "<g class=\"chart\">\n";
  for (const auto& [name, value] : rows) {
    body +=
        fmt::format("<text x=\"{}\" y=\"{}\">{}</text><text x=\"{}\" y=\"{}\" style=\"fill: var(--ink)\">{}</text>\n",
                    kMargin, y + 14, escape_markup(name), kMargin + 220, y + 14, escape_markup(value));
    y += kRow;
  }
  body += "</g>\n";
  const double width = kPageWidth + 2 * kMargin;
  const double height = y + kMargin;
  return fmt::format(
      "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {0} {1}\" width=\"{0}\" height=\"{1}\">\n"
      "<title>{2}</title>\n<desc>{3}</desc>\n<style>{4}</style>\n"
      "<rect width=\"100%\" height=\"100%\" style=\"fill: var(--paper)\"/>\n"
      "<text x=\"{5}\" y=\"{6}\" style=\"font: 600 20px system-ui, sans-serif; fill: "
      "var(--ink)\">{2}</text>\n{7}<!-- {8} -->\n</svg>\n",
      width, height, escape_markup(report.title), escape_markup(report.config), kColours, kMargin, kTitle, body,
      kReportMark);
}

Status write_train_report(const std::string& path, const TrainReport& report, const TrainHistory& history) {
  BALLAST_CHECK(check_report_place(path));
  const std::string text = is_html(path) ? render_html_report(report, history) : render_svg_report(report, history);
  AtomicFiles set({.overwrite = true});
  BALLAST_TRY(ByteSink* const sink, set.add(path, text.size()));
  BALLAST_CHECK(sink->write_text(text));
  return set.commit();
}

}  // namespace ballast::cli
