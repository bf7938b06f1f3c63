// Rope settings of config.json, in both spellings that there are.
#pragma once

#include "ballast/models/decoder_description.h"
#include "ballast/models/kind_config.h"

namespace ballast {

struct HfRopeRules {
  bool has_local = false;         // layers with a window turn by frequencies of their own
  bool is_partial = false;        // "partial_rotary_factor" of each head turns; everywhere else all of it
  bool yarn_is_longrope = false;  // an old name
  uint64_t original_context = 0;  // where the top of the file does not say; 0: what the settings say
  std::string_view unsaid{};      // settings where the file has none; empty: those of plain rope
};

// What holds where the file does not say.
struct HfRopeDefaults {
  double theta;
  uint64_t context;
};

// The one object with settings that counts, in either spelling.
Result<JsonObject> hf_rope_settings(const HfRopeRules& rules, const JsonObject& config);

// Also sets the context, which scaling depends on.
Status set_hf_rope(const HfRopeRules& rules, const JsonObject& config, const HfRopeDefaults& defaults,
                   DecoderDescription& d);

}  // namespace ballast
