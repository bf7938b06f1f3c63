// The flags that say how tokens are chosen, for every command that writes text.
#pragma once

#include "apps/ballast/flags.h"
#include "ballast/text/generator.h"

namespace ballast::cli {

// What `options` says is the default of the command. What the flags set must live until the command has run.
void add_sampling_flags(Command& command, GenerateOptions& options, bool& greedy);

// Once the flags are parsed.
void settle_sampling(GenerateOptions& options, bool greedy);

}  // namespace ballast::cli
