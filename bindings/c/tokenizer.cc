#include "ballast/text/load_tokenizer.h"
#include "bindings/c/text_object.h"

namespace ballast::c {

namespace {

struct TokensObject {
  std::vector<TokenId> ids;
};

}  // namespace

template <>
struct HandleTraits<ballast_tokens> {
  using Object = TokensObject;
  static constexpr HandleKind kKind = HandleKind::kTokens;
  static constexpr const char* kName = "list of tokens";
};

}  // namespace ballast::c

using namespace ballast;
using namespace ballast::c;

extern "C" {

ballast_error* ballast_tokenizer_open(const char* path, ballast_tokenizer** out) {
  return call([&]() -> Status {
    BALLAST_CHECK(need_out(out));
    BALLAST_CHECK(need(path, "the path"));
    BALLAST_TRY(Tokenizer tokenizer, load_tokenizer(path));
    log_notes(tokenizer);
    *out = hand_out<ballast_tokenizer>(std::make_shared<Tokenizer>(std::move(tokenizer)));
    return {};
  });
}
size_t ballast_tokenizer_size(const ballast_tokenizer* tokenizer) {
  return ask(tokenizer, size_t{0}, [](const Tokenizer& object) { return object.size(); });
}
ballast_error* ballast_tokenizer_encode(const ballast_tokenizer* tokenizer, const char* text, size_t size, bool special,
                                        bool around, ballast_tokens** out) {
  return call([&]() -> Status {
    BALLAST_CHECK(need_out(out));
    BALLAST_TRY(const auto object, use(tokenizer));
    BALLAST_TRY(const std::string_view given, given_text(text, size, "the text"));
    BALLAST_TRY(auto ids, object->encode(given, {.special_tokens = special, .add_special_tokens = around}));
    *out = hand_out<ballast_tokens>(std::make_shared<TokensObject>(TokensObject{std::move(ids)}));
    return {};
  });
}
ballast_error* ballast_tokenizer_decode(const ballast_tokenizer* tokenizer, const uint32_t* ids, size_t count,
                                        bool skip_special, ballast_buffer** out) {
  return call([&]() -> Status {
    BALLAST_CHECK(need_out(out));
    BALLAST_TRY(const auto object, use(tokenizer));
    if (count != 0) BALLAST_CHECK(need(ids, "the pointer to the ids"));
    BALLAST_TRY(std::string text, object->decode({ids, count}, {.skip_special_tokens = skip_special}));
    *out = hand_out_text(std::move(text));
    return {};
  });
}
ballast_error* ballast_tokenizer_find(const ballast_tokenizer* tokenizer, const char* text, uint32_t* out) {
  return call([&]() -> Status {
    BALLAST_TRY(const auto object, use(tokenizer));
    BALLAST_CHECK(need(text, "the text"));
    BALLAST_CHECK(need(out, "the pointer to the result"));
    const auto id = object->find(text);
    if (!id) return make_error(ErrorCode::kNotFound, "no token is \"" + std::string(text) + "\"");
    *out = *id;
    return {};
  });
}
void ballast_tokenizer_close(ballast_tokenizer* tokenizer) { drop(tokenizer); }

const uint32_t* ballast_tokens_data(const ballast_tokens* tokens) {
  return ask(tokens, static_cast<const uint32_t*>(nullptr),
             [](const TokensObject& object) { return static_cast<const uint32_t*>(object.ids.data()); });
}
size_t ballast_tokens_count(const ballast_tokens* tokens) {
  return ask(tokens, size_t{0}, [](const TokensObject& object) { return object.ids.size(); });
}
void ballast_tokens_close(ballast_tokens* tokens) { drop(tokens); }

}  // extern "C"
