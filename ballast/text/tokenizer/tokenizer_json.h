// The parts of Hugging Face's tokenizer.json, each read by a function of its own. All refuse what they do not know by
// name: a part that is left out would give other tokens.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "ballast/base/json_object.h"
#include "ballast/text/tokenizer/tokenizer_description.h"

namespace ballast {

// Each takes the part as JSON; `where` names it in errors. Sequences come out flat.
Result<std::vector<Normalizer>> parse_normalizer(std::string_view json, const std::string& where);
Result<std::vector<PreTokenizer>> parse_pre_tokenizer(std::string_view json, const std::string& where);
Result<PostProcessor> parse_post_processor(std::string_view json, const std::string& where);
Result<std::vector<TokenDecoder>> parse_token_decoder(std::string_view json, const std::string& where);
Result<std::vector<AddedToken>> parse_added_tokens(std::string_view json, const std::string& where);
Result<Truncation> parse_truncation(std::string_view json, const std::string& where);
Result<Padding> parse_padding(std::string_view json, const std::string& where);

// BPE comes as CharPairVocabulary.
Result<TokenModel> parse_token_model(std::string_view json, const std::string& where);

// {"String": text} or {"Regex": expression}
Result<TextPattern> parse_text_pattern(const JsonObject& fields);

// The members of a Sequence inside Sequences, in order, or the part itself where it is none. `key` names the list of
// members.
Result<std::vector<JsonObject>> flatten_sequence(std::string_view json, std::string_view key, const std::string& where);

Result<TokenId> read_token_id(JsonReader& reader);

}  // namespace ballast
