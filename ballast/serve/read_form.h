// The members of a request that say what form the answer must have.
#pragma once

#include "ballast/serve/fields.h"
#include "ballast/serve/text_ask.h"

namespace ballast::serve {

// Schemas, grammars and expressions may have so many bytes.
inline constexpr size_t kMostFormBytes = size_t{256} << 10U;

// response_format of OpenAI, grammar and json_schema of llama-server, guided_* and structured_outputs of vLLM, regex
// and ebnf of SGLang, whose grammars are written like ours. A request may have one of them.
void read_form(Fields& fields, std::optional<FormAsk>& form);

// {"type": "json_schema", "schema": {}}: OpenAI's responses and Anthropic write a format so.
void read_flat_format(Fields& format, std::optional<FormAsk>& form);

// A JSON Schema, given as an object or as a text that holds one.
void read_schema_form(Fields& fields, std::string_view key, std::optional<FormAsk>& form);

}  // namespace ballast::serve
