// gpt.rs's GPT as the GPT-2 that it is, on the way into a GGUF file.
#pragma once

#include <string>

#include "ballast/archive/convert.h"

namespace ballast {

struct GptrsAsGpt2 {
  std::string config_json;  // as a config.json of transformers would say it
  PlanEdit rename;          // its parameters under transformers' names
};

// `config`: {"kind", "config"}. kUnsupported for kinds that llama.cpp has no architecture for.
Result<GptrsAsGpt2> gptrs_as_gpt2(const std::string& config);

}  // namespace ballast
