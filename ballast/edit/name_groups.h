// Sorts the tensors of a plan by the rows of a model kind's table.
#pragma once

#include <array>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "ballast/base/result.h"
#include "ballast/edit/huggingface_table.h"
#include "ballast/edit/name_pattern.h"
#include "ballast/formats/description.h"

namespace ballast {

enum class Side : uint8_t { kGptrs, kHuggingFace };

// Places of the tensors of a row, in the order of slot_patterns.
constexpr size_t kFoldSlots = 7;
using Slots = std::array<std::optional<size_t>, kFoldSlots>;
// On the side of Hugging Face, of kFold:
enum FoldSlot : size_t { kConvWeight, kNormScale, kNormShift, kNormMean, kNormVariance, kNormCount, kConvBias };
// On the side of gpt.rs, of kFold:
enum FoldedSlot : size_t { kFoldedWeight, kFoldedBias };

struct SlotPattern {
  std::string pattern;
  bool optional = false;
};
// The names that a row stands for on one side.
std::vector<SlotPattern> slot_patterns(const NameRule& rule, const NameStyle& style, Side side);

// One thing of the model: a row of the table with its numbers.
struct NameGroup {
  const NameRule* rule;
  NameNumbers numbers;
  Slots slots;  // positions in the plan
};

struct NameGroups {
  const NamedModel* kind = nullptr;
  NameStyle style;
  std::vector<NameGroup> groups;  // by row, then by numbers
  std::vector<size_t> ignored;    // positions of buffers without weights
  std::vector<size_t> unknown;    // positions of tensors that no row knows
};

// The row that each tensor belongs to.
NameGroups group_names(const std::vector<TensorInfo>& tensors, const NamedModel& kind, const NameStyle& style,
                       Side side);

// The same with the kind and style that know most of the names; null `kind` where none knows any.
NameGroups recognise_names(const std::vector<TensorInfo>& tensors);

// Fails where tensors are unknown, or where one is missing that its kind needs, naming them.
Status check_complete(const NameGroups& groups, const std::vector<TensorInfo>& tensors, Side side);

// Number of blocks: of different first numbers in rows blocks.{}, the fixed first ones not counted.
size_t count_blocks(const NameGroups& groups);

}  // namespace ballast
