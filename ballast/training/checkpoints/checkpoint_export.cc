#include "ballast/training/checkpoints/checkpoint_export.h"

#include <fmt/format.h>

#include "ballast/io/guard.h"
#include "ballast/training/checkpoints/checkpoint_manifest.h"

namespace ballast {

namespace {

void add_part(WritePlan& plan, const LoadedCheckpoint& checkpoint, CheckpointPart part, std::string_view format,
              std::string_view prefix) {
  const auto tensors = checkpoint.tensors(part);
  for (size_t i = 0; i < tensors.size(); ++i) {
    TensorInfo info = tensors[i].info;
    info.name = fmt::format("{}{}", prefix, name_in_checkpoint_file(info.name, format));
    plan.add_tensor(std::move(info), [&checkpoint, part, i](ByteSink& sink) -> Status {
      BALLAST_TRY(const ByteVector bytes, checkpoint.read(part, i));
      return sink.write(bytes);
    });
  }
}

}  // namespace

WritePlan make_export_plan(const LoadedCheckpoint& checkpoint, std::string_view format, bool with_state) {
  WritePlan plan;
  plan.description.metadata = {{"step", std::to_string(checkpoint.step())}};
  plan.description.config = checkpoint.manifest().model_config;
  add_part(plan, checkpoint, CheckpointPart::kWeights, format, "");
  if (with_state) add_part(plan, checkpoint, CheckpointPart::kState, {}, kExportedStatePrefix);
  return plan;
}

Result<ConvertReport> export_checkpoint(const LoadedCheckpoint& checkpoint, const std::string& destination,
                                        const FormatDriver& format, const ExportOptions& options) {
  return guarded([&] {
    return convert_plan(make_export_plan(checkpoint, format.name, options.with_state), destination, format,
                        options.convert);
  });
}

}  // namespace ballast
