// Findings of validators, for people and for programs.
#pragma once

#include <vector>

#include "apps/ballast/terminal/console.h"
#include "ballast/base/json.h"
#include "ballast/formats/findings.h"

namespace ballast::cli {

// The member "findings".
void add_findings(JsonWriter& json, const std::vector<Finding>& findings);
void print_findings(const std::vector<Finding>& findings, Console& console);

}  // namespace ballast::cli
