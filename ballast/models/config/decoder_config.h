// From what a file says about itself to the description of its decoder.
#pragma once

#include <string>
#include <string_view>

#include "ballast/models/decoder_description.h"
#include "ballast/models/kind_config.h"

namespace ballast {

// A model of kind "decoder": of another program's words.
Result<DecoderDescription> describe_decoder(const KindConfig& config);

// hf_config.cc: one row per model_type.
Result<DecoderDescription> describe_huggingface(std::string_view config_json);
// A checkpoint of a later generation of gpt.rs: `config_json` has the keys of a config.json, or those that gpt.rs
// reads.
Result<DecoderDescription> describe_gptrs(std::string_view kind, std::string_view config_json);
// gptrs_config.cc: the kinds "gpt" and "ministral" of gpt.rs's checkpoints.
Result<DecoderDescription> describe_gpt(const KindConfig& config);
Result<DecoderDescription> describe_ministral(const KindConfig& config);
// gguf_config.cc: one row per architecture.
Result<DecoderDescription> describe_gguf(std::string_view metadata_json);
// How many tokens the file's own list of them has: a key among the metadata that stands for the list.
inline constexpr std::string_view kGgufTokenCount = "tokenizer.ggml.tokens.count";

}  // namespace ballast
