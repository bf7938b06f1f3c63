// The JSON text of a checkpoint's manifest, with a digest of itself.
#pragma once

#include <string>
#include <string_view>

#include "ballast/training/checkpoint.h"

namespace ballast {

// The digest covers the exact text of "body", so that a manifest that was torn, or edited by hand, is recognised.
std::string checkpoint_manifest_to_json(const CheckpointManifest& manifest);

// `where` names the text in errors. kCorrupt: it is damaged; kUnsupported: a later version wrote it. What comes back is
// consistent: names are plain and unique, every tensor stands in one of the files, sizes fit shapes.
Result<CheckpointManifest> parse_checkpoint_manifest(std::string_view text, const std::string& where);

// The step in "step-00001200.json"; nullopt for any other name.
std::optional<uint64_t> step_of_manifest_name(std::string_view name);

// A name that this store gives to files of tensors: "step-00001200-weights-<16 digits>.safetensors".
std::string checkpoint_file_name(uint64_t step, CheckpointPart part, const Digest& content, std::string_view extension);
bool is_checkpoint_file_name(std::string_view name);

// What a tensor is called in a file of this format: "3.weight" is "3:weight" in netcl's, all others keep the name.
std::string name_in_checkpoint_file(const std::string& name, std::string_view format);

}  // namespace ballast
