// Where a command puts a model: a file, or a folder with what belongs beside the weights.
#pragma once

#include "apps/ballast/flags/output_flags.h"
#include "ballast/exchange/write_model.h"

namespace ballast::cli {

// --container-only
void add_container_flag(Command& command, OutputFlags& flags);

// The format that the flags ask for: what --to says, else safetensors in a folder, else that of the extension.
Result<const FormatDriver*> choose_output_format(const OutputFlags& flags);

// plan_exchange() for what the flags ask for. The error of a model that would not run there also names
// --container-only.
Result<ExchangePlan> plan_output(const ExchangeSource& source, const OutputFlags& flags, const FormatDriver& format,
                                 const FolderOptions& folder = {});
// keep_runnable() for plans that come from memory; nothing with --container-only.
void keep_output_runnable(OutputFlags& flags, const FormatDriver& format);

// write_model() for what the flags ask for; finish_options() has been called.
Result<ConvertReport> write_planned(const ExchangeSource& source, const ExchangePlan& plan, OutputFlags& flags,
                                    const FormatDriver& format);
Result<ConvertReport> write_planned(WritePlan weights, const ExchangePlan& plan, OutputFlags& flags,
                                    const FormatDriver& format);

}  // namespace ballast::cli
