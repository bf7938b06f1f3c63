// Which tokens begin and end a text, as llama.cpp's converter finds it out.
#pragma once

#include <map>
#include <string>
#include <utility>
#include <vector>

#include "ballast/base/token_id.h"
#include "ballast/exchange/gguf_source_files.h"
#include "ballast/text/tokenizer/added_tokens.h"

namespace ballast {

struct GgufSpecialTokens {
  std::vector<std::pair<std::string, uint64_t>> ids;  // "bos", "eos", ... in the converter's order
  std::vector<std::pair<std::string, bool>> added;    // "bos": whether it is put around every text
  std::optional<bool> lower_case, strip_accents;      // of the normalizer
};

// `added_tokens`: those of tokenizer.json. Ids from `vocab` on count as absent.
Result<GgufSpecialTokens> find_gguf_special_tokens(const GgufSourceFiles& files, std::string_view config_json,
                                                   const std::vector<AddedToken>& added_tokens, uint64_t vocab);

}  // namespace ballast
