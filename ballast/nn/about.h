// What a model of layers says of itself beside its layers: what goes in, and what the outputs are called. One JSON
// object in its file, so that every format and every conversion keeps it.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "ballast/base/result.h"

namespace ballast::nn {

struct About {
  struct Input {
    std::vector<uint64_t> shape;      // of one example; of a picture [channels, height, width]
    std::optional<double> divide_by;  // pictures: their bytes were divided by this
  };
  std::optional<Input> input;        // absent: not known
  std::vector<std::string> classes;  // names of the outputs, in order; empty: they have none
};

// {"input": {"shape": [3, 32, 32], "divide_by": 255.0}, "classes": ["cat", "dog"]}; "" where there is nothing to say.
std::string about_json(const About& about);
// "null" and "" say nothing; members that are not known are passed over.
Result<About> parse_about(std::string_view json);

}  // namespace ballast::nn
