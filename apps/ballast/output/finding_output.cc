#include "apps/ballast/output/finding_output.h"

#include "apps/ballast/output/json_output.h"
#include "apps/ballast/output/table.h"
#include "apps/ballast/output/text.h"

namespace ballast::cli {

namespace {

std::string_view severity_name(Severity severity) {
  switch (severity) {
    case Severity::kNote: return "note";
    case Severity::kWarning: return "warning";
    case Severity::kError: return "error";
  }
  return "";
}

Paint severity_paint(Severity severity) {
  switch (severity) {
    case Severity::kNote: return Paint::kDim;
    case Severity::kWarning: return Paint::kYellow;
    case Severity::kError: return Paint::kRed;
  }
  return Paint::kPlain;
}

}  // namespace

void add_findings(JsonWriter& json, const std::vector<Finding>& findings) {
  json.key("findings").begin_array();
  for (const Finding& finding : findings) {
    json.begin_object();
    add_text(json, "severity", severity_name(finding.severity));
    add_text(json, "code", finding.code);
    add_number(json, "offset", finding.offset);
    if (finding.tensor.empty()) add_null(json, "tensor");
    else add_text(json, "tensor", finding.tensor);
    add_text(json, "message", finding.message);
    json.end_object();
  }
  json.end_array();
}

void print_findings(const std::vector<Finding>& findings, Console& console) {
  Table table({{"severity"}, {"offset", Align::kRight}, {"code"}, {"what"}});
  for (const Finding& finding : findings) {
    table.add_row(Cell(severity_name(finding.severity), severity_paint(finding.severity)),
                  std::to_string(finding.offset), printable(finding.code), printable(finding.message));
  }
  table.append_to(console.out(), console.output());
}

}  // namespace ballast::cli
