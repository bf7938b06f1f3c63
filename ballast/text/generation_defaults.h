// How a model wants its tokens chosen, as its own files say. The command and programs that use the library ask here, so
// that both write the same.
#pragma once

#include <optional>
#include <string>

#include "ballast/archive/model_source.h"
#include "ballast/engine/sampler.h"

namespace ballast {

// Where a model's files say nothing. A model with a chat template answers questions, best with the likeliest token (as
// transformers does where nothing is said); one without continues texts, and would go round in circles that way.
SamplerOptions usual_sampling(bool has_chat_template);

// What generation_config.json in the model's folder (or beside its file) says, else the metadata general.sampling.* of
// a GGUF file, else usual_sampling(). "do_sample": false means the likeliest token. A repetition penalty of
// these files looks at the whole context, as transformers does, unless general.sampling.penalty_last_n says how far.
// Values outside of their range are kInvalidArgument and name the file.
Result<SamplerOptions> find_sampling_defaults(const ModelSource& model);
Result<SamplerOptions> find_sampling_defaults(const std::string& model_path);

// The same for texts and metadata at hand; nullopt where they do not speak of sampling.
Result<std::optional<SamplerOptions>> sampling_in_config(std::string_view generation_config, const std::string& where);
Result<std::optional<SamplerOptions>> sampling_in_metadata(const Description& description, const std::string& where);

}  // namespace ballast
