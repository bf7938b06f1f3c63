// `generate --prompts`: many prompts, several at a time.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "apps/ballast/commands/prompt_file.h"
#include "apps/ballast/flags/constraint_flags.h"
#include "apps/ballast/flags/model_flags.h"

namespace ballast::cli {

struct BatchSettings {
  std::string file;                      // for errors
  uint64_t parallel = 8;                 // texts at once
  GenerateOptions options;               // of every prompt that does not say otherwise
  std::optional<Constraint> constraint;  // that `options` enforce
  std::vector<std::string> stop;
  uint64_t warmup_tokens = 0;
  bool json = false;
};

// Prints each text as soon as it and all before it are done. A prompt that fails is reported, and the others go on; the
// exit code tells. An error is one of the engine as a whole.
Result<int> generate_batch(const BatchSettings& settings, const std::vector<FilePrompt>& prompts,
                           const RunningModel& running, const TextModel& model, Console& console);

}  // namespace ballast::cli
