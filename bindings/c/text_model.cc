#include "bindings/c/text_object.h"

namespace ballast::c {

namespace {

ballast_finish finish_of(StopReason reason) {
  switch (reason) {
    case StopReason::kNone: return BALLAST_FINISH_NONE;
    case StopReason::kMaxTokens: return BALLAST_FINISH_MAX_TOKENS;
    case StopReason::kStopToken: return BALLAST_FINISH_STOP_TOKEN;
    case StopReason::kContextFull: break;
  }
  return BALLAST_FINISH_CONTEXT_FULL;
}

// Hands text to a callback, as long as that wants it.
class Listener {
 public:
  Listener(ballast_text_callback callback, void* user) : callback_(callback), user_(user) {}

  // False: it wants no more.
  bool show(const std::string& text) const {
    return callback_ == nullptr || text.empty() || callback_(user_, text.c_str(), text.size());
  }

 private:
  ballast_text_callback callback_;
  void* user_;
};

Result<ballast_finish> write_text(Generator& generator, const Generation& generation, TextStream& stream,
                                  const Listener& listener) {
  for (;;) {
    if (generation.is_cancelled()) return make_error(ErrorCode::kCancelled, "interrupted");
    BALLAST_TRY(const auto token, generator.next());
    if (!token) return finish_of(generator.stop_reason());
    BALLAST_TRY(const std::string text, stream.next(token->id));
    if (!listener.show(text)) return BALLAST_FINISH_CANCELLED;
    if (stream.stopped()) return BALLAST_FINISH_STOP_TEXT;
  }
}

Result<ballast_generation> generate(const TextModel& model, std::string_view prompt, const Generation& generation,
                                    const Listener& listener) {
  TextStream stream = model.make_stream(generation.stops);
  BALLAST_TRY(Generator generator, model.start(prompt, generation.options));
  ballast_generation result = {};
  result.prompt_tokens = generator.tokens().size();
  BALLAST_TRY(result.finish, write_text(generator, generation, stream, listener));
  result.written_tokens = generator.generated();
  BALLAST_TRY(const std::string rest, stream.finish());
  if (result.finish != BALLAST_FINISH_CANCELLED && !listener.show(rest)) result.finish = BALLAST_FINISH_CANCELLED;
  return result;
}

Result<TextModelOptions> text_model_options(const ballast_model_options* options) {
  BALLAST_TRY(const ballast_model_options given, given_options(options));
  TextModelOptions made;
  BALLAST_TRY(made.load, load_options(given));
  made.tokenizer = text_or_empty(given.tokenizer);
  if (given.chat_template != nullptr) made.chat_template = GivenChatTemplate{given.chat_template, "chat_template"};
  return made;
}

}  // namespace

}  // namespace ballast::c

using namespace ballast;
using namespace ballast::c;

extern "C" {

ballast_error* ballast_text_model_open(const char* path, const ballast_model_options* options,
                                       ballast_text_model** out) {
  return call([&]() -> Status {
    BALLAST_CHECK(need_out(out));
    BALLAST_CHECK(need(path, "the path"));
    BALLAST_TRY(const TextModelOptions given, text_model_options(options));
    BALLAST_TRY(TextModel model, TextModel::open(std::string(path), given));
    log_load(model.model());
    if (const auto tokenizer = model.tokenizer()) log_notes(**tokenizer);
    std::string kind(model.model().kind());
    *out = hand_out<ballast_text_model>(
        std::make_shared<TextModelObject>(TextModelObject{std::move(model), std::move(kind)}));
    return {};
  });
}
ballast_text ballast_text_model_kind(const ballast_text_model* model) {
  return ask(model, ballast_text{"", 0}, [](const TextModelObject& object) { return to_text(object.kind); });
}
uint64_t ballast_text_model_context_length(const ballast_text_model* model) {
  return ask(model, uint64_t{0}, [](const TextModelObject& object) { return object.model.context_length(); });
}
ballast_error* ballast_text_model_tokenizer(const ballast_text_model* model, ballast_tokenizer** out) {
  return call([&]() -> Status {
    BALLAST_CHECK(need_out(out));
    BALLAST_TRY(const auto object, use(model));
    BALLAST_TRY(const Tokenizer* tokenizer, object->model.tokenizer());
    *out = hand_out<ballast_tokenizer>(std::make_shared<Tokenizer>(*tokenizer));
    return {};
  });
}
ballast_error* ballast_text_model_defaults(const ballast_text_model* model, ballast_generate_options* options) {
  return call([&]() -> Status {
    BALLAST_TRY(const auto object, use(model));
    return give(to_c(object->model.generate_options()), options);
  });
}
void ballast_text_model_close(ballast_text_model* model) { drop(model); }

ballast_error* ballast_generate(const ballast_text_model* model, const char* prompt, size_t size,
                                const ballast_generate_options* options, ballast_text_callback callback, void* user,
                                ballast_generation* out) {
  return call([&]() -> Status {
    BALLAST_TRY(const auto object, use(model));
    BALLAST_TRY(const std::string_view text, given_text(prompt, size, "the prompt"));
    if (out != nullptr) BALLAST_CHECK(check_struct_size(out->struct_size, sizeof *out));
    BALLAST_TRY(const Generation generation,
                given_generation(options, object->model, object->model.generate_options()));
    BALLAST_TRY(const ballast_generation result, generate(object->model, text, generation, Listener(callback, user)));
    return out != nullptr ? give(result, out) : Status();
  });
}

}  // extern "C"
