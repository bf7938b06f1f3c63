#include <ctime>

#include "bindings/c/text_object.h"

namespace ballast::c {

namespace {

struct ChatObject {
  std::shared_ptr<TextModelObject> model;  // what the conversation runs on
  std::shared_ptr<CancelObject> cancel;    // null where there is none
  Conversation conversation;
  std::string last_reply{};
  OneCall one_call{};
};

ballast_finish finish_of(ReplyEnd end) {
  switch (end) {
    case ReplyEnd::kTurn: return BALLAST_FINISH_STOP_TOKEN;
    case ReplyEnd::kMaxTokens: return BALLAST_FINISH_MAX_TOKENS;
    case ReplyEnd::kContextFull: return BALLAST_FINISH_CONTEXT_FULL;
    case ReplyEnd::kStopped: break;
  }
  return BALLAST_FINISH_CANCELLED;
}

// For templates that print the date.
ClockTime clock_now() {
  const std::time_t now = std::time(nullptr);
  std::tm local = {};
  if (localtime_r(&now, &local) == nullptr) return {};
  return {local.tm_year + 1900, local.tm_mon + 1, local.tm_mday, local.tm_hour, local.tm_min, local.tm_sec};
}

Conversation::Show show_to(const ChatObject& chat, ballast_text_callback callback, void* user) {
  return [&chat, callback, user](std::string_view piece) {
    if (chat.cancel != nullptr && chat.cancel->requested) return false;
    if (callback == nullptr || piece.empty()) return true;
    const std::string text(piece);
    return callback(user, text.c_str(), text.size());
  };
}

ballast_reply reply_of(const Reply& said, const std::string& text) {
  ballast_reply reply = {};
  reply.text = to_text(text);
  reply.finish = finish_of(said.end);
  reply.prompt_tokens = said.prompt_tokens;
  reply.reused_tokens = said.reused_tokens;
  reply.written_tokens = said.written_tokens;
  return reply;
}

Result<std::shared_ptr<ChatObject>> make_chat(const std::shared_ptr<TextModelObject>& model,
                                              const ballast_generate_options* given) {
  ConversationOptions options = model->model.chat_options();
  BALLAST_TRY(Generation generation, given_generation(given, model->model, options.generate));
  options.generate = std::move(generation.options);
  options.stop_texts.insert(options.stop_texts.end(), generation.stops.begin(), generation.stops.end());
  BALLAST_TRY(Conversation conversation, model->model.start_chat(std::move(options)));
  return std::make_shared<ChatObject>(model, std::move(generation.cancel), std::move(conversation));
}

}  // namespace

template <>
struct HandleTraits<ballast_chat> {
  using Object = ChatObject;
  static constexpr HandleKind kKind = HandleKind::kChat;
  static constexpr const char* kName = "chat";
};

}  // namespace ballast::c

using namespace ballast;
using namespace ballast::c;

extern "C" {

ballast_error* ballast_chat_create(const ballast_text_model* model, const ballast_generate_options* options,
                                   ballast_chat** out) {
  return call([&]() -> Status {
    BALLAST_CHECK(need_out(out));
    BALLAST_TRY(const auto object, use(model));
    BALLAST_TRY(auto chat, make_chat(object, options));
    *out = hand_out<ballast_chat>(std::move(chat));
    return {};
  });
}
ballast_error* ballast_chat_set_system(ballast_chat* chat, const char* text, size_t size) {
  return call([&]() -> Status {
    BALLAST_TRY(const auto object, use(chat));
    BALLAST_TRY(const std::string_view given, given_text(text, size, "the text"));
    BALLAST_TRY(const auto turn, object->one_call.enter());
    return object->conversation.set_system(std::string(given));
  });
}
ballast_error* ballast_chat_say(ballast_chat* chat, const char* text, size_t size, ballast_text_callback callback,
                                void* user, ballast_reply* out) {
  return call([&]() -> Status {
    BALLAST_TRY(const auto object, use(chat));
    BALLAST_TRY(const std::string_view given, given_text(text, size, "the text"));
    if (out != nullptr) BALLAST_CHECK(check_struct_size(out->struct_size, sizeof *out));
    BALLAST_TRY(const auto turn, object->one_call.enter());
    BALLAST_TRY(Reply reply,
                object->conversation.say(std::string(given), clock_now(), show_to(*object, callback, user)));
    object->last_reply = std::move(reply.text);
    return out != nullptr ? give(reply_of(reply, object->last_reply), out) : Status();
  });
}
ballast_error* ballast_chat_messages(const ballast_chat* chat, ballast_buffer** out) {
  return call([&]() -> Status {
    BALLAST_CHECK(need_out(out));
    BALLAST_TRY(const auto object, use(chat));
    BALLAST_TRY(const auto turn, object->one_call.enter());
    *out = hand_out_text(messages_to_json(object->conversation.messages()));
    return {};
  });
}
ballast_error* ballast_chat_set_messages(ballast_chat* chat, const char* json, size_t size) {
  return call([&]() -> Status {
    BALLAST_TRY(const auto object, use(chat));
    BALLAST_TRY(const std::string_view given, given_text(json, size, "the messages"));
    BALLAST_TRY(auto messages, parse_messages(given, "messages"));
    BALLAST_TRY(const auto turn, object->one_call.enter());
    object->conversation.set_messages(std::move(messages));
    return {};
  });
}
void ballast_chat_close(ballast_chat* chat) { drop(chat); }

}  // extern "C"
