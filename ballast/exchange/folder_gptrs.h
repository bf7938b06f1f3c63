// gpt.rs's models as Hugging Face folders.
#pragma once

#include "ballast/exchange/exchange.h"

namespace ballast {

// Whether the file carries a config of gpt.rs's: a checkpoint in its own field, safetensors as metadata.
bool has_gptrs_config(const Description& file);

// Of a file that carries one.
Result<ExchangePlan> plan_gptrs_folder(const ExchangeSource& source);

// gpt.rs's flat tokenizer.json, or the text of a vocab.json with that of its merges.txt, as the document that Hugging
// Face's tokenizers reads; a text that is such a document already comes back as it is.
Result<std::string> gptrs_tokenizer_json(const std::string& json, const std::string* merges, const std::string& where);

}  // namespace ballast
