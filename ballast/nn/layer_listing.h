// What a file says about its layers.
#pragma once

#include <string>

namespace ballast::nn {

struct LayerListing {
  std::string layers;    // JSON list of {"type", "args"}
  std::string version;   // as the file has it; empty where it says none
  char separator = ':';  // of tensor names: "{i}:{key}" in netcl's files, "{i}.{key}" in safetensors
  std::string about;     // see nn/about.h; empty where the file says nothing
};

}  // namespace ballast::nn
