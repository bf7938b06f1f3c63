// Tensors of a GGUF file under the names and in the layout that transformers' classes have.
#pragma once

#include <string>
#include <vector>

#include "ballast/archive/convert.h"
#include "ballast/models/config/bert_config.h"
#include "ballast/models/decoder_description.h"

namespace ballast {

// One tensor of the folder, and what it is made of.
struct FolderMove {
  std::vector<std::string> from;  // several are laid under each other
  std::string to;
  Shape shape;              // before it is transposed
  uint64_t first_row = 0;   // of the rows of `from`, however many axes they stand on
  uint64_t head_rows = 0;   // not 0: pairs of channels become halves within heads of so many rows
  bool transposed = false;  // GPT-2's matrices are [in, out] over there
  bool less_one = false;    // Gemma's norms are stored less one over there
};

// Which biases the layers have. All layers have the same.
struct FolderBiases {
  bool qkv = false;
  bool output = false;
  bool feed = false;
};

// How transformers' class for a model lays out what differs.
struct FolderLayout {
  const DecoderNaming* naming = nullptr;
  std::string_view prefix{};
  bool fused_qkv = false;
  bool transposed = false;
  bool less_one = false;
};

struct FolderTensors {
  std::vector<FolderMove> moves;
  FolderBiases biases;
  bool tied = false;  // no output matrix
  uint64_t vocab = 0;
  uint64_t token_types = 0;          // of an encoder
  std::vector<std::string> dropped;  // what config.json says instead: tables of rope
};

// `d`: as describe_gguf gives it. kCorrupt where a tensor is missing or of another shape, kUnsupported where one has no
// place over there.
Result<FolderTensors> plan_decoder_tensors(const DecoderDescription& d, const FolderLayout& layout,
                                           const Archive& archive);
Result<FolderTensors> plan_bert_tensors(const BertDescription& d, const Archive& archive);

// Makes the plan's tensors those of the folder. `archive` is what the plan draws from: parts of its stacked tensors are
// read from it directly, each byte once.
PlanEdit move_tensors(const Archive& archive, FolderTensors tensors);

}  // namespace ballast
