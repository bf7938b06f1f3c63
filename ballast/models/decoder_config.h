// From what a file says about itself to the description of its decoder.
#pragma once

#include <string>
#include <string_view>

#include "ballast/models/config_reader.h"
#include "ballast/models/decoder_description.h"

namespace ballast {

// `config` of a model of kind "decoder": {"huggingface": the text of a config.json}, or {"gguf": the metadata of a file
// as one object}.
Result<DecoderDescription> describe_decoder(std::string_view config);

// hf_config.cc: one row per model_type.
Result<DecoderDescription> describe_huggingface(std::string_view config_json);
// gguf_config.cc: one row per architecture.
Result<DecoderDescription> describe_gguf(std::string_view metadata_json);
// How many tokens the file's own list of them has: a key among the metadata that stands for the list.
inline constexpr std::string_view kGgufTokenCount = "tokenizer.ggml.tokens.count";

}  // namespace ballast
