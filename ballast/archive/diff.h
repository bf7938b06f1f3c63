// Two archives compared by content, whatever their formats.
#pragma once

#include <string>
#include <vector>

#include "ballast/base/progress.h"
#include "ballast/formats/archive.h"
#include "ballast/tensor/compare.h"

namespace ballast {

struct DiffOptions {
  // Values with |a - b| <= atol + rtol * |b| count as equal, whatever their dtypes, and so do NaN and NaN. Without a
  // tolerance two tensors are the same only with the same dtype, shape and bytes.
  double rtol = 0;
  double atol = 0;
  unsigned threads = 0;
  Progress progress;
};

struct ValueChange : ElementDifference {
  bool comparable = false;        // false: dtypes without arithmetic or different shapes; then only "differs" is known
  bool within_tolerance = false;  // a tolerance was given and no element is beyond it
};

enum class DiffKind : uint8_t {
  kSame,
  kOnlyInA,
  kOnlyInB,
  kChanged,
  kRenamed,
  kTransposed,  // a matrix with the bits of the other's transpose, under the same name or another
};

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
  // Nothing renamed or transposed, nothing only on one side, and everything same or within tolerance.
  bool equal() const;
};

// Pairs tensors by name, then those left over by content, as it is or transposed. Payloads are compared in place where
// the sources can be viewed and in chunks otherwise, so memory does not follow the size of the files. The report is the
// same for any number of threads. A negative or NaN tolerance is kInvalidArgument.
Result<DiffReport> diff_archives(const Archive& a, const Archive& b, const DiffOptions& options = {});
// Of tensors with the same name alone: others count as only in A, and as nothing in B.
Result<DiffReport> diff_namesakes(const Archive& a, const Archive& b, const DiffOptions& options = {});

}  // namespace ballast
