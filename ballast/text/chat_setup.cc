#include "ballast/text/chat_setup.h"

#include <fmt/format.h>

#include "ballast/text/generation_defaults.h"

namespace ballast {

namespace {

constexpr uint64_t kUsualAnswer = 512;  // tokens

std::string chat_mark(const Tokenizer& tokenizer, const std::string& text, std::optional<TokenId> id) {
  return !text.empty() || !id ? text : std::string(tokenizer.bytes_of(*id).value_or(""));
}

Result<FoundChatTemplate> template_for(const std::string& model_path, const std::optional<FoundChatTemplate>& given) {
  BALLAST_TRY(const auto own, find_chat_template(model_path));
  FoundChatTemplate found = own.value_or(FoundChatTemplate());
  if (given) {
    found.text = given->text;
    found.where = given->where;
  }
  if (!found.text.empty()) return found;
  return make_error(ErrorCode::kNotFound,
                    fmt::format("{}: it has no chat template, so it was not made for conversations", model_path));
}

}  // namespace

std::vector<TokenId> all_stop_tokens(std::span<const TokenId> of_model, const Tokenizer* tokenizer) {
  std::vector<TokenId> stops(of_model.begin(), of_model.end());
  if (tokenizer == nullptr) return stops;
  const std::vector<TokenId>& known = tokenizer->marks().stops;
  stops.insert(stops.end(), known.begin(), known.end());
  if (const auto end = tokenizer->find("<|endoftext|>"); end && stops.empty()) stops.push_back(*end);
  return stops;
}

Result<ChatSetup> prepare_chat(const std::string& model_path, const Tokenizer& tokenizer,
                               std::span<const TokenId> stop_tokens,
                               const std::optional<FoundChatTemplate>& chat_template) {
  BALLAST_TRY(const FoundChatTemplate found, template_for(model_path, chat_template));
  auto parsed = ChatTemplate::parse(found.text);
  if (!parsed) return std::move(parsed).error().with_context(found.where);
  ConversationOptions options;
  options.generate.max_tokens = kUsualAnswer;
  BALLAST_CHECK(assign(options.generate.sampling, find_sampling_defaults(model_path)));
  options.generate.sampling.log_probabilities = false;
  options.generate.stop_tokens = all_stop_tokens(stop_tokens, &tokenizer);
  options.stop_texts = ends_of_turns_in(found.text);
  options.bos_token = chat_mark(tokenizer, found.bos_token, found.bos_id);
  options.eos_token = chat_mark(tokenizer, found.eos_token, found.eos_id);
  return ChatSetup{std::move(*parsed), std::move(options)};
}

}  // namespace ballast
