// How config.json says how positions turn channels.
#pragma once

#include <optional>
#include <string>

#include "ballast/exchange/folder_json.h"
#include "ballast/formats/archive.h"
#include "ballast/models/decoder_description.h"

namespace ballast {

// The rope of a file with the tables that it holds as tensors: divisors of frequencies become Llama 3's settings where
// those give the same divisors, otherwise a list.
Result<ops::RopeScaling> folder_rope_scaling(const DecoderDescription& d, const Archive& archive);

// The members of "rope_scaling"; none where nothing is scaled. `kind_key`: "rope_type", or "type" as old classes want.
void add_rope_scaling(const ops::RopeScaling& scaling, uint64_t context, std::string_view kind_key, FolderJson& json);

}  // namespace ballast
