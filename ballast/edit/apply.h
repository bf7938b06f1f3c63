// Weights of one file put into the tensors of another, or into memory, as far as they fit: what Burn does when it loads
// a file into a module.
#pragma once

#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "ballast/edit/adapt.h"
#include "ballast/edit/cast.h"
#include "ballast/edit/filter.h"

namespace ballast {

struct ApplyOptions {
  PathFilter filter = PathFilter::all();  // which tensors of the target may be set
  PathFilter exclude;                     // and which of these may not
  std::vector<PlanEdit> edits;            // what happens to the source first: renaming, renumbering
  // Changes payloads, and gives a source tensor a second name to be found by.
  const Adapter* adapter = nullptr;
  AdaptOptions adapt;
  bool allow_partial = false;  // tensors that the source lacks keep their values; otherwise that is an error
  bool validate = true;        // a wrong shape or kind of dtype is an error; otherwise such tensors keep their values
  bool skip_enum_variants = false;  // the target's "a.BaseConv.weight" takes the source's "a.weight"
  bool restore_ids = true;          // parameter ids of the source replace those of the target; absent ones do not
  bool cast_to_target = false;      // numbers take the target's dtype; otherwise the source's width is kept
  std::shared_ptr<CastLog> casts;   // what casting cost; may be null
};

struct ApplyError {
  std::string name;
  std::string message;
};

struct NearMiss {
  std::string missing;    // of the target
  std::string candidate;  // a name of the source that was left over
  double similarity;      // Jaro, at least kNearMiss
};
inline constexpr double kNearMiss = 0.7;

// Names of the target in its order; `unused` are names of the source in its order.
struct ApplyResult {
  std::vector<std::string> applied;
  std::vector<std::string> skipped;  // by the filter
  std::vector<std::string> missing;
  std::vector<std::string> unused;
  std::vector<ApplyError> errors;     // did not fit
  std::vector<NearMiss> near_misses;  // for the first missing ones
  std::vector<std::string> notes;     // of edits and adapter
  // Why nothing was applied, although the lists say what would have been: missing tensors without allow_partial, errors
  // with validate.
  std::optional<Error> refused;
};

// Sets tensors of `target` from `source`. Both stay lazy. A dtype of the same kind (float, integer, truth value) fits:
// the result has the source's, but truth values take the target's form. `target` is unchanged when the result says
// `refused`. Fails where a pattern is wrong or the adapter refuses.
Result<ApplyResult> apply_to_plan(WritePlan& target, WritePlan source, const ApplyOptions& options = {});

// The same as a PlanEdit, which fails with `refused`. `result`, filled in either case, must not be null.
PlanEdit apply_weights(WritePlan source, ApplyOptions options, std::shared_ptr<ApplyResult> result);

// A tensor of the caller's: `memory` has info.byte_size bytes, canonical.
struct TensorSlot {
  TensorInfo info;
  MutableByteSpan memory;
};

// The same into memory, whose dtypes cannot change: numbers are cast, quantised tensors must have the same packing.
// Slots are filled one after the other; one that fails while it is read leaves those before it filled. Parameter ids
// are put into the slots' infos.
Result<ApplyResult> apply_to_memory(std::span<TensorSlot> slots, WritePlan source, const ApplyOptions& options = {});

}  // namespace ballast
