// `benchmark --sequences` and `--shared-prefix`: many texts in one pass, and what a prefix that is known saves.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "apps/ballast/terminal/console.h"
#include "ballast/backends/cpu/machine.h"
#include "ballast/base/json.h"
#include "ballast/runtime/text_model.h"

namespace ballast::cli {

struct SequenceSettings {
  std::vector<uint64_t> counts{};  // of sequences
  uint64_t prompt_tokens = 0, warmup_tokens = 0, max_tokens = 0;
  uint64_t rounds = 1;
  DType cache_dtype = DType::kF32;
};

// Seconds, over the rounds.
struct RoundTimes {
  double best = 0, median = 0;
};
RoundTimes times_of(std::vector<double> rounds);

// Decoding with so many sequences in each pass.
struct SequenceMeasure {
  uint64_t sequences = 0;
  uint64_t steps = 0;        // measured per round
  RoundTimes step{};         // the mean step of a round
  uint64_t cache_bytes = 0;  // that the pasts of all sequences have at the end
  double flop = 0;           // of a step

  double rate(double step_seconds) const { return static_cast<double>(sequences) / step_seconds; }
};

// From a request to its first token, without and with its prefix known.
struct PrefixMeasure {
  uint64_t prefix = 0, reused = 0;  // tokens
  RoundTimes first{}, second{};
};

// "1,2,4"
Result<std::vector<uint64_t>> parse_sequence_counts(const std::string& text);

// Texts have tokens of their own and share nothing. Every step that is timed computes one token of each.
// `flop_per_token`: of a step with one sequence.
Result<std::vector<SequenceMeasure>> measure_sequences(const TextModel& model, const SequenceSettings& settings,
                                                       double flop_per_token);
// Two requests one after the other in an engine that begins empty, each of `prefix` tokens and one of its own.
Result<PrefixMeasure> measure_shared_prefix(const TextModel& model, uint64_t prefix, const SequenceSettings& settings);

void print_sequences(const std::vector<SequenceMeasure>& measures, const std::optional<MachineSpeed>& machine,
                     Console& console);
void print_shared_prefix(const PrefixMeasure& measure, Console& console);
void add_sequences(JsonWriter& json, const std::vector<SequenceMeasure>& measures,
                   const std::optional<MachineSpeed>& machine);
void add_shared_prefix(JsonWriter& json, const PrefixMeasure& measure);

}  // namespace ballast::cli
