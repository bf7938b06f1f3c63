// Numbers that the real netcl gave, beside the files that it wrote: tests/data/netcl/<name>.expect.json.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "ballast/device/tensor.h"

namespace ballast::testing {

// tests/data/netcl/<name>
std::string netcl_path(const std::string& name);
// The text of <name>.expect.json.
std::string netcl_expectation(const std::string& name);

struct RecordedArray {
  std::vector<float> values;
  Dims dims;
};
// Nested lists at a path of the JSON: "output_eval".
RecordedArray recorded_array(std::string_view json, std::string_view path);
// A flat list as doubles.
std::vector<double> recorded_numbers(std::string_view json, std::string_view path);
// A tensor of an archive, as floats.
RecordedArray archive_array(const std::string& path, const std::string& name);

}  // namespace ballast::testing
