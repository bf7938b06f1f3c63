#include "ballast/text/conversation.h"

#include <fmt/format.h>

#include <algorithm>

#include "ballast/base/json.h"
#include "ballast/io/guard.h"
#include "ballast/models/model.h"
#include "ballast/text/encode_parts.h"
#include "ballast/text/text_ends.h"
#include "ballast/text/text_stream.h"

namespace ballast {

Conversation::Conversation(const CausalLm& model, Context& context, const Tokenizer& tokenizer,
                           ChatTemplate chat_template, ConversationOptions options, std::mutex* running)
    : model_(model),
      context_(context),
      running_(running),
      tokenizer_(tokenizer),
      template_(std::move(chat_template)),
      options_(std::move(options)) {
  const std::vector<TokenId> ends = turn_end_tokens(tokenizer_);
  options_.generate.stop_tokens.insert(options_.generate.stop_tokens.end(), ends.begin(), ends.end());
}

// ---------------------------------------------------------------- messages

void Conversation::set_messages(std::vector<ChatMessage> messages) {
  messages_ = std::move(messages);
  left_out_ = 0;
}

Status Conversation::set_system(std::string text) {
  return guarded([&]() -> Status {
    if (text.empty() && has_system()) messages_.erase(messages_.begin());
    if (text.empty()) return {};
    if (has_system()) messages_.front() = {.role = "system", .content = std::move(text)};
    else messages_.insert(messages_.begin(), {.role = "system", .content = std::move(text)});
    return {};
  });
}

void Conversation::reset() {
  messages_.resize(has_system() ? 1 : 0);
  left_out_ = 0;
}

// ---------------------------------------------------------------- the prompt

ChatContext Conversation::template_context() const {
  ChatContext context{.bos_token = options_.bos_token, .eos_token = options_.eos_token};
  const size_t system = has_system() ? 1 : 0;
  for (size_t i = 0; i < messages_.size(); ++i) {
    if (i < system || i >= system + left_out_) context.messages.push_back(&messages_[i]);
  }
  return context;
}

Result<std::vector<TokenId>> Conversation::prompt(const ClockTime& now) const {
  BALLAST_TRY(const auto parts, template_.render_parts(template_context(), options_.limits, now));
  if (!parts.empty()) return encode_parts(tokenizer_, parts);
  return make_error(ErrorCode::kInvalidArgument, "the chat template makes an empty text of the conversation");
}

// How many messages may be left out: all before a turn of the user's, beginning with what is left out now.
std::vector<size_t> Conversation::possible_cuts() const {
  const size_t system = has_system() ? 1 : 0;
  std::vector<size_t> cuts = {left_out_};
  for (size_t i = system + left_out_ + 1; i < messages_.size(); ++i) {
    if (messages_[i].role == "user") cuts.push_back(i - system);
  }
  return cuts;
}

// The fewest that must be left out, found by halving: a conversation that was loaded may have very many turns.
Result<std::vector<TokenId>> Conversation::fitting_prompt(const ClockTime& now) {
  const uint64_t most = model_.context_length();
  const uint64_t reserve = std::min(options_.generate.max_tokens, most / 4);
  const auto fits = [&](const std::vector<TokenId>& ids) { return ids.size() + reserve <= most; };
  BALLAST_TRY(std::vector<TokenId> ids, prompt(now));
  if (fits(ids)) return ids;
  const std::vector<size_t> cuts = possible_cuts();
  size_t too_few = 0, enough = cuts.size();
  while (too_few + 1 < enough) {
    const size_t middle = too_few + (enough - too_few) / 2;
    left_out_ = cuts[middle];
    BALLAST_TRY(std::vector<TokenId> fewer, prompt(now));
    (fits(fewer) ? enough : too_few) = middle;
    if (fits(fewer) || enough == cuts.size()) ids = std::move(fewer);
  }
  if (enough < cuts.size()) {
    left_out_ = cuts[enough];
    return ids;
  }
  return make_error(ErrorCode::kInvalidArgument,
                    fmt::format("the message has {} tokens with what the chat template adds, and {} are kept for the "
                                "answer, but the model's context has {}: shorten the message or the system message",
                                ids.size(), reserve, most));
}

// ---------------------------------------------------------------- a turn

Status Conversation::start_or_restart(std::vector<TokenId> prompt) {
  if (generator_) return generator_->restart(std::move(prompt));
  BALLAST_TRY(Generator generator, Generator::start(model_, context_, std::move(prompt), options_.generate, running_));
  generator_.emplace(std::move(generator));
  return {};
}

Result<Reply> Conversation::say(std::string text, const ClockTime& now, const Show& show) {
  const size_t before = left_out_, known = messages_.size();
  Result<Reply> reply = guarded([&]() -> Result<Reply> {
    messages_.push_back({.role = "user", .content = std::move(text)});
    BALLAST_TRY(std::vector<TokenId> ids, fitting_prompt(now));
    BALLAST_CHECK(start_or_restart(std::move(ids)));
    BALLAST_TRY(Reply written, answer(show));
    messages_.push_back({.role = "assistant", .content = written.text});
    return written;
  });
  if (reply) return reply;
  messages_.erase(messages_.begin() + static_cast<std::ptrdiff_t>(known), messages_.end());
  left_out_ = before;
  return reply;
}

Result<Reply> Conversation::answer(const Show& show) {
  Reply reply;
  reply.prompt_tokens = generator_->tokens().size();
  reply.reused_tokens = generator_->reused();
  StreamDecoder decoder(tokenizer_);
  StopText stops(options_.stop_texts);
  bool wanted = true;
  const auto give = [&](const std::string& piece) {
    reply.text += piece;
    if (!piece.empty()) wanted = show(piece) && wanted;
  };
  while (wanted && !stops.found()) {
    BALLAST_TRY(const auto token, generator_->next());
    if (!token) break;
    if (tokenizer_.is_special(token->id)) continue;
    BALLAST_TRY(const std::string piece, decoder.next(token->id));
    give(stops.next(piece));
    // A model that says nothing for long (or only what is held back) must still be stoppable.
    if (piece.empty()) wanted = show("") && wanted;
  }
  give(stops.next(decoder.finish()));
  give(stops.finish());
  reply.written_tokens = generator_->generated();
  const StopReason reason = generator_->stop_reason();
  if (!wanted) reply.end = ReplyEnd::kStopped;
  else if (reason == StopReason::kMaxTokens) reply.end = ReplyEnd::kMaxTokens;
  else if (reason == StopReason::kContextFull) reply.end = ReplyEnd::kContextFull;
  return reply;
}

// ---------------------------------------------------------------- as JSON

namespace {

void append_message(JsonWriter& json, const ChatMessage& message) {
  if (!message.json.empty()) {
    json.raw(message.json);
    return;
  }
  json.begin_object();
  json.key("role").string(message.role).key("content").string(message.content);
  json.end_object();
}

}  // namespace

std::string messages_to_json(std::span<const ChatMessage> messages) {
  JsonWriter json(true);
  json.begin_object().key("messages").begin_array();
  for (const ChatMessage& message : messages) append_message(json, message);
  return json.end_array().end_object().take() + '\n';
}

namespace {

Result<ChatMessage> read_chat_message(JsonReader& json, const std::string& where) {
  BALLAST_TRY(const std::string_view raw, json.read_raw());
  JsonReader members(raw, where);
  ChatMessage message;
  bool plain = true;
  std::string key;
  BALLAST_CHECK(members.enter_object());
  for (;;) {
    BALLAST_TRY(const bool more, members.next_key(key));
    if (!more) break;
    BALLAST_TRY(const JsonType type, members.peek());
    const bool known = type == JsonType::kString && (key == "role" || key == "content");
    if (known) BALLAST_CHECK(assign(key == "role" ? message.role : message.content, members.read_string()));
    else BALLAST_CHECK(members.skip_value());
    plain = plain && known;
  }
  if (message.role.empty()) return members.error_here("a message without a role");
  if (!plain) message.json = raw;
  return message;
}

}  // namespace

Result<std::vector<ChatMessage>> parse_messages(std::string_view text, const std::string& where) {
  return guarded([&]() -> Result<std::vector<ChatMessage>> {
    JsonReader json(text, where);
    std::vector<ChatMessage> messages;
    const auto read_list = [&]() -> Status {
      BALLAST_CHECK(json.enter_array());
      for (;;) {
        BALLAST_TRY(const bool more, json.next_element());
        if (!more) return {};
        BALLAST_TRY(ChatMessage message, read_chat_message(json, where));
        messages.push_back(std::move(message));
      }
    };
    BALLAST_TRY(const JsonType type, json.peek());
    if (type == JsonType::kArray) {
      BALLAST_CHECK(read_list());
    } else {
      BALLAST_CHECK(json.enter_object());
      bool found = false;
      std::string key;
      for (;;) {
        BALLAST_TRY(const bool more, json.next_key(key));
        if (!more) break;
        found = found || key == "messages";
        BALLAST_CHECK(key == "messages" ? read_list() : json.skip_value());
      }
      if (!found) return json.error_here("there are no \"messages\" in it");
    }
    BALLAST_CHECK(json.finish());
    return messages;
  });
}

}  // namespace ballast
