// Statistics of the tensors of an archive.
#pragma once

#include <span>
#include <vector>

#include "ballast/base/progress.h"
#include "ballast/formats/archive.h"
#include "ballast/tensor/statistics.h"

namespace ballast {

struct StatsOptions {
  size_t bins = 24;        // of each tensor's histogram
  size_t total_bins = 24;  // of the histogram over all
  unsigned threads = 0;    // 0: as many as the machine has; the result is the same for any number
  Progress progress;
};

struct TensorStatistics {
  bool measured = false;  // false: a type without arithmetic
  Statistics statistics;
  Histogram histogram;
};

struct ArchiveStatistics {
  std::vector<TensorStatistics> tensors;  // one per tensor asked for
  TensorStatistics total;                 // over all that were measured
};

// Reads each payload once, in chunks: memory does not follow the size of the tensors, except that payloads which are
// compressed, big-endian or in Fortran order take their size. The checksums of a container are checked for compressed
// payloads only; `verify` checks all.
Result<ArchiveStatistics> measure_archive(const Archive& archive, std::span<const size_t> tensors,
                                          const StatsOptions& options = {});

}  // namespace ballast
