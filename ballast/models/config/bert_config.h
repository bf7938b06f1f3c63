// What a file says about an encoder of BERT's kind.
#pragma once

#include <cstdint>
#include <string_view>

#include "ballast/models/decoder_names.h"
#include "ballast/models/kind_config.h"
#include "ballast/ops/ops.h"

namespace ballast {

// How the states of a text's tokens become its vector.
enum class Pooling : uint8_t {
  kMean,
  kFirst,  // that of [CLS]
  kNone,   // not at all
};

struct BertDescription {
  uint64_t vocab = 0;        // 0: as many as the embedding has rows
  uint64_t least_vocab = 0;  // then: which must be as many at least
  uint64_t types = 0;        // 0: as many as their table has rows
  uint64_t positions = 0;
  uint64_t max_length = 0;  // of a text to embed
  uint64_t width = 0, hidden = 0, heads = 0, layers = 0;
  float eps = 0;
  Activation activation = Activation::kGeluErf;
  Pooling pooling = Pooling::kMean;
  bool normalise = false;  // the vector is made one long
  const DecoderNaming* naming = nullptr;
};

// A model of kind "bert": of another program's words. kInvalidArgument, with the numbers, where sizes cannot be.
Result<BertDescription> describe_bert(const KindConfig& config);

}  // namespace ballast
