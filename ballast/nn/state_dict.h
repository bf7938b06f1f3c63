// Named tensors in and out of a model, checked as a whole before anything changes.
#pragma once

#include <span>
#include <string>
#include <utility>
#include <vector>

#include "ballast/params/param_store.h"
#include "ballast/params/trained_params.h"

namespace ballast {

// A tensor in someone else's memory, to read and to write: what loading puts values into.
struct StateTensor {
  TensorInfo info;
  MutableByteSpan bytes;
};

}  // namespace ballast

namespace ballast::nn {

// A tensor whose bytes someone else keeps: canonical, info.byte_size of them.
struct NamedTensor {
  TensorInfo info;
  ByteSpan bytes;
};
using StateDict = std::vector<NamedTensor>;

struct ShapeMismatch {
  std::string name;
  Shape in_model, in_state;
};

struct StateOptions {
  bool strict = true;            // what is missing, and what nobody asked for, are errors
  bool keep_mismatched = false;  // a tensor of another shape leaves the model's as it is, and is reported
};

struct StateReport {
  std::vector<std::string> missing;       // in the model and not in the state
  std::vector<std::string> unexpected;    // in the state and not in the model
  std::vector<ShapeMismatch> mismatched;  // kept as they were
};

// Puts values into the parameters of the same names, in their own types. Another shape is kInvalidArgument, missing and
// unexpected names are kNotFound where `strict`; one text names them all, and nothing has changed then.
Result<StateReport> load_tensors(std::span<const Param> params, TrainedParams& memory, const StateDict& state,
                                 const StateOptions& options);

// "\"0.weight\" has shape [2, 3] in the model and [3, 2] in the file"
std::string mismatch_text(const ShapeMismatch& mismatch);

}  // namespace ballast::nn
