// Everything that a conversation needs besides a model, from the model's own files.
#pragma once

#include <optional>
#include <span>
#include <string>

#include "ballast/text/conversation.h"
#include "ballast/text/find_chat_template.h"

namespace ballast {

struct ChatSetup {
  ChatTemplate chat_template;
  // Sampling as the model's files say (find_sampling_defaults), the tokens and texts that end an answer, and what the
  // template calls bos_token and eos_token.
  ConversationOptions options;
};

// All tokens that end a text: those that the model names, those that the tokenizer's files name, and <|endoftext|>
// where neither names any. `tokenizer` may be null.
std::vector<TokenId> all_stop_tokens(std::span<const TokenId> of_model, const Tokenizer* tokenizer);

// `stop_tokens`: those of the model (LoadedModel::stop_tokens). `chat_template` replaces the text of the model's own,
// and `where` names it in errors. kNotFound where there is none at all.
Result<ChatSetup> prepare_chat(const std::string& model_path, const Tokenizer& tokenizer,
                               std::span<const TokenId> stop_tokens,
                               const std::optional<FoundChatTemplate>& chat_template = std::nullopt);

}  // namespace ballast
