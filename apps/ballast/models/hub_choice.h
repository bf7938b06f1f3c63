// Which files of a repository a model needs in order to run.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <vector>

#include "ballast/base/result.h"

namespace ballast::cli {

struct HubFile {
  std::string path;
  std::optional<uint64_t> bytes;  // where the listing says so
  std::string digest;             // the name of its blob; empty where the listing does not say it
};

struct HubChoice {
  std::vector<HubFile> files;
  std::string model;  // the file to open; empty: their folder
};

// `wanted` is a path, or a word that occurs in the name of one GGUF file alone (Q4_K_M); empty: the config, the
// tokenizer, the chat template and the weights, safetensors before pickles; in a repository of GGUF files the only one.
// All parts of a model in several files count as one. kNotFound and kInvalidArgument list what there is.
Result<HubChoice> choose_hub_files(const std::string& id, std::span<const HubFile> files, const std::string& wanted);

}  // namespace ballast::cli
