// Two archives compared by content, whatever their formats.
#pragma once

#include <string>
#include <vector>

#include "ballast/base/progress.h"
#include "ballast/formats/archive.h"

namespace ballast {

struct DiffOptions {
  double rtol = 0;  // values within atol + rtol * |b| count as equal
  double atol = 0;
  unsigned threads = 0;
  Progress progress;
};

struct ValueChange {
  uint64_t differing = 0;  // elements that differ
  uint64_t elements = 0;
  double max_abs = 0;
  double max_rel = 0;
  uint64_t max_ulp = 0;     // floating types of the same dtype only
  bool comparable = false;  // false: dtypes without arithmetic or different shapes; then only "differs" is known
  bool within_tolerance = false;
};

enum class DiffKind : uint8_t { kSame, kOnlyInA, kOnlyInB, kChanged, kRenamed };

struct DiffEntry {
  DiffKind kind;
  std::string name_a;  // empty for kOnlyInB
  std::string name_b;  // empty for kOnlyInA
  std::string note;    // "dtype f32 -> f16", "shape [2, 3] -> [3, 2]"
  ValueChange change;
};

struct DiffReport {
  std::vector<DiffEntry> entries;  // in A's order, then what is only in B
  size_t count(DiffKind kind) const;
  // Everything same, renamed tensors excepted (they count as a difference), changes within tolerance included.
  bool equal() const;
};

Result<DiffReport> diff_archives(const Archive& a, const Archive& b, const DiffOptions& options = {});

}  // namespace ballast
