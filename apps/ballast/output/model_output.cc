#include "apps/ballast/output/model_output.h"

#include "apps/ballast/flags/file_names.h"
#include "apps/ballast/output/output_format.h"

namespace ballast::cli {

namespace {

constexpr std::string_view kContainerHint = "; --container-only changes the container and keeps names and layouts";

Error with_container_hint(Error error) {
  if (error.code == ErrorCode::kUnsupported) error.message += kContainerHint;
  return error;
}

ModelDestination output_of(const OutputFlags& flags, const FormatDriver& format) {
  return {.path = flags.path,
          .format = format,
          .container_only = flags.container_only,
          .unsupported_hint = std::string(kContainerHint)};
}

}  // namespace

void add_container_flag(Command& command, OutputFlags& flags) {
  command.flag("--container-only", flags.container_only,
               "Change only the container: keep names and layouts even if the result cannot be run");
}

Result<const FormatDriver*> choose_output_format(const OutputFlags& flags) {
  if (flags.format.empty() && names_a_folder(flags.path)) return choose_format("safetensors", "");
  return choose_format(flags.format, flags.path);
}

Result<ExchangePlan> plan_output(const ExchangeSource& source, const OutputFlags& flags, const FormatDriver& format,
                                 const FolderOptions& folder) {
  return plan_model(source, output_of(flags, format), folder);
}

void keep_output_runnable(OutputFlags& flags, const FormatDriver& format) {
  if (flags.container_only) return;
  flags.options.edits.push_back(
      [edit = keep_runnable(format)](WritePlan& plan, std::vector<std::string>& notes) -> Status {
        auto kept = edit(plan, notes);
        if (!kept) return with_container_hint(std::move(kept).error());
        return {};
      });
}

Result<ConvertReport> write_planned(const ExchangeSource& source, const ExchangePlan& plan, OutputFlags& flags,
                                    const FormatDriver& format) {
  return write_model(source, plan, output_of(flags, format), flags.options);
}

Result<ConvertReport> write_planned(WritePlan weights, const ExchangePlan& plan, OutputFlags& flags,
                                    const FormatDriver& format) {
  return write_model(std::move(weights), plan, output_of(flags, format), flags.options);
}

}  // namespace ballast::cli
