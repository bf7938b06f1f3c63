// What is left to look at when a run is over: one HTML page or one SVG picture, whole in itself.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "apps/ballast/output/train_history.h"

namespace ballast::cli {

struct TrainReport {
  std::string title;
  std::string item = "examples";  // what is counted
  std::string config;             // JSON, indented
  // Rows of the table of results in front of those that the history gives: "model", "parameters", ...
  std::vector<std::pair<std::string, std::string>> facts = {};
};

// kInvalidArgument unless the name ends in .html, .htm or .svg. For a command to ask before it computes.
Status check_report_path(const std::string& path);

// The same, and kExists where a file is there that is no report.
Status check_report_place(const std::string& path);

// Names and values of the table of results.
std::vector<std::pair<std::string, std::string>> result_rows(const TrainReport& report, const TrainHistory& history);

std::string render_html_report(const TrainReport& report, const TrainHistory& history);
std::string render_svg_report(const TrainReport& report, const TrainHistory& history);

// By the ending of the name; replaces an older report and nothing else.
Status write_train_report(const std::string& path, const TrainReport& report, const TrainHistory& history);

}  // namespace ballast::cli
