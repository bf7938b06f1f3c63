// Where `quantize` takes its importance matrix from: a text that the model reads, or a file.
#pragma once

#include <memory>
#include <string>

#include "apps/ballast/flags/flags.h"
#include "apps/ballast/terminal/console.h"
#include "ballast/base/json.h"
#include "ballast/edit/importance.h"

namespace ballast::cli {

struct CalibrationFlags {
  std::string text;     // --calibrate
  std::string imatrix;  // --imatrix
  std::string save;     // --save-imatrix

  bool wanted() const { return !text.empty() || !imatrix.empty(); }
};
void add_calibration_flags(Command& command, CalibrationFlags& flags);

struct Calibration {
  std::shared_ptr<const ImportanceMatrix> matrix;  // null: none was asked for
  std::string source;                              // the file it comes from
  uint64_t tokens = 0;                             // of the text; 0: read from a file
  double perplexity = 0;                           // of the model before it is quantised
};

// Runs the model at `model_path`, whose weights have the names and layouts that are quantised, over the text.
Result<Calibration> calibrate(const CalibrationFlags& flags, const std::string& model_path, unsigned threads,
                              Console& console);

// "calibration": null or an object.
void add_calibration(JsonWriter& json, const Calibration& calibration, size_t tensors);
void print_calibration(const Calibration& calibration, size_t tensors, Console& console);

}  // namespace ballast::cli
