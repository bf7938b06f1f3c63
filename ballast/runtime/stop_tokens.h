// Which tokens end a text, as the files of a model say it.
#pragma once

#include <string>
#include <vector>

#include "ballast/archive/model_folder.h"
#include "ballast/base/token_id.h"

namespace ballast {

// generation_config.json where it says, else config.json: "eos_token_id", one or a list; of a GGUF file the ends of a
// text and of a turn. None where nothing is said.
Result<std::vector<TokenId>> find_stop_tokens(const ModelFolder& folder, const Description& file);

}  // namespace ballast
