// The parameters of a decoder, taken by the names of its file.
#pragma once

#include <vector>

#include "ballast/models/decoder_description.h"
#include "ballast/models/model.h"

namespace ballast {

struct DecoderNorm {
  Param gamma, beta;  // no beta: RMS
};

struct DecoderMatrix {
  Param weight, bias;  // no bias: none
  ops::RowRange rows{};
  WeightLayout layout = WeightLayout::kOutIn;

  ops::LinearOptions options(Activation activation = Activation::kNone) const {
    return {.bias = bias.valid() ? &bias : nullptr, .activation = activation, .layout = layout, .rows = rows};
  }
};

struct DecoderFeed {
  DecoderMatrix gate, up, down;
};

struct DecoderMixture {
  DecoderMatrix router;
  std::vector<ops::Expert> experts;
  DecoderFeed shared;
  DecoderMatrix shared_switch;  // how much of the shared expert
};

struct DecoderBlock {
  DecoderNorm attention_norm, attention_post_norm, feed_norm, feed_post_norm;
  DecoderMatrix qkv;                // where the file has one matrix for the three
  DecoderMatrix query, key, value;  // otherwise
  DecoderNorm query_norm, key_norm;
  DecoderMatrix output;
  DecoderFeed feed;
  DecoderMixture mixture;
};

struct DecoderParams {
  Param embedding, positions;
  std::vector<DecoderBlock> blocks;
  DecoderNorm final_norm;
  DecoderMatrix head;
};

// Also learns from the file what the description left to it: the vocabulary, and divisors of rope's frequencies.
Result<DecoderParams> load_decoder_params(DecoderDescription& description, ParamLoader& params);

}  // namespace ballast
