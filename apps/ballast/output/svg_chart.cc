#include "apps/ballast/output/svg_chart.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "apps/ballast/output/text.h"
#include "ballast/base/utf8.h"

namespace ballast::cli {

namespace {

constexpr double kLeft = 64;
constexpr double kRight = 26;
constexpr double kTop = 44;
constexpr double kBottom = 44;
constexpr double kLogarithmFrom = 20;
constexpr double kLetter = 6.6;  // about the width of one in the legend

struct Axis {
  double low = std::numeric_limits<double>::infinity();
  double high = -std::numeric_limits<double>::infinity();
  bool logarithmic = false;

  void reach(double value) {
    low = std::min(low, value);
    high = std::max(high, value);
  }
  bool empty() const { return low > high; }
  double place(double value) const {
    if (logarithmic) return std::log(std::max(value, low) / low) / std::log(high / low);
    return (value - low) / (high - low);
  }
};

// 1, 2 or 5 times a power of ten, so that about `count` of them make up the span.
double tick_step(double span, double count) {
  const double raw = span / count;
  const double power = std::pow(10, std::floor(std::log10(raw)));
  const double digit = raw / power;
  return power * (digit < 1.5 ? 1 : digit < 3.5 ? 2 : digit < 7.5 ? 5 : 10);
}

std::vector<double> linear_ticks(const Axis& axis, double count) {
  std::vector<double> ticks;
  const double step = tick_step(axis.high - axis.low, count);
  const double first = std::ceil(axis.low / step - 1e-9);
  for (double i = first; i * step <= axis.high + step * 1e-9 && ticks.size() < 50; ++i)
    ticks.push_back(i * step + 0.0);  // never "-0"
  return ticks;
}

std::vector<double> logarithmic_ticks(const Axis& axis) {
  std::vector<double> ticks;
  const bool few = std::log10(axis.high / axis.low) < 3;
  for (double power = std::floor(std::log10(axis.low)); power <= std::log10(axis.high); ++power) {
    for (const double digit : {1.0, 2.0, 5.0}) {
      const double value = digit * std::pow(10, power);
      if ((digit == 1 || few) && value >= axis.low && value <= axis.high) ticks.push_back(value);
    }
  }
  return ticks;
}

Axis find_x(const Chart& chart) {
  Axis axis;
  for (const ChartCurve& curve : chart.curves) {
    for (const ChartPoint& point : curve.points) axis.reach(point.x);
  }
  if (axis.low == axis.high) axis.high = axis.low + 1;
  return axis;
}

Axis find_y(const Chart& chart) {
  Axis axis;
  for (const ChartCurve& curve : chart.curves) {
    for (const ChartPoint& point : curve.points) axis.reach(point.y);
  }
  if (axis.empty()) return axis;
  axis.logarithmic = !chart.linear && axis.low > 0 && axis.high / axis.low > kLogarithmFrom;
  const double margin =
      axis.high > axis.low ? (axis.high - axis.low) * 0.05 : std::max(std::abs(axis.low) * 0.1, 1e-12);
  if (axis.logarithmic) {
    axis.low *= 0.9;
    axis.high *= 1.1;
  } else {
    axis.low -= axis.low >= 0 ? std::min(margin, axis.low) : margin;  // nothing below 0 where all is above
    axis.high += margin;
  }
  return axis;
}

class Drawing {
 public:
  explicit Drawing(const Chart& chart) : chart_(chart), x_(find_x(chart)), y_(find_y(chart)) {}

  std::string draw() {
    out_ = fmt::format(R"(<g class="chart"><text class="title" x="{}" y="18">{}{}</text>)", kLeft,
                       escape_markup(chart_.title), y_.logarithmic ? ", logarithmic" : "");
    if (y_.empty()) {
      out_ += fmt::format(R"(<text class="tick" x="{}" y="{}">nothing was recorded</text></g>)", kLeft, kTop + 20);
      return std::move(out_);
    }
    draw_grid();
    for (const ChartBand& band : chart_.bands) draw_band(band);
    for (const bool faint : {true, false}) {
      for (const ChartCurve& curve : chart_.curves) {
        if (curve.faint == faint) draw_curve(curve);
      }
    }
    draw_legend();
    out_ += "</g>";
    return std::move(out_);
  }

 private:
  double to_x(double value) const { return kLeft + x_.place(value) * (chart_.width - kLeft - kRight); }
  double to_y(double value) const {
    const double place = std::clamp(y_.place(value), 0.0, 1.0);
    return chart_.height - kBottom - place * (chart_.height - kTop - kBottom);
  }

  void draw_grid() {
    const double right = chart_.width - kRight;
    const double bottom = chart_.height - kBottom;
    for (const double value : y_.logarithmic ? logarithmic_ticks(y_) : linear_ticks(y_, chart_.height / 60)) {
      const double y = to_y(value);
      out_ += fmt::format(R"(<line class="grid" x1="{}" y1="{:.1f}" x2="{}" y2="{:.1f}"/>)", kLeft, y, right, y);
      out_ +=
          fmt::format(R"(<text class="tick" text-anchor="end" x="{}" y="{:.1f}">{:g}</text>)", kLeft - 8, y + 4, value);
    }
    for (const double value : linear_ticks(x_, chart_.width / 110)) {
      out_ += fmt::format(R"(<text class="tick" text-anchor="middle" x="{:.1f}" y="{}">{}</text>)", to_x(value),
                          bottom + 18,
                          value == std::floor(value) && value >= 0 ? grouped(static_cast<uint64_t>(value))
                                                                   : fmt::format("{:g}", value));
    }
    out_ += fmt::format(R"(<line class="axis" x1="{}" y1="{}" x2="{}" y2="{}"/>)", kLeft, bottom, right, bottom);
    out_ += fmt::format(R"(<text class="tick" text-anchor="middle" x="{:.1f}" y="{}">{}</text>)", (kLeft + right) / 2,
                        chart_.height - 6, escape_markup(chart_.x_title));
  }

  void append_points(const std::vector<ChartPoint>& points) {
    for (const ChartPoint& point : points) out_ += fmt::format("{:.1f},{:.1f} ", to_x(point.x), to_y(point.y));
  }

  void draw_band(const ChartBand& band) {
    out_ += fmt::format(R"(<polygon class="band {}" points=")", band.colour);
    append_points(band.high);
    append_points({band.low.rbegin(), band.low.rend()});
    out_ += "\"/>";
  }

  void draw_curve(const ChartCurve& curve) {
    if (curve.points.size() > 1) {
      out_ += fmt::format(R"(<polyline class="curve {}{}" points=")", curve.colour, curve.faint ? " faint" : "");
      append_points(curve.points);
      out_ += "\"/>";
    }
    if (!curve.marked && curve.points.size() > 1) return;
    for (const ChartPoint& point : curve.points) {
      out_ += fmt::format(
          R"(<circle class="dot {}" cx="{:.1f}" cy="{:.1f}" r="3"><title>{}: {:g} at {:g}</title></circle>)",
          curve.colour, to_x(point.x), to_y(point.y), escape_markup(curve.name), point.y, point.x);
    }
  }

  void draw_legend() {
    double x = chart_.width - kRight;
    for (auto curve = chart_.curves.rbegin(); curve != chart_.curves.rend(); ++curve) {
      if (curve->name.empty() || curve->points.empty()) continue;
      x -= kLetter * static_cast<double>(display_width(curve->name));
      out_ += fmt::format(R"(<text class="tick" x="{:.1f}" y="18">{}</text>)", x, escape_markup(curve->name));
      out_ += fmt::format(R"(<line class="curve {}{}" x1="{:.1f}" y1="14" x2="{:.1f}" y2="14"/>)", curve->colour,
                          curve->faint ? " faint" : "", x - 24, x - 6);
      x -= 40;
    }
  }

  const Chart& chart_;
  Axis x_;
  Axis y_;
  std::string out_;
};

}  // namespace

std::string escape_markup(std::string_view text) {
  std::string out;
  for (size_t at = 0; at < text.size();) {
    const size_t begin = at;
    const auto code = take_code_point(text, at);
    if (!code) {
      ++at;
      append_utf8(out, 0xFFFD);
      continue;
    }
    switch (*code) {
      case '&': out += "&amp;"; break;
      case '<': out += "&lt;"; break;
      case '>': out += "&gt;"; break;
      case '"': out += "&quot;"; break;
      case '\'': out += "&#39;"; break;
      default: {
        const bool forbidden =
            (*code < 0x20 && *code != '\n' && *code != '\t') || *code == 0x7F || *code == 0xFFFE || *code == 0xFFFF;
        if (!forbidden) out += text.substr(begin, at - begin);
      }
    }
  }
  return out;
}

std::string draw_chart(const Chart& chart) { return Drawing(chart).draw(); }

}  // namespace ballast::cli
