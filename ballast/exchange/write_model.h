// Writing a model where it is to run: a file, or a folder with what belongs beside the weights.
#pragma once

#include <optional>
#include <string>

#include "ballast/exchange/exchange.h"

namespace ballast {

struct ModelDestination {
  std::string path;  // a folder where it ends in / or is one
  const FormatDriver& format;
  bool container_only = false;  // keep names and layouts, whether the result runs or not
  // What a program can do where a model would not run in the format: put behind the message of that error.
  std::string unsupported_hint{};
};

// plan_exchange() for this output.
Result<ExchangePlan> plan_model(const ExchangeSource& source, const ModelDestination& output,
                                const FolderOptions& folder = {});

// Writes the source as a model that runs: the plan's edits, then those of the options. All files appear, or none.
Result<ConvertReport> write_model(const ExchangeSource& source, const ExchangePlan& plan,
                                  const ModelDestination& output, ConvertOptions options);
// The same for weights that were put together from elsewhere.
Result<ConvertReport> write_model(WritePlan weights, const ExchangePlan& plan, const ModelDestination& output,
                                  ConvertOptions options);

// The files, into a folder that is there. They appear together, or none does.
Status write_companions(const std::vector<CompanionFile>& companions, const std::string& folder,
                        const CommitOptions& commit);

// ---------------------------------------------------------------- all in one

struct ConvertModelOptions {
  std::string format{};  // empty: that of the destination's extension; in a folder safetensors, or gguf to quantise
  std::optional<DType> dequantize{};  // what quantised tensors become
  std::optional<DType> dtype{};       // what floating tensors become
  std::string quantize{};             // the name of a preset; empty: none
  bool container_only = false;
  ConvertOptions convert{};
};

// Opens the source, plans, and writes. kInvalidArgument where tensors are selected that get other names.
Result<ConvertReport> convert_model(const std::string& source, const std::string& destination,
                                    const ConvertModelOptions& options = {});

}  // namespace ballast
