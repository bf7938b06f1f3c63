#include "ballast/text/load_tokenizer.h"
#include "bindings/c/text_object.h"

namespace ballast::c {

namespace {

struct TokensObject {
  std::vector<TokenId> ids;
  std::vector<ballast_span> offsets{};  // empty, or one for each
};

}  // namespace

template <>
struct HandleTraits<ballast_tokens> {
  using Object = TokensObject;
  static constexpr HandleKind kKind = HandleKind::kTokens;
  static constexpr const char* kName = "list of tokens";
};

namespace {

// `sizes` NULL: all end with a NUL.
Result<std::vector<std::string_view>> given_batch(const char* const* texts, const size_t* sizes, size_t count) {
  if (count != 0) BALLAST_CHECK(need(texts, "the pointer to the texts"));
  std::vector<std::string_view> batch;
  for (size_t i = 0; i < count; ++i) {
    const size_t size = sizes != nullptr ? sizes[i] : BALLAST_NUL;
    BALLAST_TRY(const std::string_view text, given_text(texts[i], size, "a text"));
    batch.push_back(text);
  }
  return batch;
}

std::shared_ptr<TokensObject> tokens_of(Encoding encoding) {
  auto tokens = std::make_shared<TokensObject>(TokensObject{std::move(encoding.ids)});
  for (const TextSpan& span : encoding.offsets) tokens->offsets.push_back({span.begin, span.end});
  return tokens;
}

// All of them, or none.
void hand_out_all(std::vector<Encoding> encodings, ballast_tokens** out) {
  size_t done = 0;
  try {
    for (; done < encodings.size(); ++done) out[done] = hand_out<ballast_tokens>(tokens_of(std::move(encodings[done])));
  } catch (...) {
    while (done-- > 0) drop(std::exchange(out[done], nullptr));
    throw;
  }
}

}  // namespace

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
ballast_error* ballast_tokenizer_encode_batch(const ballast_tokenizer* tokenizer, const char* const* texts,
                                              const size_t* sizes, size_t count, const ballast_encode_options* options,
                                              ballast_tokens** out) {
  return call([&]() -> Status {
    if (count != 0) BALLAST_CHECK(need_out(out));
    std::fill_n(out, count, nullptr);
    BALLAST_TRY(const auto object, use(tokenizer));
    BALLAST_TRY(const auto batch, given_batch(texts, sizes, count));
    BALLAST_TRY(const ballast_encode_options given, given_options(options));
    const EncodeOptions encode = {
        .special_tokens = given.special, .add_special_tokens = given.around, .offsets = given.offsets};
    BALLAST_TRY(auto encodings, object->encode_batch(batch, encode, given.threads));
    hand_out_all(std::move(encodings), out);
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
const ballast_span* ballast_tokens_offsets(const ballast_tokens* tokens) {
  return ask(tokens, static_cast<const ballast_span*>(nullptr), [](const TokensObject& object) {
    return object.offsets.empty() ? nullptr : static_cast<const ballast_span*>(object.offsets.data());
  });
}
size_t ballast_tokens_count(const ballast_tokens* tokens) {
  return ask(tokens, size_t{0}, [](const TokensObject& object) { return object.ids.size(); });
}
void ballast_tokens_close(ballast_tokens* tokens) { drop(tokens); }

}  // extern "C"
