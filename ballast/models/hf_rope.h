// Rope settings of config.json, in both spellings that there are.
#pragma once

#include "ballast/models/config_reader.h"
#include "ballast/models/decoder_description.h"

namespace ballast {

struct HfRopeRules {
  bool has_local = false;         // layers with a window turn by frequencies of their own
  bool yarn_is_longrope = false;  // an old name
  uint64_t original_context = 0;  // where the file does not say; 0: max_position_embeddings
};

// `theta`: where the file has none. Also sets the context, which scaling depends on.
Status set_hf_rope(const HfRopeRules& rules, const ConfigReader& config, double theta, DecoderDescription& d);

}  // namespace ballast
