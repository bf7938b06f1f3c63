// Curves as SVG, without anything from elsewhere. Colours come from classes of the page's style sheet.
#pragma once

#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace ballast::cli {

// Text for HTML and SVG: what has a meaning there is written as an entity, what may not stand there at all is dropped.
std::string escape_markup(std::string_view text);

struct ChartPoint {
  double x = 0;
  double y = 0;
};

struct ChartCurve {
  std::string name;    // in the legend; empty: not there
  std::string colour;  // class of the style sheet: "c1", "c2", ...
  std::vector<ChartPoint> points;
  bool faint = false;   // drawn thin, behind the others
  bool marked = false;  // a dot at each point, with its values as a hint
};

// Between two curves over the same places: the reach of values that were put together.
struct ChartBand {
  std::string colour;
  std::vector<ChartPoint> low;
  std::vector<ChartPoint> high;
};

struct Chart {
  std::string title;
  std::string x_title;
  double width = 860;
  double height = 320;
  bool linear = false;  // whatever the values span
  std::vector<ChartBand> bands = {};
  std::vector<ChartCurve> curves = {};
};

// A group (<g>) whose upper left corner is 0, 0. Values that span more than a factor of 20 are drawn by their
// logarithm.
std::string draw_chart(const Chart& chart);

}  // namespace ballast::cli
