// A conversation with a text model: messages become text by its chat template, text becomes tokens, the model answers.
#pragma once

#include <functional>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "ballast/engine/generator.h"
#include "ballast/text/chat_template.h"
#include "ballast/text/tokenizer.h"

namespace ballast {

struct ConversationOptions {
  GenerateOptions generate;             // stop_tokens: more of them, besides those that end a turn by their names
  std::vector<std::string> stop_texts;  // the same for texts
  std::string bos_token;                // what the template knows by these names
  std::string eos_token;
  RenderLimits limits;
};

enum class ReplyEnd : uint8_t {
  kTurn,         // the model ended its turn
  kMaxTokens,    // it would have said more
  kContextFull,  // the model's context has no more room
  kStopped,      // by whoever it was shown to
};

struct Reply {
  std::string text;
  ReplyEnd end = ReplyEnd::kTurn;
  uint64_t prompt_tokens = 0;  // of the whole conversation, as the template writes it
  uint64_t reused_tokens = 0;  // of these, known from the turns before
  uint64_t written_tokens = 0;
};

// One thread at a time. TextModel makes them. The model, the context, the tokenizer and `running` (see
// Generator::start) must outlive it.
class Conversation {
 public:
  Conversation(const CausalLm& model, Context& context, const Tokenizer& tokenizer, ChatTemplate chat_template,
               ConversationOptions options, std::mutex* running = nullptr);

  std::span<const ChatMessage> messages() const { return messages_; }
  void set_messages(std::vector<ChatMessage> messages);
  // In place of the present one; empty: none. kOutOfMemory leaves the messages as they were.
  Status set_system(std::string text);
  // Forgets everything but the system message.
  void reset();
  // Messages that do not fit the context any more: they stand behind the system message, and the model does not see
  // them.
  size_t left_out() const { return left_out_; }

  // Receives the answer piece by piece; false ends it.
  using Show = std::function<bool(std::string_view)>;
  // Adds the user's message, lets the model answer, adds the answer. An answer that was stopped is kept as far as it
  // came; an error leaves the messages as they were. Only what is new is computed. Old messages are left out, whole
  // turns at a time, while the text and a quarter of the context (or max_tokens, where that is less) exceed the
  // context; a single message that does not fit is kInvalidArgument with the numbers.
  Result<Reply> say(std::string text, const ClockTime& now, const Show& show);

  // Tokens in the model's memory, and what it takes.
  uint64_t tokens() const { return generator_ ? generator_->tokens().size() : 0; }
  uint64_t cache_bytes() const { return generator_ ? generator_->cache_bytes() : 0; }

 private:
  bool has_system() const { return !messages_.empty() && messages_.front().role == "system"; }
  ChatContext template_context() const;
  Result<std::vector<TokenId>> prompt(const ClockTime& now) const;
  Result<std::vector<TokenId>> fitting_prompt(const ClockTime& now);
  std::vector<size_t> possible_cuts() const;
  Status start_or_restart(std::vector<TokenId> prompt);
  Result<Reply> answer(const Show& show);

  const CausalLm& model_;
  Context& context_;
  std::mutex* running_;
  const Tokenizer& tokenizer_;
  ChatTemplate template_;
  ConversationOptions options_;
  std::vector<ChatMessage> messages_;
  size_t left_out_ = 0;
  std::optional<Generator> generator_;
};

// {"messages": [{"role": ..., "content": ...}, ...]}, and the way back; a bare list of messages is read too. Errors
// name `where`.
std::string messages_to_json(std::span<const ChatMessage> messages);
Result<std::vector<ChatMessage>> parse_messages(std::string_view json, const std::string& where);

}  // namespace ballast
