// Finds a tensor by its name among many, and says whether a name stands twice.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "ballast/formats/description.h"

namespace ballast {

// Holds positions, no names: every call gets the same tensors. Copies nothing of them and may be copied itself.
//
// Tensors that stand in the order of their names need no memory. Others go into a hash table. The hash has no secret,
// so names can be chosen to collide; where the table would need long searches, the index is a sorted list instead, and
// no file costs more than sorting it.
class NameIndex {
 public:
  explicit NameIndex(std::span<const TensorInfo> tensors);

  // The position of a tensor of this name; of several, any one.
  std::optional<size_t> find(std::span<const TensorInfo> tensors, std::string_view name) const;
  bool has_duplicates() const { return has_duplicates_; }

  // For tests: what the hash table does not take.
  bool is_sorted_list() const { return !by_name_.empty(); }
  static uint64_t hash(std::string_view name);

 private:
  bool fill_table(std::span<const TensorInfo> tensors);

  std::vector<uint64_t> slots_;    // half of the hash above the position plus one; 0 where nothing stands
  std::vector<uint32_t> by_name_;  // positions in the order of names
  bool has_duplicates_ = false;
};

// Positions of tensors in the order of their names; those of one name in the order they stand.
std::vector<uint32_t> positions_by_name(std::span<const TensorInfo> tensors);

}  // namespace ballast
