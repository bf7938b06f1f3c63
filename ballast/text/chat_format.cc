#include "ballast/text/chat_format.h"

#include "ballast/io/guard.h"
#include "ballast/text/encode_parts.h"
#include "ballast/text/find_chat_template.h"
#include "ballast/text/text_ends.h"

namespace ballast {

namespace {

std::string template_mark(const Tokenizer& tokenizer, const std::string& text, std::optional<TokenId> id) {
  return !text.empty() || !id ? text : std::string(tokenizer.bytes_of(*id).value_or(""));
}

}  // namespace

Result<ChatFormat> ChatFormat::open(const ModelSource& model, const Tokenizer& tokenizer) {
  return guarded([&]() -> Result<ChatFormat> {
    BALLAST_TRY(const auto found, find_chat_template(model));
    if (found) return open(model, tokenizer, found->text, found->where);
    return make_error(ErrorCode::kNotFound,
                      model.name() + ": it has no chat template, so it was not made for conversations");
  });
}

Result<ChatFormat> ChatFormat::open(const ModelSource& model, const Tokenizer& tokenizer, std::string_view text,
                                    const std::string& where) {
  return guarded([&]() -> Result<ChatFormat> {
    auto parsed = ChatTemplate::parse(text);
    if (!parsed) return std::move(parsed).error().with_context(where);
    ChatFormat format(std::move(*parsed), tokenizer);
    format.text_ = text;
    format.where_ = where;
    BALLAST_TRY(const auto found, find_chat_template(model));
    const FoundChatTemplate names = found.value_or(FoundChatTemplate());
    format.bos_token_ = template_mark(tokenizer, names.bos_token, names.bos_id);
    format.eos_token_ = template_mark(tokenizer, names.eos_token, names.eos_id);
    format.turn_ends_ = turn_end_tokens(tokenizer);
    format.stop_texts_ = turn_ends_in(text);
    return format;
  });
}

Result<std::string> ChatFormat::render(std::string_view context_json, const ClockTime& now) const {
  return template_.render(context_json, {}, now);
}

Result<std::vector<TokenId>> ChatFormat::encode(std::string_view context_json, const ClockTime& now) const {
  return guarded([&]() -> Result<std::vector<TokenId>> {
    BALLAST_TRY(const auto parts, template_.render_parts(context_json, {}, now));
    if (!parts.empty()) return encode_parts(tokenizer_, parts);
    return make_error(ErrorCode::kInvalidArgument, "the chat template makes an empty text of the conversation");
  });
}

}  // namespace ballast
