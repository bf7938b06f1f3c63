// general.*: what a GGUF file says about itself whatever its architecture.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "ballast/exchange/gguf_source_files.h"
#include "ballast/formats/description.h"

namespace ballast {

// What the folder says, before its tensors are known.
struct GgufGeneral {
  std::vector<MetaEntry> sampling;     // general.sampling.*
  std::string said_name, folder_name;  // config.json's "_name_or_path", where it is no path, and the folder's own
};
Result<GgufGeneral> read_gguf_general(const GgufSourceFiles& files, std::string_view config_json);

// general.*, in the converter's order; sizes come from the tensors of the file.
Result<std::vector<MetaEntry>> gguf_general_keys(const GgufGeneral& general, const std::vector<TensorInfo>& tensors);

// llama.cpp's number for the type that most of the file has.
uint64_t gguf_file_type(const std::vector<TensorInfo>& tensors);

}  // namespace ballast
