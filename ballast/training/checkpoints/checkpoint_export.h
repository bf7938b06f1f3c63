// One ordinary file of a checkpoint, for everybody who knows nothing of checkpoints.
#pragma once

#include <string>

#include "ballast/archive/convert.h"
#include "ballast/training/checkpoint.h"

namespace ballast {

// What stands before the names of state tensors in a file that also holds the weights.
inline constexpr std::string_view kExportedStatePrefix = "state.";

struct ExportOptions {
  bool with_state = false;
  ConvertOptions convert;  // how it is written: format options, overwriting, losses, progress
};

// A plan over a checkpoint, which must outlive it: the weights with their ids, the model's configuration where there
// is one, and the step as metadata. Every tensor is checked against its digest while it is drawn.
// Names are those of the format: see name_in_checkpoint_file().
WritePlan make_export_plan(const LoadedCheckpoint& checkpoint, std::string_view format, bool with_state);
WritePlan make_export_plan(LoadedCheckpoint&&, std::string_view format, bool with_state) = delete;

// What the format has no field for (ids in safetensors, ...) travels in `ballast.origin`, as in every conversion.
Result<ConvertReport> export_checkpoint(const LoadedCheckpoint& checkpoint, const std::string& destination,
                                        const FormatDriver& format, const ExportOptions& options);

}  // namespace ballast
