// gpt.rs checkpoints as Hugging Face folders.
#pragma once

#include "ballast/exchange/exchange.h"

namespace ballast {

Result<ExchangePlan> plan_gptrs_folder(const ExchangeSource& source);

// gpt.rs's flat tokenizer.json, or the text of a vocab.json with that of its merges.txt, as the document that Hugging
// Face's tokenizers reads; a text that is such a document already comes back as it is.
Result<std::string> gptrs_tokenizer_json(const std::string& json, const std::string* merges, const std::string& where);

}  // namespace ballast
