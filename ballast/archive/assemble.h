// Taking archives apart and putting them together: plans made of plans. convert_plan writes the result.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "ballast/archive/pattern.h"
#include "ballast/archive/write.h"

namespace ballast {

struct PlanOptions {
  const FormatDriver* tie_for = nullptr;  // look for tensors that it would store once: see mark_twins; null: do not
  unsigned threads = 0;
  Progress progress;
};

// A plan over `archive`, which must outlive it, with everything that its origin knows. What the user should hear of
// that is added to `notes`.
Result<WritePlan> make_full_plan(const Archive& archive, std::vector<std::string>& notes,
                                 const PlanOptions& options = {});

// ---------------------------------------------------------------- merging

enum class Prefer : uint8_t { kNeither, kFirst, kLast };

struct MergeInput {
  std::string name;  // of the file, for texts
  WritePlan plan;
  std::string prefix = {};  // put in front of every tensor's name
};

struct MergeOptions {
  // Which of two tensors of one name, or of two metadata values of one key, counts where they differ; neither: that is
  // an error that names both files.
  Prefer prefer = Prefer::kNeither;
  std::optional<size_t> config_from;  // the input whose config is taken, where several have one
  unsigned threads = 0;
  Progress progress;
};

struct MergeReport {
  size_t equal = 0;      // tensors that several inputs have, with the same content: written once, under their one name
  size_t preferred = 0;  // tensors of one name that differ, of which one was taken
};

// The union of all inputs, in their order. Only tensors whose name stands in several inputs are read.
Result<WritePlan> merge_plans(std::vector<MergeInput> inputs, const MergeOptions& options, MergeReport& report);

// ---------------------------------------------------------------- splitting

struct PlanPart {
  std::string label;  // "00001-of-00003", or what the expression's group matched
  WritePlan plan;     // with the metadata and the config of the whole
};

// The label of the tensors that an expression does not match.
inline constexpr std::string_view kRestLabel = "rest";

// In order, a new part before it would exceed so many bytes; a larger tensor stands alone.
Result<std::vector<PlanPart>> split_by_size(const WritePlan& plan, uint64_t bytes);
// In order, as evenly as whole tensors allow. kInvalidArgument with fewer tensors than parts.
Result<std::vector<PlanPart>> split_by_count(const WritePlan& plan, size_t parts);
// One part for each value of the expression's first group, in the order in which they first occur.
Result<std::vector<PlanPart>> split_by_pattern(const WritePlan& plan, const Pattern& pattern);

}  // namespace ballast
