// Checkpoints as later generations of gpt.rs write them, made of Hugging Face folders by an encoder of their own.
#pragma once

#include <string>
#include <vector>

namespace ballast::testing {

struct NewerGptrsTensor {
  std::string name;
  uint32_t dtype_tag = 0;  // 0 f32, 1 f16, 2 bf16, 3 i32
  std::vector<uint64_t> dims;
  std::string payload;
};

// GPTRSCHK version 2 with every payload at a multiple of 64 bytes, zeros in between, and base ids of 0.
std::string build_newer_gptrs(const std::string& config, const std::vector<NewerGptrsTensor>& tensors);

// A model of tests/data/hf: kind "ministral" takes the tensors as they are; "gpt" splits and transposes those of a
// GPT-2. The config is that of config.json, with `eos_token_ids` beside it.
std::string newer_gptrs_of(const std::string& folder, const std::string& kind);

}  // namespace ballast::testing
