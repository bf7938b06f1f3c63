// Which tokens and texts begin and end what a model writes: every rule about that stands here.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "ballast/archive/model_folder.h"
#include "ballast/text/tokenizer.h"

namespace ballast {

// As the files beside a model's weights and the weights' own file say it: "eos_token_id" of generation_config.json,
// else of config.json, one or a list; of a GGUF file the ends of a text and of a turn; "eos_token_ids" of a gpt.rs
// checkpoint. None where nothing is said.
Result<std::vector<TokenId>> find_stop_tokens(const ModelFolder& folder, const Description& file);

// All tokens that end a text: those that the model's files name (`of_model`), those that the tokenizer's files name,
// and
// <|endoftext|> where neither names any. `tokenizer` may be null.
std::vector<TokenId> all_stop_tokens(std::span<const TokenId> of_model, const Tokenizer* tokenizer);

// What a text begins with that nobody gave a beginning: the begin of text, else <|endoftext|>. nullopt where the
// vocabulary has neither.
std::optional<TokenId> first_token(const Tokenizer& tokenizer);

// Tokens of the vocabulary that end a turn by their names (<|im_end|>, <|eot_id|>, ...), whatever its file says the end
// of a text is.
std::vector<TokenId> turn_end_tokens(const Tokenizer& tokenizer);

// The marks of that kind that a template writes: for a model that has no tokens for them and spells them out.
std::vector<std::string> turn_ends_in(std::string_view template_text);

}  // namespace ballast
