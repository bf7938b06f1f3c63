// Where the chat template of a model is.
#pragma once

#include <optional>
#include <string>

#include "ballast/archive/model_source.h"
#include "ballast/base/token_id.h"

namespace ballast {

struct FoundChatTemplate {
  std::string text;
  std::string where;  // the file it stands in, or the metadata's key
  // What the files say the template's bos_token and eos_token are: as text, or by number.
  std::string bos_token;
  std::string eos_token;
  std::optional<TokenId> bos_id;
  std::optional<TokenId> eos_id;
};

// Beside a model's file, or in its folder: chat_template.jinja, else what tokenizer_config.json holds (of several the
// one called "default"), else the metadata of the file itself. nullopt where there is none.
Result<std::optional<FoundChatTemplate>> find_chat_template(const ModelSource& model);
Result<std::optional<FoundChatTemplate>> find_chat_template(const std::string& model_path);

// In the metadata of an archive, as GGUF files have it.
std::optional<FoundChatTemplate> find_chat_template(const Description& description);

}  // namespace ballast
