#include "apps/ballast/sampling_flags.h"

#include <fmt/format.h>

#include <cmath>

namespace ballast::cli {

void add_sampling_flags(Command& command, GenerateOptions& options, bool& greedy) {
  SamplerOptions& sampling = options.sampling;
  command.count("--max-tokens", "N", options.max_tokens,
                fmt::format("How many tokens to write at most ({})", options.max_tokens));
  command.flag("--greedy", greedy, "Always the likeliest token");
  // Its range is the sampler's business: with --greedy any number will do.
  command.real("--temperature", "T", sampling.temperature,
               fmt::format("0: the likeliest; below 1: surer, above 1: more varied ({})", sampling.temperature),
               -HUGE_VAL);
  command.count("--top-k", "K", sampling.top_k, "Choose among the K likeliest tokens");
  command.real("--top-p", "P", sampling.top_p,
               fmt::format("Choose among the likeliest tokens that make up this share ({})", sampling.top_p));
  command.real("--min-p", "P", sampling.min_p, "Leave out tokens below this share of the likeliest one");
  command.real("--repetition-penalty", "X", sampling.repetition_penalty,
               fmt::format("Above 1: less of what stands already ({})", sampling.repetition_penalty));
  command.count("--seed", "N", sampling.seed, "Another seed, another text (0)");
}

void settle_sampling(GenerateOptions& options, bool greedy) {
  if (greedy || options.sampling.temperature < 0) options.sampling.temperature = 0;
}

}  // namespace ballast::cli
