// Tensors of a model as llama.cpp's converter gives them: its names, its order of rows, its element types.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "ballast/archive/write.h"
#include "ballast/models/decoder_names.h"
#include "ballast/tensor/cast.h"

namespace ballast {

// A tensor that no source has: divisors of rope's frequencies.
struct GgufExtraTensor {
  std::string name;
  std::vector<float> values;
};

struct GgufTensorRules {
  const DecoderNaming* from = nullptr;
  const DecoderNaming* to = nullptr;
  uint64_t layers = 0;
  uint64_t experts = 0;
  // Rows of queries and keys so that a head's channels turn in pairs; 0: they stay.
  uint64_t paired_q_heads = 0, paired_kv_heads = 0;
  bool transposed = false;  // matrices of layers are [in, out]
  float norm_shift = 0;     // added to the weights of norms
  bool drop_head = false;   // the embedding stands in for the output matrix, even where there is one
  bool down_first = false;  // of stacked experts
  std::vector<GgufExtraTensor> extra{};
};

// Replaces the tensors of the plan. Weights that are vectors, norms, routers and positions become f32; other floats
// stay what they are. What is no part of the model is left out, with a note. kInvalidArgument where parts are missing.
Status make_gguf_tensors(const GgufTensorRules& rules, WritePlan& plan, std::vector<std::string>& notes);

}  // namespace ballast
