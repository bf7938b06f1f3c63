// Histograms drawn with block characters.
#pragma once

#include <string>

#include "apps/ballast/terminal/console.h"
#include "ballast/tensor/statistics.h"

namespace ballast::cli {

// One character per bin: " ▁▂▃▄▅▆▇█".
std::string sparkline(const Histogram& histogram);

// One line per bin, with its lower edge and its count.
void print_histogram(const Histogram& histogram, Console& console);

}  // namespace ballast::cli
