// The memory that running a model takes.
#pragma once

#include <optional>

#include "ballast/archive/model_summary.h"

namespace ballast::cli {

struct RunningMemory {
  uint64_t cache = 0;  // keys and values, in f32
  uint64_t total = 0;  // with the weights
};

// With so many tokens in the cache. Layers of models that Ballast runs keep their window of them, all others keep them
// all. nullopt where the file does not say enough.
std::optional<RunningMemory> running_memory(const Description& file, const ModelSummary& summary, uint64_t tokens);

}  // namespace ballast::cli
