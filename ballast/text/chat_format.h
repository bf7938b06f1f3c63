// How a model wants conversations written, for programs that keep the messages themselves: each call is given all of
// them. A Conversation (text/conversation.h) remembers them instead, and computes only what is new.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "ballast/archive/model_source.h"
#include "ballast/text/chat_template.h"
#include "ballast/text/tokenizer.h"

namespace ballast {

// Immutable; any number of threads may use it. It needs no weights.
class ChatFormat {
 public:
  // The chat template of a model's files. kNotFound where they have none.
  static Result<ChatFormat> open(const ModelSource& model, const Tokenizer& tokenizer);
  // Another template than the model's own; `where` is what errors call it.
  static Result<ChatFormat> open(const ModelSource& model, const Tokenizer& tokenizer, std::string_view text,
                                 const std::string& where);

  // What the template knows by these names; empty where the files say nothing.
  const std::string& bos_token() const { return bos_token_; }
  const std::string& eos_token() const { return eos_token_; }
  // What ends the model's turn besides the tokens that end a text.
  const std::vector<TokenId>& turn_ends() const { return turn_ends_; }
  const std::vector<std::string>& stop_texts() const { return stop_texts_; }
  const std::string& template_text() const { return text_; }

  // `context_json`: what ChatTemplate::render() takes.
  Result<std::string> render(std::string_view context_json, const ClockTime& now = {}) const;
  // Its tokens. What the messages say never becomes a special token.
  Result<std::vector<TokenId>> encode(std::string_view context_json, const ClockTime& now = {}) const;

 private:
  ChatFormat(ChatTemplate chat_template, Tokenizer tokenizer)
      : template_(std::move(chat_template)), tokenizer_(std::move(tokenizer)) {}

  ChatTemplate template_;
  Tokenizer tokenizer_;
  std::string text_;
  std::string where_;
  std::string bos_token_, eos_token_;
  std::vector<TokenId> turn_ends_;
  std::vector<std::string> stop_texts_;
};

}  // namespace ballast
