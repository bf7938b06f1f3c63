// What `forward` and `trace` feed a model.
#pragma once

#include <string>
#include <vector>

#include "apps/ballast/flags.h"
#include "apps/ballast/model_flags.h"

namespace ballast::cli {

struct InputFlags {
  std::vector<std::string> tokens;
  std::string text;
  std::string tokenizer;
  std::string image;
  std::string archive;
  std::string archive_key = "input";
  uint64_t seed = 0;
  uint64_t batch = 1;
  uint64_t image_size = 0;  // 0: the model's own
};

void add_input_flags(Command& command, InputFlags& flags);

// The input that the flags describe, for a model of this capability. An image model without any gets noise.
Result<ModelInput> make_input(const InputFlags& flags, RunningModel& running);

}  // namespace ballast::cli
