// What `forward` and `trace` feed a model.
#pragma once

#include <string>
#include <vector>

#include "apps/ballast/flags/flags.h"
#include "apps/ballast/flags/model_flags.h"

namespace ballast::cli {

struct InputFlags {
  std::vector<std::string> tokens;
  std::string text;
  std::string tokenizer;
  std::vector<std::string> images;  // as given: files and folders of them
  std::string image;                // the one to read now; `image_files` lists them
  std::string archive;
  std::string archive_key = "input";
  uint64_t seed = 0;
  uint64_t batch = 1;
  uint64_t image_size = 0;  // 0: the model's own
};

void add_input_flags(Command& command, InputFlags& flags);

// The pictures among `images`: files as they are, of folders their PNG and JPEG files by name.
Result<std::vector<std::string>> image_files(const std::vector<std::string>& images);

// The input that the flags describe, for a model of this capability. An image model without any gets noise.
Result<ModelInput> make_input(const InputFlags& flags, RunningModel& running);

}  // namespace ballast::cli
