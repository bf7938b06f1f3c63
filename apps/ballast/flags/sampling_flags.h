// The flags that say how tokens are chosen, for every command that writes text.
#pragma once

#include <string>
#include <vector>

#include "apps/ballast/flags/flags.h"
#include "ballast/engine/generator.h"

namespace ballast::cli {

struct SamplingFlags {
  SamplerOptions values;  // of the flags that were given
  bool greedy = false;
  bool random_seed = false;        // the seed in `values` was drawn
  std::vector<std::string> given;  // Command::given(), once the command line was parsed
};

// What the flags set must live until the command has run. `max_tokens` holds its default.
void add_sampling_flags(Command& command, SamplingFlags& flags, uint64_t& max_tokens);

// The defaults of the model, with what the flags say in place of them.
SamplerOptions settle_sampling(SamplerOptions defaults, const SamplingFlags& flags);

}  // namespace ballast::cli
