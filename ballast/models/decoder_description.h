// Everything that families of decoder-only text models differ in. A family is a row of a table that fills this in
// (hf_config.cc, gguf_config.cc, gptrs_config.cc); the model (decoder.cc) knows no families.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "ballast/models/decoder_names.h"
#include "ballast/ops/ops.h"

namespace ballast {

// Whether a parameter belongs to the model.
enum class Presence : uint8_t {
  kAbsent,
  kRequired,
  kIfThere,  // the file decides
};

enum class NormKind : uint8_t { kRms, kLayer };

struct DecoderLayer {
  enum class Rope : uint8_t { kNone, kMain, kLocal };
  Rope rope = Rope::kMain;
  uint64_t window = 0;    // 0: sees everything before it
  float score_scale = 0;  // 0: 1 / sqrt(head_dim)
  bool sparse = false;    // a mixture of experts instead of one feed-forward part
};

struct DecoderExperts {
  uint64_t count = 0;
  uint64_t used = 0;  // per token
  uint64_t hidden = 0;
  bool normalise = false;
  uint64_t shared_hidden = 0;  // 0: no expert that every token uses
};

// What `trace` calls the outputs that programs have different names for.
struct DecoderLabels {
  std::string_view embedding = "embeddings";  // where nothing is done to it before the first layer
  std::string_view attention_norm = "norm_1", feed_norm = "norm_2", final_norm = "final_norm";
};

struct DecoderDescription {
  std::string family;        // "llama", as the file calls it
  uint64_t vocab = 0;        // 0: as many as the embedding has rows
  uint64_t least_vocab = 0;  // then: which must be as many at least
  uint64_t context = 0, width = 0, hidden = 0;
  uint64_t q_heads = 0, kv_heads = 0, head_dim = 0;
  std::vector<DecoderLayer> layers;

  NormKind norm = NormKind::kRms;
  float eps = 0;
  float norm_shift = 0;     // RMS: weights are stored less this much
  bool post_norms = false;  // attention and feed-forward part have a norm behind them too
  bool qk_norm = false;     // each head of queries and keys is normalised, before rope

  Presence qkv_bias = Presence::kAbsent;
  Presence output_bias = Presence::kAbsent;
  Presence feed_bias = Presence::kAbsent;
  Presence fused_qkv = Presence::kAbsent;      // one matrix, rows q, k, v
  Presence fused_gate_up = Presence::kAbsent;  // one matrix, rows gate, up
  WeightLayout layout = WeightLayout::kOutIn;
  WeightLayout head_layout = WeightLayout::kOutIn;  // of an output matrix of its own

  bool learned_positions = false;
  ops::RopeConfig rope, local_rope;
  float soft_cap = 0;  // of scores
  // Not 0: queries are multiplied by 1 + temperature * ln(1 + floor(position / temperature_every)).
  double temperature = 0;
  uint64_t temperature_every = 1;

  Activation activation = Activation::kSilu;
  bool gated = true;  // down(activation(gate(x)) * up(x)); otherwise down(activation(up(x)))
  DecoderExperts experts;

  float embedding_scale = 1;
  bool tied = false;  // without an output matrix in the file it is the embedding
  float logit_cap = 0;

  float dropout = 0;  // while it trains: of the embeddings, and of both parts of a layer

  const DecoderNaming* naming = nullptr;
  DecoderLabels labels;
};

// Of all layers together no model has more; a file that says so is wrong, and must not cost memory.
inline constexpr uint64_t kMostDecoderLayers = 10'000;

// kInvalidArgument, with the numbers, where sizes contradict each other or cannot be: before anything of their size is
// asked for.
Status check_decoder(const DecoderDescription& description);

KvShape decoder_kv_shape(const DecoderDescription& description);

}  // namespace ballast
