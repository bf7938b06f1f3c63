#include "apps/ballast/flags/sampling_flags.h"

#include <fmt/format.h>

#include <algorithm>

#include "ballast/text/generation_defaults.h"

namespace ballast::cli {

void add_sampling_flags(Command& command, SamplingFlags& flags, uint64_t& max_tokens) {
  SamplerOptions& values = flags.values;
  command.count("--max-tokens", "N", max_tokens, fmt::format("Generate at most N tokens ({})", max_tokens));
  command.flag("--greedy", flags.greedy, "Always choose the most likely token; same as --temperature 0");
  command.real("--temperature", "T", values.temperature,
               fmt::format("0: greedy; < 1: more focused, > 1: more varied (the model's own, else {}; chat models {})",
                           usual_sampling(false).temperature, usual_sampling(true).temperature));
  command.count("--top-k", "K", values.top_k, "Sample from the K most likely tokens");
  command.real("--top-p", "P", values.top_p, "Sample from the most likely tokens that add up to P");
  command.real("--min-p", "P", values.min_p, "Ignore tokens below P times the most likely one");
  command.real("--repetition-penalty", "X", values.repetition_penalty,
               fmt::format("Penalise the last {} tokens, if above 1", kUsualRepetitionWindow));
  command.seed("--seed", values.seed, flags.random_seed,
               "Seed for sampling: a number (0), or random; the seed used is reported");
}

SamplerOptions settle_sampling(SamplerOptions defaults, const SamplingFlags& flags) {
  const auto has = [&](std::string_view name) { return std::ranges::find(flags.given, name) != flags.given.end(); };
  if (has("--temperature")) defaults.temperature = flags.values.temperature;
  if (has("--top-k")) defaults.top_k = flags.values.top_k;
  if (has("--top-p")) defaults.top_p = flags.values.top_p;
  if (has("--min-p")) defaults.min_p = flags.values.min_p;
  if (has("--repetition-penalty")) {
    defaults.repetition_penalty = flags.values.repetition_penalty;
    defaults.repetition_window = kUsualRepetitionWindow;
  }
  if (flags.greedy) defaults.temperature = 0;
  defaults.seed = flags.values.seed;
  return defaults;
}

}  // namespace ballast::cli
