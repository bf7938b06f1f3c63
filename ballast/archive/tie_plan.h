// Which tensors of a plan are written once.
#pragma once

#include "ballast/archive/write.h"

namespace ballast {

// Below this a shared payload saves next to nothing, and equal constants (biases that are all zero) are no news.
inline constexpr uint64_t kSmallestTie = uint64_t{64} << 10;

// Sets TensorInfo::twin in `plan`, which is make_plan(archive), where `target` can store tensors once. A file of the
// target's own format keeps the layout it has: only tensors that share their bytes already are twins. From elsewhere,
// they are tensors of at least kSmallestTie bytes that hold the same; that costs a few samples of tensors of the same
// type and shape, and only those whose samples are equal are read. The numbers begin behind `last`, which becomes the
// last one used.
Status mark_twins(const Archive& archive, WritePlan& plan, const FormatDriver& target, uint32_t& last, unsigned threads,
                  const Progress& progress);

struct TieRequest {
  const FormatDriver& format;
  bool wanted = true;
  bool untouched = false;  // every tensor with a twin is still drawn as when mark_twins looked at it
  unsigned threads = 0;
};

struct TieReport {
  size_t tensors = 0;  // that share the bytes of another
  uint64_t bytes = 0;  // that need not be written
};

// Fills plan.ties, as the last step before the plan is written. A plan that comes from the format itself keeps the ties
// it had there (their numbers in the stored forms are brought up to date), any other gets those of its twins. Nothing
// is tied on the word of a number: the tensors are digested where they may have changed.
Result<TieReport> find_ties(WritePlan& plan, const TieRequest& request, const Progress& progress);

}  // namespace ballast
